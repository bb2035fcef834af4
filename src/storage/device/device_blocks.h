// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <bitset>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "afterimage/memory_budget.h"
#include "foundation/platform/mutex.h"
#include "storage/device/cuda_device.h"

namespace afterimage {

/// Hands out device memory in blocks, from slabs that it takes from the device and the budget as
/// they are needed. close_to() chooses slabs that are to become empty; once their users have moved,
/// return_empty() returns them.
///
/// Errors   take: kNoSpace: the budget, the device or `keep_free` does not allow another slab.
/// Threads  Any.
class DeviceBlocks {
 public:
  static constexpr std::size_t kBlock = std::size_t{64} << 10U;
  static constexpr std::size_t kMostBlocks = 512;  // of a slab

  /// A slab is a sixteenth of the budget, at most 32 MiB.
  DeviceBlocks(CudaDevice& device, MemoryBudget& budget, Bytes keep_free);
  /// Requires that all blocks were given back.
  ~DeviceBlocks();
  DeviceBlocks(const DeviceBlocks&) = delete;
  DeviceBlocks& operator=(const DeviceBlocks&) = delete;

  static constexpr std::size_t blocks_of(std::size_t size) { return (size + kBlock - 1) / kBlock; }

  /// Spans of whole blocks but for the last, `size` bytes together. `may_grow`: else only from slabs
  /// that are there.
  Result<std::vector<DeviceSpan>> take(std::size_t size, bool may_grow = true);
  void give_back(std::span<const DeviceSpan> spans);

  /// Closes the emptiest slabs, so that the others are at most `bytes`; nothing is taken from a
  /// closed slab.
  void close_to(Bytes bytes);
  [[nodiscard]] bool is_closed(std::span<const DeviceSpan> spans) const;
  /// Opens slabs that did not become empty.
  void reopen();
  /// Returns empty slabs to the device.
  void return_empty();

  [[nodiscard]] Bytes slab() const { return Bytes(blocks_ * kBlock); }  // size of each
  [[nodiscard]] Bytes reserved() const;                                 // slabs
  [[nodiscard]] Bytes used() const;                                     // blocks

 private:
  struct Slab {
    Reservation room;
    std::bitset<kMostBlocks> used;
    bool closed = false;
  };
  using Slabs = std::map<DeviceAddress, Slab>;

  Result<void> grow() AFI_REQUIRES(mutex_);
  void take_from(Slabs::iterator slab, std::size_t& blocks, std::vector<DeviceSpan>& spans)
      AFI_REQUIRES(mutex_);
  [[nodiscard]] Slabs::const_iterator slab_of(DeviceAddress at) const AFI_REQUIRES(mutex_);
  void return_slab(Slabs::iterator slab) AFI_REQUIRES(mutex_);

  CudaDevice& device_;
  MemoryBudget& budget_;
  const Bytes keep_free_;
  const std::size_t blocks_;  // of a slab
  mutable Mutex mutex_;
  Slabs slabs_ AFI_GUARDED_BY(mutex_);
  std::set<DeviceAddress> open_ AFI_GUARDED_BY(mutex_);  // slabs with free blocks, not closed
  std::size_t free_blocks_ AFI_GUARDED_BY(mutex_) = 0;   // in them
  std::size_t used_blocks_ AFI_GUARDED_BY(mutex_) = 0;
};

}  // namespace afterimage
