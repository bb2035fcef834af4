// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <utility>

#include "foundation/platform/mutex.h"

namespace afterimage {

/// What many read while somebody puts another in its place; who has read it keeps what it was.
///
/// A lock and not std::atomic<std::shared_ptr>: libstdc++ 12 lets go of the bit by which that is
/// locked without ordering what a load has read before it, and the next store races with it.
///
/// Threads  Any. Cost: a lock, held while a pointer is copied.
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
    value_.swap(value);  // the old one goes after the lock does: `value` is the caller's
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const T> value_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
