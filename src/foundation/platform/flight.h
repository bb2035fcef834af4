// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

enum class FlightRole : unsigned char { kLeader, kWaiter };

/// State of one single flight: one caller (the leader) does the work while others wait. Kinds of
/// flights derive from it and add the result.
///
/// Threads  All calls except wait() need the lock of the SingleFlight.
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
  /// does not hold `mutex`.
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

/// The flights of one kind, and the lock that guards them. A single-flight front derives from it and
/// keeps the flights in progress, so that others find them.
template <typename F>
class SingleFlight {
 public:
  /// A leader's or waiter's part in a flight; dropping it leaves the flight.
  using Part = std::unique_ptr<F, std::function<void(F*)>>;

  Part part_in(std::shared_ptr<F> flight, FlightRole role) {
    F* const it = flight.get();
    return {it, [this, flight = std::move(flight), role](F*) {
              const MutexLock lock(mutex);
              if (flight->leave(role)) forget(*flight);
            }};
  }
  void land(F& flight) AFI_REQUIRES(mutex) {
    forget(flight);
    flight.land();
  }
  /// The leader's work failed: so do all waiters if the error is permanent.
  void fail(F& flight, const Error& error) AFI_EXCLUDES(mutex) {
    if (!is_permanent(error.code)) return;
    const MutexLock lock(mutex);
    forget(flight);
    flight.fail(error);
  }
  /// Waits until the flight has landed (false), or its leader gave up and this waiter leads it (true).
  Result<bool> wait_or_lead(F& flight, const std::stop_token& stop) AFI_EXCLUDES(mutex) {
    while (true) {
      AFI_TRY(const Flight::State ended, flight.wait(mutex, stop));
      const MutexLock lock(mutex);
      if (ended == Flight::State::kLanded) return false;
      if (flight.take_over()) return true;
    }
  }

  mutable Mutex mutex;

 protected:
  ~SingleFlight() = default;

 private:
  /// Nobody finds the flight any more.
  virtual void forget(F& flight) AFI_REQUIRES(mutex) = 0;
};

}  // namespace afterimage
