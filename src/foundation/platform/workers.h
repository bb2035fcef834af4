// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "foundation/platform/mutex.h"

namespace afterimage {

/// A pool of compute threads with a bounded queue: work that does not fit is refused at once, so
/// the caller learns immediately that the pool is overloaded.
///
/// Threads  Any, except stop() and the destructor: not from a pool thread, and one at a time.
class Workers {
 public:
  /// Hears why a piece of work ended with an exception, once the work is destroyed. On a pool thread.
  using OnException = std::function<void(const char* why)>;

  /// A `count` of 0 means 1. Without `on_exception`, an exception of the work ends the process.
  Workers(unsigned count, std::size_t queue, OnException on_exception = {});
  /// Finishes running work and drops queued work.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Does what the destructor does; post() returns false afterwards.
  void stop();
  /// False: the queue is full or the pool is stopped.
  [[nodiscard]] bool post(std::function<void()> work);
  [[nodiscard]] std::size_t waiting() const;

 private:
  void run();
  void run_contained(std::function<void()> work) const;

  const std::size_t queue_limit_;
  const OnException on_exception_;
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> queue_ AFI_GUARDED_BY(mutex_);
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace afterimage
