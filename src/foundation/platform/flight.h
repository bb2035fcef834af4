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

/// Whether an error tells of the work itself: whoever tries again meets it again. Any other may be
/// one worker's misfortune.
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
    case ErrorCode::kCancelled:
      return false;
  }
  return false;
}

/// A piece of work that one does and others wait for: what all single flights have in common. A
/// front derives from it, adds what has landed, and keeps it under a key while it is in the air.
///
/// Threads  Everything but wait() under the front's lock.
class Flight {
 public:
  enum class State : unsigned char {
    kLed,       // somebody is at it
    kOrphaned,  // whoever was gave up; one of those who wait takes over
    kLanded,
    kFailed,  // for everybody: see error()
  };

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool awaited() const { return waiting_ > 0; }
  /// Requires kFailed.
  [[nodiscard]] const Error& error() const { return *error_; }

  void join() { ++waiting_; }
  /// One who joined goes. True: it was the last, and what waited for it may go.
  [[nodiscard]] bool leave() { return --waiting_ == 0; }
  /// True: it was an orphan, and the caller leads now.
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

  /// Blocks while somebody leads, until `stop` is requested. Somebody may lead again as soon as it
  /// returns: look under the lock. The caller has joined and does not hold `mutex`, the front's.
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
