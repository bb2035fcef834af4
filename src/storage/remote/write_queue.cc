// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/write_queue.h"

#include <algorithm>
#include <utility>

namespace afterimage {

WriteQueue::WriteQueue(unsigned threads, Send send) : send_(std::move(send)) {
  for (unsigned i = 0; i < std::max(threads, 1U); ++i) {
    threads_.emplace_back([this] { run(); });
  }
}

WriteQueue::~WriteQueue() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WriteQueue::push(const TierKey& key, WriteJob job) {
  std::optional<WriteJob> replaced;  // its memory is freed without the lock
  bool begins = false;
  {
    const MutexLock lock(mutex_);
    Line& line = lines_[key];
    replaced = std::exchange(line.next, std::move(job));
    ++pushed_;
    if (!replaced.has_value()) line.next_number = pushed_;
    if (replaced.has_value()) {
      ++done_;  // by the one that stands in its place
    } else if (!line.sending) {
      ready_.push_back(key);
      begins = true;
    }
  }
  if (begins) work_.notify_one();
}

void WriteQueue::run() {
  while (true) {
    TierKey key;
    WriteJob job;
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && ready_.empty()) work_.wait(mutex_);
      if (stopping_) return;
      key = ready_.front();
      ready_.pop_front();
      Line& line = lines_[key];
      job = *std::exchange(line.next, std::nullopt);
      line.sending = true;
      line.sending_number = line.next_number;
    }
    const bool arrived = send_(key, job);
    job = {};
    std::vector<std::function<void()>> then;
    {
      const MutexLock lock(mutex_);
      ++done_;
      lost_ += arrived ? 0 : 1;
      Line& line = lines_[key];
      line.sending = false;
      if (line.next.has_value()) {
        ready_.push_back(key);
      } else {
        then = close_line(key);
      }
    }
    changed_.notify_all();
    for (const auto& one : then) one();
  }
}

std::vector<std::function<void()>> WriteQueue::close_line(const TierKey& key) {
  const auto line = lines_.find(key);
  auto then = std::move(line->second.then);
  lines_.erase(line);
  return then;
}

bool WriteQueue::wait_for_room(std::uint64_t seen, Duration timeout) {
  const MutexLock lock(mutex_);
  return changed_.wait_for(mutex_, timeout, [&] { return done_ != seen; });
}

std::uint64_t WriteQueue::done() const {
  const MutexLock lock(mutex_);
  return done_;
}

bool WriteQueue::has(const TierKey& key) const {
  const MutexLock lock(mutex_);
  return lines_.contains(key);
}

bool WriteQueue::cancel(const TierKey& key, Duration timeout) {
  std::vector<std::function<void()>> then;
  std::optional<WriteJob> dropped;
  bool in_time = true;
  {
    const MutexLock lock(mutex_);
    const auto line = lines_.find(key);
    if (line == lines_.end()) return true;
    dropped = std::exchange(line->second.next, std::nullopt);
    if (dropped.has_value()) ++done_;
    if (!line->second.sending) {
      std::erase(ready_, key);
      then = close_line(key);
    } else {
      in_time = changed_.wait_for(mutex_, timeout, [&] {
        const auto now = lines_.find(key);
        return now == lines_.end() || !now->second.sending;
      });
    }
  }
  changed_.notify_all();
  for (const auto& one : then) one();
  return in_time;
}

bool WriteQueue::drain(Duration timeout) {
  const MutexLock lock(mutex_);
  const std::uint64_t last = pushed_;
  return changed_.wait_for(mutex_, timeout, [&] {
    return std::ranges::none_of(lines_, [last](const auto& known) {
      const Line& line = known.second;
      return (line.sending && line.sending_number <= last) ||
             (line.next.has_value() && line.next_number <= last);
    });
  });
}

void WriteQueue::after(const TierKey& key, std::function<void()> then) {
  {
    const MutexLock lock(mutex_);
    if (const auto line = lines_.find(key); line != lines_.end()) {
      line->second.then.push_back(std::move(then));
      return;
    }
  }
  then();
}

std::uint64_t WriteQueue::lost() const {
  const MutexLock lock(mutex_);
  return lost_;
}

}  // namespace afterimage
