// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "afterimage/sequence.h"

namespace afterimage {

/// The tokens whose rows a lane's sequence still holds from its previous request.
struct HeldRows {
  Sequence prompt;                  // including the answer tokens that were fed back
  std::vector<std::int32_t> after;  // the position after each token; empty: nothing is held

  /// Whether the rows of the first `covered` tokens of `asked` are the first rows held. Media
  /// without a content digest never match.
  [[nodiscard]] bool begins_with(const Sequence& asked, TokenCount covered) const;
};

/// The sequences of one llama.cpp context. A request borrows one sequence (a lane) at a time; each
/// lane remembers the rows left by its previous request. borrow() blocks while all lanes are in
/// use; the operating system decides which waiter is next.
///
/// Threads  Any. HeldRows belongs to the request that borrowed the lane.
class Lanes {
 public:
  explicit Lanes(std::uint32_t count) : held_(count) {
    for (std::uint32_t i = 0; i < count; ++i) free_.push_back(static_cast<std::int32_t>(i));
  }

  /// One borrowed sequence; returned when it goes out of scope.
  class Lane {
   public:
    Lane(Lanes& lanes, std::int32_t sequence) : lanes_(&lanes), sequence_(sequence) {}
    ~Lane() { lanes_->give_back(sequence_); }
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;
    [[nodiscard]] std::int32_t sequence() const { return sequence_; }
    [[nodiscard]] HeldRows& held() const {
      return lanes_->held_[static_cast<std::size_t>(sequence_)];
    }

   private:
    Lanes* lanes_;
    std::int32_t sequence_;
  };

  /// Borrows a free lane that holds the first `covered` tokens of `asked`, or else the lane that
  /// has been free longest.
  Lane borrow(const Sequence& asked = {}, TokenCount covered = {}) {
    std::unique_lock lock(mutex_);
    is_free_.wait(lock, [this] { return !free_.empty(); });
    auto lane = std::ranges::find_if(free_, [&](std::int32_t sequence) {
      return held_[static_cast<std::size_t>(sequence)].begins_with(asked, covered);
    });
    if (lane == free_.end()) lane = free_.begin();
    const std::int32_t sequence = *lane;
    free_.erase(lane);
    return {*this, sequence};
  }

  /// Lanes in use.
  [[nodiscard]] std::uint32_t busy() const {
    const std::scoped_lock lock(mutex_);
    return static_cast<std::uint32_t>(held_.size() - free_.size());
  }

 private:
  void give_back(std::int32_t sequence) {
    {
      const std::scoped_lock lock(mutex_);
      free_.push_back(sequence);
    }
    is_free_.notify_one();
  }

  mutable std::mutex mutex_;
  std::condition_variable is_free_;
  std::vector<std::int32_t> free_;
  std::vector<HeldRows> held_;
};

}  // namespace afterimage
