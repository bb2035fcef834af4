// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <deque>

#include "afterimage/units.h"

namespace afterimage {

struct CircuitBreakerOptions {
  std::uint32_t failures = 5;                        // opens after so many failures
  Duration within = std::chrono::seconds(10);        // within this time
  Duration open_duration = std::chrono::seconds(5);  // stays open so long, then allows one probe
  Duration few = std::chrono::seconds(1);            // after a good probe: one of ten calls so long
  Duration some = std::chrono::seconds(2);           // then one of three calls so long, then all
};

/// Stops calls to a failing server, and after it recovers lets them through in growing shares, so
/// that the server is not overloaded by every waiting client at once.
///
/// Threads  Not thread-safe: its owner holds a lock. The caller supplies the time.
class CircuitBreaker {
 public:
  explicit CircuitBreaker(const CircuitBreakerOptions& options) : options_(options) {}

  /// Whether this call may proceed. After `open_duration`, true for one probe.
  [[nodiscard]] bool lets_through(Duration now);
  void succeeded(Duration now);
  void failed(Duration now);

  /// Open, and the next probe is not due yet.
  [[nodiscard]] bool rests(Duration now) const { return open_ && now < until_; }
  [[nodiscard]] bool open() const { return open_; }
  [[nodiscard]] std::uint64_t times_opened() const { return times_opened_; }

 private:
  CircuitBreakerOptions options_;
  std::deque<Duration> failures_;
  bool open_ = false;
  bool probing_ = false;
  bool returning_ = false;
  Duration until_{0};     // end of the open state; while probing, when another probe may start
  Duration returned_{0};  // when the ramp began
  std::uint64_t asked_ = 0;
  std::uint64_t times_opened_ = 0;
};

}  // namespace afterimage
