// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "foundation/platform/mutex.h"

namespace afterimage {

/// A mutex for state on which one thread works for long, in slices, while others need it for moments. With
/// a std::mutex, which is not fair, the thread that works would lock it again before one that waits has
/// woken up.
class AFI_THREAD_ANNOTATION(capability("mutex")) SlicedMutex {
 public:
  void lock() AFI_THREAD_ANNOTATION(acquire_capability()) {
    if (mutex_.try_lock()) return;
    waiting_.fetch_add(1);
    mutex_.lock();
    waiting_.fetch_sub(1);
    admitted_.fetch_add(1);
    admitted_.notify_all();
  }
  void unlock() AFI_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

  /// Between two slices: if threads wait for it, returns once one of them has had it.
  void let_waiters_in() AFI_EXCLUDES(this) {
    // Before the other load: a thread that is let in from here on changes it.
    const std::uint32_t before = admitted_.load();
    if (has_waiters()) admitted_.wait(before);
  }
  [[nodiscard]] bool has_waiters() const { return waiting_.load() > 0; }

 private:
  std::mutex mutex_;
  std::atomic<std::uint32_t> waiting_ = 0;
  std::atomic<std::uint32_t> admitted_ = 0;  // after having waited
};

}  // namespace afterimage
