// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/invalidation/invalidation_poller.h"

#include <utility>

namespace afterimage {

InvalidationPoller::InvalidationPoller(std::function<void()> poll, Duration every)
    : poll_(std::move(poll)), every_(every), thread_([this] { run(); }) {}

InvalidationPoller::~InvalidationPoller() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void InvalidationPoller::run() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      const auto stopping = [this]() AFI_REQUIRES(mutex_) { return stopping_; };
      if (changed_.wait_for(mutex_, every_, stopping)) return;
    }
    poll_();
  }
}

}  // namespace afterimage
