// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <deque>
#include <memory>

#include "afterimage/memory_budget.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// Memory of past reads, kept for the next ones: fresh pages cost a read as much time as its
/// checksum.
///
/// Unit     Who reads pays for what it holds. Idle memory is paid for by a budget of its own, as
/// long
///          as that has room, and never exceeds a bound.
/// Threads  Any.
class ReadBuffers : public std::enable_shared_from_this<ReadBuffers> {
 public:
  /// `budget` outlives the first of close() and the destructor.
  ReadBuffers(MemoryBudget& budget, Bytes idle) : budget_(budget), most_(idle) {}

  /// At least `size` bytes, not cleared; they come back by themselves. kNoSpace: `room` has none.
  Result<std::shared_ptr<AlignedBytes>> take(std::size_t size, MemoryBudget& room);
  /// Gives what is idle back to the system.
  void release();
  /// The same, and keeps nothing from now on.
  void close();
  [[nodiscard]] Bytes idle() const;

 private:
  void give_back(std::shared_ptr<AlignedBytes> buffer);
  /// The smallest idle one that is large enough and not much larger; none: nullptr.
  std::shared_ptr<AlignedBytes> find(std::size_t size) AFI_REQUIRES(mutex_);

  MemoryBudget& budget_;
  mutable Mutex mutex_;
  Bytes most_ AFI_GUARDED_BY(mutex_);
  Bytes held_ AFI_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<AlignedBytes>> idle_ AFI_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace afterimage
