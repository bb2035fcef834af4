// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <deque>
#include <memory>

#include "afterimage/memory_budget.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// Pool of read buffers that are reused: touching fresh pages costs a read as much time as its
/// checksum.
///
/// Unit     Buffers in use are charged to the reader. Idle buffers are charged to the pool's own
///          budget, as long as that has space, and never exceed a bound.
/// Threads  Any.
class ReadBuffers : public std::enable_shared_from_this<ReadBuffers> {
 public:
  /// `budget` must outlive the first of close() and the destructor.
  ReadBuffers(MemoryBudget& budget, Bytes idle) : budget_(budget), most_(idle) {}

  /// A buffer of at least `size` bytes, not cleared, that returns itself to the pool when dropped.
  /// kNoSpace: `room` is full.
  Result<std::shared_ptr<AlignedBytes>> take(std::size_t size, MemoryBudget& room);
  /// Frees all idle buffers.
  void release();
  /// Frees all idle buffers and pools none from now on.
  void close();
  [[nodiscard]] Bytes idle() const;

 private:
  void give_back(std::shared_ptr<AlignedBytes> buffer);
  /// The smallest idle buffer that is large enough and not much larger; nullptr if there is none.
  std::shared_ptr<AlignedBytes> find(std::size_t size) AFI_REQUIRES(mutex_);

  MemoryBudget& budget_;
  mutable Mutex mutex_;
  Bytes most_ AFI_GUARDED_BY(mutex_);
  Bytes held_ AFI_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<AlignedBytes>> idle_ AFI_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace afterimage
