// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>

#include "foundation/platform/timed_condition.h"

namespace afterimage {

/// A Mutex that may be held during device I/O, so it can be locked with a timeout. Built on a
/// condition variable rather than std::timed_mutex, whose timed waits ThreadSanitizer does not see
/// with every compiler.
class AFI_THREAD_ANNOTATION(capability("mutex")) TimedMutex {
 public:
  void lock() AFI_THREAD_ANNOTATION(acquire_capability()) {
    const MutexLock lock(mutex_);
    while (held_) free_.wait(mutex_);
    held_ = true;
  }
  /// Whether the mutex was locked within `timeout`.
  [[nodiscard]] bool try_lock_for(std::chrono::nanoseconds timeout)
      AFI_THREAD_ANNOTATION(try_acquire_capability(true)) {
    const MutexLock lock(mutex_);
    if (!free_.wait_for(mutex_, timeout, [this] { return !held_; })) return false;
    held_ = true;
    return true;
  }
  void unlock() AFI_THREAD_ANNOTATION(release_capability()) {
    {
      const MutexLock lock(mutex_);
      held_ = false;
    }
    free_.notify_all();
  }

 private:
  Mutex mutex_;
  TimedCondition free_;
  bool held_ = false;  // under mutex_
};

}  // namespace afterimage
