// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <utility>

#include "foundation/platform/mutex.h"

namespace afterimage {

/// An immutable value that many threads read while another thread replaces it. A reader keeps the
/// value it loaded for as long as it holds the pointer.
///
/// Uses a lock rather than std::atomic<std::shared_ptr>: libstdc++ 12 releases its internal lock
/// bit in load() without release ordering, so the next store() races with that load.
///
/// Threads  Any.
/// Cost     A lock, held while a pointer is copied.
template <typename T>
class AtomicSnapshot {
 public:
  explicit AtomicSnapshot(std::shared_ptr<const T> value) : value_(std::move(value)) {}

  [[nodiscard]] std::shared_ptr<const T> load() const {
    const MutexLock lock(mutex_);
    return value_;
  }
  void store(std::shared_ptr<const T> value) {
    const MutexLock lock(mutex_);
    value_.swap(value);  // the old value is destroyed after the lock is released, with `value`
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const T> value_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
