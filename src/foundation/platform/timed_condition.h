// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <condition_variable>

#include "foundation/platform/mutex.h"

namespace afterimage {

/// A Condition with a timeout, for waits on devices that may never answer, disks above all. Not for
/// timeouts that a test should control; use Clock for those.
class TimedCondition {
 public:
  /// Waits until `changed` returns true or about `timeout` has passed. Returns whether it changed.
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
