// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/workers.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace afterimage {

Workers::Workers(unsigned count, std::size_t queue, OnException on_exception)
    : queue_limit_(queue), on_exception_(std::move(on_exception)) {
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
    if (on_exception_) {
      run_contained(std::move(work));
    } else {
      work();
    }
  }
}

void Workers::run_contained(std::function<void()> work) const {
  std::string why;
  try {
    return work();
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = "an exception without a text";
  }
  work = nullptr;  // those that wait for it learn first
  on_exception_(why.c_str());
}

}  // namespace afterimage
