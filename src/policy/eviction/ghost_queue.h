// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <utility>

namespace afterimage {

/// Keys of evicted entries; the oldest are dropped first. Key 0 (unknown) is never stored.
class GhostQueue {
 public:
  void push(std::uint64_t key) {
    if (key == 0) return;
    places_[key] = ++pushed_;
    queue_.emplace_back(key, pushed_);
  }
  /// Removes the key. True if it was present.
  bool take(std::uint64_t key) { return places_.erase(key) > 0; }
  void trim(std::uint64_t limit) {
    while (!queue_.empty() && (places_.size() > limit || is_stale(queue_.front()))) {
      if (!is_stale(queue_.front())) places_.erase(queue_.front().first);
      queue_.pop_front();
    }
    if (queue_.size() > 2 * limit + 64) std::erase_if(queue_, [&](auto& p) { return is_stale(p); });
  }
  [[nodiscard]] std::uint64_t size() const { return places_.size(); }

 private:
  [[nodiscard]] bool is_stale(const std::pair<std::uint64_t, std::uint64_t>& place) const {
    const auto found = places_.find(place.first);
    return found == places_.end() || found->second != place.second;
  }

  boost::unordered_flat_map<std::uint64_t, std::uint64_t> places_;  // key to its latest push
  std::deque<std::pair<std::uint64_t, std::uint64_t>> queue_;
  std::uint64_t pushed_ = 0;
};

}  // namespace afterimage
