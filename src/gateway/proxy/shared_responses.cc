// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/shared_responses.h"

#include <algorithm>

namespace afterimage {

std::uint64_t SharedResponses::landed() const {
  const MutexLock lock(mutex_);
  return landed_;
}

SharedResponses::Joined SharedResponses::join_or_start(
    const std::string& key, std::uint64_t landed,
    const std::function<std::shared_ptr<SharedResponse>()>& start) {
  const MutexLock lock(mutex_);
  const auto there = broadcasts_.find(key);
  if (there != broadcasts_.end()) return {.seat = there->second->join(), .leads = false};
  if (landed_ != landed) return {};
  const auto broadcast = start();
  broadcasts_.emplace(key, broadcast);
  return {.seat = broadcast->join(), .leads = true};
}

void SharedResponses::remove(const std::string& key, const SharedResponse* broadcast) {
  std::shared_ptr<SharedResponse> gone;  // ends after the lock
  const MutexLock lock(mutex_);
  const auto there = broadcasts_.find(key);
  if (there == broadcasts_.end() || there->second.get() != broadcast) return;
  gone = std::move(there->second);
  broadcasts_.erase(there);
  ++landed_;
}

void SharedResponses::remember(const std::shared_ptr<SharedResponse>& broadcast) {
  const MutexLock lock(mutex_);
  if (remembered_.size() >= tidy_at_) {
    std::erase_if(remembered_, [](const auto& one) { return one.expired(); });
    tidy_at_ = std::max<std::size_t>(64, 2 * remembered_.size());
  }
  remembered_.push_back(broadcast);
}

void SharedResponses::forget_all() {
  std::vector<std::shared_ptr<SharedResponse>> all;
  {
    const MutexLock lock(mutex_);
    for (auto& [key, broadcast] : broadcasts_) all.push_back(std::move(broadcast));
    broadcasts_.clear();
    for (const auto& one : remembered_) {
      if (auto broadcast = one.lock()) all.push_back(std::move(broadcast));
    }
    remembered_.clear();
  }
  for (const auto& broadcast : all) broadcast->forget_all();
}

std::size_t SharedResponses::size() const {
  const MutexLock lock(mutex_);
  return broadcasts_.size();
}

}  // namespace afterimage
