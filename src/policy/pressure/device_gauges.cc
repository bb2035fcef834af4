// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "afterimage/pressure.h"
#include "foundation/platform/shared_library.h"
#include "policy/pressure/gauges.h"

namespace afterimage {
namespace {

std::unexpected<Error> unavailable(std::string message) {
  return fail(ErrorCode::kUnavailable, std::move(message));
}

/// As nvml.h lays it out.
struct NvmlMemory {
  unsigned int version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
constexpr unsigned int kNvmlMemoryVersion =
    static_cast<unsigned int>(sizeof(NvmlMemory)) | (2U << 24U);

constexpr unsigned int kRocmVram = 0;  // RSMI_MEM_TYPE_VRAM

}  // namespace

struct NvmlGauge::Calls {
  SharedLibrary library;
  int (*start)() = nullptr;
  int (*stop)() = nullptr;
  int (*device)(unsigned int, void**) = nullptr;
  int (*memory)(void*, void*) = nullptr;  // an NvmlMemory
};

NvmlGauge::NvmlGauge(std::unique_ptr<Calls> calls, void* device)
    : calls_(std::move(calls)), device_(device) {}

NvmlGauge::~NvmlGauge() { calls_->stop(); }

Result<std::unique_ptr<NvmlGauge>> NvmlGauge::open(std::uint32_t device,
                                                   const std::string& library) {
  AFI_TRY(SharedLibrary loaded, SharedLibrary::open(library));
  auto calls = std::make_unique<Calls>(Calls{.library = std::move(loaded)});
  AFI_TRY_VOID(calls->library.bind(calls->start, "nvmlInit_v2"));
  AFI_TRY_VOID(calls->library.bind(calls->stop, "nvmlShutdown"));
  AFI_TRY_VOID(calls->library.bind(calls->device, "nvmlDeviceGetHandleByIndex_v2"));
  AFI_TRY_VOID(calls->library.bind(calls->memory, "nvmlDeviceGetMemoryInfo_v2"));
  if (const int code = calls->start(); code != 0) {
    return unavailable(fmt::format("NVML does not start (code {}): is the driver loaded?", code));
  }
  void* handle = nullptr;
  const int code = calls->device(device, &handle);
  std::unique_ptr<NvmlGauge> gauge(new NvmlGauge(std::move(calls), handle));
  if (code != 0) return unavailable(fmt::format("NVML has no device {} (code {})", device, code));
  return gauge;
}

Result<GaugeReading> NvmlGauge::read() {
  NvmlMemory memory{};
  memory.version = kNvmlMemoryVersion;
  if (const int code = calls_->memory(device_, &memory); code != 0) {
    return unavailable(fmt::format("NVML cannot read the memory information (code {})", code));
  }
  // Drivers differ in whether `used` includes their own reserve; `free` means the same in all.
  const Bytes total(memory.total - std::min(memory.reserved, memory.total));
  if (Bytes(memory.free) > total) {
    return fail(ErrorCode::kCorruption,
                fmt::format("NVML reports {} of {} bytes free, which cannot be", memory.free,
                            total.value()));
  }
  return checked({.total = total, .used = total - Bytes(memory.free)}, name());
}

struct RocmGauge::Calls {
  SharedLibrary library;
  int (*start)(std::uint64_t) = nullptr;
  int (*stop)() = nullptr;
  int (*total)(std::uint32_t, unsigned int, std::uint64_t*) = nullptr;
  int (*used)(std::uint32_t, unsigned int, std::uint64_t*) = nullptr;
};

RocmGauge::RocmGauge(std::unique_ptr<Calls> calls, std::uint32_t device)
    : calls_(std::move(calls)), device_(device) {}

RocmGauge::~RocmGauge() { calls_->stop(); }

Result<std::unique_ptr<RocmGauge>> RocmGauge::open(std::uint32_t device,
                                                   const std::string& library) {
  AFI_TRY(SharedLibrary loaded, SharedLibrary::open(library));
  auto calls = std::make_unique<Calls>(Calls{.library = std::move(loaded)});
  AFI_TRY_VOID(calls->library.bind(calls->start, "rsmi_init"));
  AFI_TRY_VOID(calls->library.bind(calls->stop, "rsmi_shut_down"));
  AFI_TRY_VOID(calls->library.bind(calls->total, "rsmi_dev_memory_total_get"));
  AFI_TRY_VOID(calls->library.bind(calls->used, "rsmi_dev_memory_usage_get"));
  if (const int code = calls->start(0); code != 0) {
    return unavailable(
        fmt::format("ROCm SMI does not start (code {}): is the driver loaded?", code));
  }
  std::unique_ptr<RocmGauge> gauge(new RocmGauge(std::move(calls), device));
  if (auto first = gauge->read(); !first.has_value()) return std::unexpected(first.error());
  return gauge;
}

Result<GaugeReading> RocmGauge::read() {
  std::uint64_t total = 0;
  std::uint64_t used = 0;
  int code = calls_->total(device_, kRocmVram, &total);
  if (code == 0) code = calls_->used(device_, kRocmVram, &used);
  if (code != 0) {
    return unavailable(
        fmt::format("ROCm SMI cannot read the memory of device {} (code {})", device_, code));
  }
  return checked({.total = Bytes(total), .used = Bytes(used)}, name());
}

}  // namespace afterimage
