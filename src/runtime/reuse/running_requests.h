// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"

namespace afterimage {

/// Counts the requests that are running, so that somebody can wait until those that had begun by
/// then are over, however many begin meanwhile.
///
/// Threads  Any.
class RunningRequests {
 public:
  /// Counts one request until it goes. Move-only.
  class [[nodiscard]] Token {
   public:
    Token(Token&& other) noexcept : of_(std::exchange(other.of_, nullptr)), turn_(other.turn_) {}
    Token& operator=(Token other) noexcept {
      std::swap(of_, other.of_);
      std::swap(turn_, other.turn_);
      return *this;
    }
    ~Token() {
      if (of_ != nullptr) of_->end(turn_);
    }

   private:
    friend class RunningRequests;
    Token(RunningRequests& of, std::uint64_t turn) : of_(&of), turn_(turn) {}

    RunningRequests* of_;
    std::uint64_t turn_;
  };

  Token begin() {
    const MutexLock lock(mutex_);
    ++running_[turn_];
    return {*this, turn_};
  }

  /// Waits until the requests that have begun so far have ended, or for so long. Returns how many
  /// have not.
  std::uint64_t wait_for_earlier(Duration timeout) {
    const MutexLock lock(mutex_);
    const std::uint64_t last = turn_++;
    changed_.wait_for(mutex_, timeout,
                      [this, last]() AFI_REQUIRES(mutex_) { return until(last) == 0; });
    return until(last);
  }

 private:
  [[nodiscard]] std::uint64_t until(std::uint64_t last) const AFI_REQUIRES(mutex_) {
    std::uint64_t all = 0;
    for (const auto& [turn, count] : running_) all += turn <= last ? count : 0;
    return all;
  }
  void end(std::uint64_t turn) {
    {
      const MutexLock lock(mutex_);
      const auto it = running_.find(turn);
      if (--it->second == 0) running_.erase(it);
    }
    changed_.notify_all();
  }

  Mutex mutex_;
  TimedCondition changed_;
  std::uint64_t turn_ AFI_GUARDED_BY(mutex_) = 0;  // one more after each wait
  std::map<std::uint64_t, std::uint64_t> running_ AFI_GUARDED_BY(mutex_);  // by when they began
};

}  // namespace afterimage
