// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/gateway/broadcasts.h"

namespace afterimage {

std::uint64_t Broadcasts::landed() const {
  const MutexLock lock(mutex_);
  return landed_;
}

Broadcasts::Boarded Broadcasts::board(const std::string& key, std::uint64_t landed,
                                      const std::function<std::shared_ptr<Broadcast>()>& start) {
  const MutexLock lock(mutex_);
  const auto there = broadcasts_.find(key);
  if (there != broadcasts_.end()) return {.seat = there->second->join(), .leads = false};
  if (landed_ != landed) return {};
  const auto broadcast = start();
  broadcasts_.emplace(key, broadcast);
  return {.seat = broadcast->join(), .leads = true};
}

void Broadcasts::remove(const std::string& key, const Broadcast* broadcast) {
  std::shared_ptr<Broadcast> gone;  // ends after the lock
  const MutexLock lock(mutex_);
  const auto there = broadcasts_.find(key);
  if (there == broadcasts_.end() || there->second.get() != broadcast) return;
  gone = std::move(there->second);
  broadcasts_.erase(there);
  ++landed_;
}

std::size_t Broadcasts::size() const {
  const MutexLock lock(mutex_);
  return broadcasts_.size();
}

}  // namespace afterimage
