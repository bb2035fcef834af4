// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <thread>

#include "afterimage/clock.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"

namespace afterimage {

/// Calls a function at a fixed interval, on a thread of its own, until it is destroyed.
class PeriodicTask {
 public:
  /// `work` is first called after `every`. What it uses must outlive the task.
  PeriodicTask(std::function<void()> work, Duration every);
  ~PeriodicTask();
  PeriodicTask(const PeriodicTask&) = delete;
  PeriodicTask& operator=(const PeriodicTask&) = delete;

 private:
  void run();

  const std::function<void()> work_;
  const Duration every_;
  Mutex mutex_;
  TimedCondition changed_;
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace afterimage
