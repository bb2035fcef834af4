// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "afterimage/result.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// Whether an error is a property of the work itself, so that every retry fails the same way. Other
/// errors may affect only one caller.
[[nodiscard]] constexpr bool is_permanent(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kLimitExceeded:
    case ErrorCode::kCorruption:
    case ErrorCode::kUnsupported:
      return true;
    case ErrorCode::kNoSpace:
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
    case ErrorCode::kCancelled:
      return false;
  }
  return false;
}

enum class FlightRole : unsigned char { kLeader, kWaiter };

/// State of one single flight: one caller (the leader) does the work while others wait.
/// Single-flight fronts derive from it, add the result, and hold it under a key while it is in
/// progress. Each leader and waiter holds a part: a unique_ptr whose deleter calls leave().
///
/// Threads  All calls except wait() need the front's lock.
class Flight {
 public:
  enum class State : unsigned char {
    kLed,       // a leader is working
    kOrphaned,  // the leader gave up
    kLanded,    // done; the result is available
    kFailed,    // failed for all waiters
  };

  [[nodiscard]] bool is_led() const { return state_ == State::kLed; }
  [[nodiscard]] bool awaited() const { return waiting_ > 0; }
  void join() { ++waiting_; }
  /// True: the leader gave up and the caller is the leader now.
  [[nodiscard]] bool take_over() {
    if (state_ != State::kOrphaned) return false;
    state_ = State::kLed;
    return true;
  }

  void land() { settle(State::kLanded); }
  void fail(const Error& error) {
    error_ = error;
    settle(State::kFailed);
  }
  /// A waiter leaves, or the leader, which has given up unless the flight landed or failed. True:
  /// nobody is left to end the flight, so the front drops it.
  [[nodiscard]] bool leave(FlightRole role) {
    if (role == FlightRole::kWaiter) return --waiting_ == 0 && state_ == State::kOrphaned;
    if (state_ != State::kLed) return false;
    settle(State::kOrphaned);
    return !awaited();
  }

  /// Blocks while there is a leader. kLanded, or kOrphaned: another waiter may have taken over by the
  /// time it returns. The flight's error if it failed; kCancelled: `stop` was requested. The caller
  /// does not hold `mutex`, which is the front's lock.
  Result<State> wait(Mutex& mutex, const std::stop_token& stop) AFI_EXCLUDES(mutex) {
    const std::stop_callback wake(stop, [&] {
      const MutexLock lock(mutex);
      changed_.notify_all();
    });
    const MutexLock lock(mutex);
    while (state_ == State::kLed) {
      if (stop.stop_requested()) {
        return afterimage::fail(ErrorCode::kCancelled, "the request was cancelled while it waited");
      }
      changed_.wait(mutex);
    }
    if (state_ == State::kFailed) return std::unexpected(*error_);
    return state_;
  }

 private:
  void settle(State state) {
    state_ = state;
    changed_.notify_all();
  }

  State state_ = State::kLed;
  std::uint64_t waiting_ = 0;
  std::optional<Error> error_;
  Condition changed_;
};

}  // namespace afterimage
