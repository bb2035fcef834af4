// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "storage/device/device_tier.h"

namespace afterimage {

/// One copy within device memory, as the kernel reads it; at most 64 KiB.
struct DeviceCopy {
  DeviceAddress from = 0;
  DeviceAddress to = 0;
  std::uint64_t size = 0;
};

/// A GPU through CUDA's driver API, in the context that other libraries of the process share.
///
/// Errors   kUnavailable: no driver, no such GPU, or a call failed; the message has the driver's
///          words. allocate: kNoSpace.
/// Threads  Any. A lane: one thread at a time.
class CudaDevice {
 public:
  static Result<std::unique_ptr<CudaDevice>> open(std::uint32_t index, const std::string& library);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  [[nodiscard]] Result<DeviceMemory> memory() const;
  Result<DeviceAddress> allocate(std::size_t size);
  void free(DeviceAddress memory);
  [[nodiscard]] const std::string& name() const;

  /// Whether the GPU can read this host memory by itself: allocated or registered through CUDA.
  [[nodiscard]] bool is_pinned(const std::byte* memory) const;

  /// Streams with pinned host memory. Every call returns when the GPU is done, except start_…: what they
  /// started ends in wait(), also after a failure.
  class Lane {
   public:
    static constexpr std::size_t kPinned = std::size_t{4} << 20U;

    static Result<std::unique_ptr<Lane>> create(CudaDevice& device);
    ~Lane();
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    [[nodiscard]] std::span<std::byte> pinned() { return {pinned_, kPinned}; }
    /// From pinned memory to spans of as many bytes together. It stays unchanged until wait().
    Result<void> start_upload(std::span<const std::byte> from, std::span<const DeviceSpan> to);
    /// To pinned memory, where the bytes are after wait().
    Result<void> start_download(std::span<const DeviceSpan> from, std::span<std::byte> to);
    /// From spans to others of as many bytes together, within the device. Lists the copies in pinned
    /// memory, which must not be used until wait(); the GPU begins while others are listed.
    Result<void> start_copy(std::span<const DeviceSpan> from, std::span<const DeviceSpan> to);
    Result<void> wait();
    Result<void> clear(std::span<const DeviceSpan> spans);

   private:
    explicit Lane(CudaDevice& device) : device_(device) {}
    Result<void> started(int code, const char* what);
    Result<void> launch();
    int finish();

    static constexpr std::size_t kFirstRows = 512;  // of the first launch

    CudaDevice& device_;
    std::array<void*, 2> streams_{};
    std::byte* pinned_ = nullptr;
    std::size_t rows_ = 0;                // listed in pinned memory since wait()
    std::size_t launched_ = 0;            // of them
    std::size_t launch_at_ = kFirstRows;  // when so many are listed
    std::size_t launches_ = 0;            // since wait()
  };

 private:
  struct Calls;
  class Current;
  explicit CudaDevice(std::unique_ptr<Calls> calls);

  std::unique_ptr<Calls> calls_;
};

}  // namespace afterimage
