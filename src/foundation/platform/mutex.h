// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

/// Lock annotations that clang checks under -Wthread-safety (preset `analyze`); g++ ignores them.
#if defined(__clang__)
#define AFI_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define AFI_THREAD_ANNOTATION(x)
#endif
#define AFI_GUARDED_BY(x) AFI_THREAD_ANNOTATION(guarded_by(x))
#define AFI_REQUIRES(...) AFI_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define AFI_EXCLUDES(...) AFI_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace afterimage {

class AFI_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() AFI_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() AFI_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

template <typename Lockable = Mutex>
class AFI_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Lockable& mutex) AFI_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() AFI_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Lockable& mutex_;
};

/// A condition variable for Mutex. Wake-ups may be spurious: wait in a loop.
class Condition {
 public:
  void wait(Mutex& mutex) AFI_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();  // the caller's MutexLock still owns the mutex
  }
  /// wait() for at most this long.
  void wait_for(Mutex& mutex, std::chrono::nanoseconds most) AFI_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait_for(lock, most);
    lock.release();
  }
  /// Sufficient where any single waiter can do all the pending work.
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace afterimage
