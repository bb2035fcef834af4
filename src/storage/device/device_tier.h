// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"

namespace afterimage {

/// An address in the memory of the tier's GPU, as CUDA's CUdeviceptr.
using DeviceAddress = std::uint64_t;

struct DeviceTierOptions {
  std::uint32_t device = 0;   // index of the GPU, as CUDA counts
  Bytes keep_free = 512_MiB;  // of the GPU's memory: the tier takes no more when less is free
  std::uint32_t copies = 8;   // copies to and from host memory at a time, each with a thread and
                              // 4 MiB of pinned memory
  std::string library = "libcuda.so.1";
};

/// Of the whole GPU; what other programs hold is not free.
struct DeviceMemory {
  Bytes free;
  Bytes total;
};

/// Consecutive bytes in device memory.
struct DeviceSpan {
  DeviceAddress at = 0;
  std::size_t size = 0;
  bool operator==(const DeviceSpan&) const = default;
};

/// An entry that is to be copied within the GPU, and where to. Its size must match exactly.
struct DevicePlace {
  TierKey key;
  std::span<const DeviceSpan> to;  // filled in order; for KV, the pages of a sequence
};

/// Entries in the memory of a GPU (NVIDIA's driver, loaded at run time; CUDA is not needed to build
/// it). To programs without a GPU of their own it is a tier like others, faster than a disk. A
/// program that computes on the same GPU, in the same process, also copies entries to and from its
/// own device memory.
///
/// Memory is taken from the GPU in slabs of 32 MiB and used in blocks of 64 KiB, so an entry may lie
/// in several places. Before slabs are returned to the GPU, the remaining entries are moved
/// together.
///
/// Unit     The slabs, charged to a MemoryBudget. As a BudgetClient it follows the budget: a
///          PressureController with an NvmlGauge makes it give way to other programs.
/// Errors   open: kUnavailable: no driver, no such GPU, or the driver fails; the message says which.
///          As Tier. A driver that fails later costs hits; stats() say why. Bytes that come from
///          host memory are verified when they return to it. Bytes from device memory are verified
///          by the GPU's own ECC alone.
/// Threads  Any. Copies run outside the lock, except while memory is given back.
/// Cost     From host memory: a copy into pinned memory, a checksum and a transfer, in pieces of
///          4 MiB by several threads. Within the GPU: one kernel for all spans.
/// Source   src/storage/device/DESIGN.md
class DeviceTier final : public Tier, public BudgetClient {
 public:
  /// `budget` outlives the tier.
  static Result<std::unique_ptr<DeviceTier>> open(const DeviceTierOptions& options,
                                                  MemoryBudget& budget);
  ~DeviceTier() override;
  DeviceTier(const DeviceTier&) = delete;
  DeviceTier& operator=(const DeviceTier&) = delete;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    return put_pieces(key, meta, {&bytes, 1});
  }
  Result<void> put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  /// Also overwrites the bytes.
  Result<void> erase(const TierKey& key) override;
  Result<EntryCount> erase_matching(const EntryFilter& filter) override;
  Result<void> flush() override { return {}; }
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override;
  [[nodiscard]] TierStats stats() const override;

  /// get() into memory of the caller, which is faster if that is pinned, as a put from pinned memory
  /// is. False: a miss; what `to` holds then is not to be used. kInvalidArgument: `to` has another
  /// size than the entry.
  Result<bool> get_to_host(const TierKey& key, std::span<std::byte> to);
  /// Puts an entry that lies in device memory. The caller's work on `from` must be complete; when
  /// the call returns, so is the copy.
  Result<void> put_from_device(const TierKey& key, const EntryMeta& meta,
                               std::span<const DeviceSpan> from);
  /// Copies entries to device memory of the caller, all at once. For each place, whether its entry
  /// was there; the others' memory is unchanged. kInvalidArgument: a place has another size than
  /// its entry; nothing is copied.
  Result<std::vector<bool>> get_to_device(std::span<const DevicePlace> places);

  [[nodiscard]] std::optional<EvictionCandidate> eviction_candidate() override;
  Bytes evict_bytes(Bytes wanted) override;
  Bytes trim_to_budget() override;
  void block_admission(bool blocked) override;

  /// Of the GPU, such as "NVIDIA H100".
  [[nodiscard]] Result<DeviceMemory> device_memory() const;

 private:
  struct State;
  explicit DeviceTier(std::unique_ptr<State> state);
  [[nodiscard]] Result<void> may_put(const EntryMeta& meta) const;

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
