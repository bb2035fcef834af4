// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/periodic_task.h"

#include <utility>

namespace afterimage {

PeriodicTask::PeriodicTask(std::function<void()> work, Duration every)
    : work_(std::move(work)), every_(every), thread_([this] { run(); }) {}

PeriodicTask::~PeriodicTask() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PeriodicTask::run() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      const auto stopping = [this]() AFI_REQUIRES(mutex_) { return stopping_; };
      if (changed_.wait_for(mutex_, every_, stopping)) return;
    }
    work_();
  }
}

}  // namespace afterimage
