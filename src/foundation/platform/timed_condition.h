// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <condition_variable>

#include "foundation/platform/mutex.h"

namespace afterimage {

/// A Condition whose waits end by themselves: for what the outside world may never answer, a disk
/// above all. Not for what a test should be able to hasten; that is what Clock is for.
class TimedCondition {
 public:
  /// Waits until `changed` or for about so long; whether it changed.
  template <typename Predicate>
  bool wait_for(Mutex& mutex, std::chrono::nanoseconds timeout, Predicate changed)
      AFI_REQUIRES(mutex) {
    return condition_.wait_for(mutex, timeout, changed);
  }
  void wait(Mutex& mutex) AFI_REQUIRES(mutex) { condition_.wait(mutex); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable_any condition_;
};

}  // namespace afterimage
