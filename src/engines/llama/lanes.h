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

/// What a sequence of the model still holds of the run before.
struct HeldRows {
  Sequence prompt;                  // with what was fed back of the answer
  std::vector<std::int32_t> after;  // the position behind each token; empty: nothing is held

  /// Whether the rows of the first `covered` tokens of `asked` are its first rows. What was not
  /// identified is never taken for the same.
  [[nodiscard]] bool begins_with(const Sequence& asked, TokenCount covered) const;
};

/// The sequences that a context has room for, lent to one request each, with what they still hold.
/// Who comes when all are lent waits; the order of those who wait is the system's.
///
/// Threads  Any. What a lane holds belongs to whom it is lent to.
class Lanes {
 public:
  explicit Lanes(std::uint32_t count) : held_(count) {
    for (std::uint32_t i = 0; i < count; ++i) free_.push_back(static_cast<std::int32_t>(i));
  }

  /// One sequence, until it goes out of scope.
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

  /// One that holds the first `covered` tokens of `asked`, or else the one that has been free for
  /// longest.
  Lane borrow(const Sequence& asked = {}, TokenCount covered = {}) {
    std::unique_lock lock(mutex_);
    is_free_.wait(lock, [this] { return !free_.empty(); });
    auto lent = std::ranges::find_if(free_, [&](std::int32_t sequence) {
      return held_[static_cast<std::size_t>(sequence)].begins_with(asked, covered);
    });
    if (lent == free_.end()) lent = free_.begin();
    const std::int32_t sequence = *lent;
    free_.erase(lent);
    return {*this, sequence};
  }

 private:
  void give_back(std::int32_t sequence) {
    {
      const std::scoped_lock lock(mutex_);
      free_.push_back(sequence);
    }
    is_free_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable is_free_;
  std::vector<std::int32_t> free_;
  std::vector<HeldRows> held_;
};

}  // namespace afterimage
