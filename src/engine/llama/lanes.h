// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace afterimage {

/// The sequences that a context has room for, lent to one request each. Who comes when all are lent
/// waits; the order of those who wait is the system's.
///
/// Threads  Any.
class Lanes {
 public:
  explicit Lanes(std::uint32_t count) {
    for (std::uint32_t i = count; i > 0; --i) free_.push_back(static_cast<std::int32_t>(i) - 1);
  }

  /// One sequence, until it goes out of scope.
  class Lane {
   public:
    Lane(Lanes& lanes, std::int32_t sequence) : lanes_(&lanes), sequence_(sequence) {}
    ~Lane() { lanes_->give_back(sequence_); }
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;
    [[nodiscard]] std::int32_t sequence() const { return sequence_; }

   private:
    Lanes* lanes_;
    std::int32_t sequence_;
  };

  Lane borrow() {
    std::unique_lock lock(mutex_);
    is_free_.wait(lock, [this] { return !free_.empty(); });
    const std::int32_t sequence = free_.back();
    free_.pop_back();
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
};

}  // namespace afterimage
