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
  std::optional<WriteJob> replaced;  // freed after the lock is released
  bool begins = false;
  {
    const MutexLock lock(mutex_);
    KeyWrites& writes = keys_[key];
    replaced = std::exchange(writes.next, std::move(job));
    ++pushed_;
    if (!replaced.has_value()) writes.next_number = pushed_;
    if (replaced.has_value()) {
      ++done_;  // the replaced job counts as finished
    } else if (!writes.sending) {
      ready_.push_back(key);
      begins = true;
    }
  }
  if (begins) work_.notify_one();
}

std::vector<WriteQueue::Write> WriteQueue::take_ready() {
  std::vector<Write> taken;
  std::size_t bytes = 0;
  while (!ready_.empty() && taken.size() < kMostWrites) {
    const TierKey key = ready_.front();
    KeyWrites& writes = keys_[key];
    const std::size_t size = std::as_const(*writes.next->value).bytes().size();
    bytes += size;
    const bool fits = Bytes(size) <= kSmall && Bytes(bytes) <= kMostBytes;
    if (!taken.empty() && !fits) break;
    ready_.pop_front();
    taken.push_back({.key = key, .job = *std::exchange(writes.next, std::nullopt)});
    writes.sending = true;
    writes.sending_number = writes.next_number;
    if (!fits) break;
  }
  return taken;
}

void WriteQueue::run() {
  while (true) {
    std::vector<Write> writing;
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && ready_.empty()) work_.wait(mutex_);
      if (stopping_) return;
      writing = take_ready();
    }
    const std::vector<bool> arrived = send_(writing);
    for (Write& one : writing) one.job = {};
    std::vector<std::function<void()>> callbacks;
    {
      const MutexLock lock(mutex_);
      for (std::size_t i = 0; i < writing.size(); ++i) {
        ++done_;
        lost_ += arrived[i] ? 0 : 1;
        KeyWrites& writes = keys_[writing[i].key];
        writes.sending = false;
        if (writes.next.has_value()) {
          ready_.push_back(writing[i].key);
          continue;
        }
        for (auto& callback : finish_key(writing[i].key)) callbacks.push_back(std::move(callback));
      }
    }
    changed_.notify_all();
    for (const auto& callback : callbacks) callback();
  }
}

std::vector<std::function<void()>> WriteQueue::finish_key(const TierKey& key) {
  const auto writes = keys_.find(key);
  auto callbacks = std::move(writes->second.callbacks);
  keys_.erase(writes);
  return callbacks;
}

bool WriteQueue::wait_for_space(std::uint64_t seen, Duration timeout) {
  const MutexLock lock(mutex_);
  return changed_.wait_for(mutex_, timeout, [&]() AFI_REQUIRES(mutex_) { return done_ != seen; });
}

std::uint64_t WriteQueue::done() const {
  const MutexLock lock(mutex_);
  return done_;
}

bool WriteQueue::has(const TierKey& key) const {
  const MutexLock lock(mutex_);
  return keys_.contains(key);
}

bool WriteQueue::cancel(const TierKey& key, Duration timeout) {
  std::vector<std::function<void()>> callbacks;
  std::optional<WriteJob> dropped;
  bool in_time = true;
  {
    const MutexLock lock(mutex_);
    const auto writes = keys_.find(key);
    if (writes == keys_.end()) return true;
    dropped = std::exchange(writes->second.next, std::nullopt);
    if (dropped.has_value()) ++done_;
    if (!writes->second.sending) {
      std::erase(ready_, key);
      callbacks = finish_key(key);
    } else {
      in_time = changed_.wait_for(mutex_, timeout, [&]() AFI_REQUIRES(mutex_) {
        const auto now = keys_.find(key);
        return now == keys_.end() || !now->second.sending;
      });
    }
  }
  changed_.notify_all();
  for (const auto& callback : callbacks) callback();
  return in_time;
}

bool WriteQueue::drain(Duration timeout) {
  const MutexLock lock(mutex_);
  const std::uint64_t last = pushed_;
  return changed_.wait_for(mutex_, timeout, [&]() AFI_REQUIRES(mutex_) {
    return std::ranges::none_of(keys_, [last](const auto& known) {
      const KeyWrites& writes = known.second;
      return (writes.sending && writes.sending_number <= last) ||
             (writes.next.has_value() && writes.next_number <= last);
    });
  });
}

void WriteQueue::when_settled(const TierKey& key, std::function<void()> callback) {
  {
    const MutexLock lock(mutex_);
    if (const auto writes = keys_.find(key); writes != keys_.end()) {
      writes->second.callbacks.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

std::uint64_t WriteQueue::lost() const {
  const MutexLock lock(mutex_);
  return lost_;
}

}  // namespace afterimage
