// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>

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

/// State of one single flight: one caller (the leader) does the work while others wait.
/// Single-flight fronts derive from it, add the result, and hold it under a key while it is in
/// progress.
///
/// Threads  All calls except wait() need the front's lock.
class Flight {
 public:
  enum class State : unsigned char {
    kLed,       // a leader is working
    kOrphaned,  // the leader gave up; one of the waiters takes over
    kLanded,    // done; the result is available
    kFailed,    // failed for all waiters: see error()
  };

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool awaited() const { return waiting_ > 0; }
  /// Requires kFailed.
  [[nodiscard]] const Error& error() const { return *error_; }

  void join() { ++waiting_; }
  /// A waiter leaves. True: it was the last one, so the flight can be discarded.
  [[nodiscard]] bool leave() { return --waiting_ == 0; }
  /// True: the flight was orphaned and the caller is its leader now.
  [[nodiscard]] bool take_over() {
    if (state_ != State::kOrphaned) return false;
    state_ = State::kLed;
    return true;
  }

  void land() { settle(State::kLanded); }
  void fail(Error error) {
    error_ = std::move(error);
    settle(State::kFailed);
  }
  void orphan() { settle(State::kOrphaned); }

  /// Blocks while there is a leader, until `stop` is requested. Another leader may have taken over
  /// by the time it returns: check the state under the lock. The caller has joined and does not
  /// hold `mutex`, which is the front's lock.
  void wait(Mutex& mutex, const std::stop_token& stop) AFI_EXCLUDES(mutex) {
    const std::stop_callback wake(stop, [&] {
      const MutexLock lock(mutex);
      changed_.notify_all();
    });
    const MutexLock lock(mutex);
    while (state_ == State::kLed && !stop.stop_requested()) changed_.wait(mutex);
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
