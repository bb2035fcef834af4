// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/shared_responses.h"

#include <algorithm>

namespace afterimage {

std::uint64_t SharedResponses::completed() const {
  const MutexLock lock(mutex_);
  return completed_;
}

SharedResponses::Joined SharedResponses::join_or_start(
    const JoiningKey& key, std::optional<std::uint64_t> before,
    const std::function<std::shared_ptr<SharedResponse>()>& start) {
  const MutexLock lock(mutex_);
  const auto there = responses_.find(key);
  if (there != responses_.end()) return {.subscriber = there->second->join(), .leads = false};
  if (before.has_value() && completed_ != *before) return {};
  const auto response = start();
  responses_.emplace(key, response);
  return {.subscriber = response->join(), .leads = true};
}

void SharedResponses::remove(const JoiningKey& key, const SharedResponse* response) {
  std::shared_ptr<SharedResponse> gone;  // ends after the lock
  const MutexLock lock(mutex_);
  const auto there = responses_.find(key);
  if (there == responses_.end() || there->second.get() != response) return;
  gone = std::move(there->second);
  responses_.erase(there);
  ++completed_;
}

void SharedResponses::remember(const std::shared_ptr<SharedResponse>& response) {
  const MutexLock lock(mutex_);
  if (remembered_.size() >= prune_at_) {
    std::erase_if(remembered_, [](const auto& one) { return one.expired(); });
    prune_at_ = std::max<std::size_t>(64, 2 * remembered_.size());
  }
  remembered_.push_back(response);
}

void SharedResponses::forget_all() {
  std::vector<std::shared_ptr<SharedResponse>> all;
  {
    const MutexLock lock(mutex_);
    for (auto& [key, response] : responses_) all.push_back(std::move(response));
    responses_.clear();
    for (const auto& one : remembered_) {
      if (auto response = one.lock()) all.push_back(std::move(response));
    }
    remembered_.clear();
  }
  for (const auto& response : all) response->forget_all();
}

std::size_t SharedResponses::size() const {
  const MutexLock lock(mutex_);
  return responses_.size();
}

std::uint64_t SharedResponses::subscribers() const {
  const MutexLock lock(mutex_);
  std::uint64_t all = 0;
  for (const auto& [key, response] : responses_) all += response->subscribers();
  return all;
}

}  // namespace afterimage
