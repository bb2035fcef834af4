// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/workers.h"

#include <algorithm>
#include <utility>

namespace afterimage {

Workers::Workers(unsigned count, std::size_t queue) : queue_limit_(queue) {
  for (unsigned i = 0; i < std::max(1U, count); ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool Workers::post(std::function<void()> work) {
  const MutexLock lock(mutex_);
  if (stopping_ || queue_.size() >= queue_limit_) return false;
  queue_.push_back(std::move(work));
  changed_.notify_all();
  return true;
}

std::size_t Workers::waiting() const {
  const MutexLock lock(mutex_);
  return queue_.size();
}

void Workers::run() {
  while (true) {
    std::function<void()> work;
    {
      const MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) changed_.wait(mutex_);
      if (stopping_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace afterimage
