// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <deque>

#include "afterimage/units.h"

namespace afterimage {

struct CircuitBreakerOptions {
  std::uint32_t failure_threshold = 5;               // opens after so many failures …
  Duration window = std::chrono::seconds(10);        // … within this time
  Duration open_duration = std::chrono::seconds(5);  // stays open so long, then allows one probe
  Duration ramp_tenth = std::chrono::seconds(1);     // after a good probe: one call of ten so long
  Duration ramp_third = std::chrono::seconds(2);     // then one of three so long, then all

  /// Counts failures in a row, however long that takes, and closes at any success: for a device
  /// with one user, which needs no ramp.
  static constexpr CircuitBreakerOptions in_a_row(std::uint32_t failures, Duration open_duration) {
    return {.failure_threshold = failures,
            .window = Duration::max(),
            .open_duration = open_duration,
            .ramp_tenth = Duration(0),
            .ramp_third = Duration(0),
            .success_resets = true};
  }
  bool success_resets = false;  // see in_a_row()
};

/// Rejects calls to something that fails, lets one probe through after a while, and after a good
/// probe admits calls in growing shares, so that waiting clients do not overload a server that has
/// just recovered. The one circuit breaker of this project: servers, the disk, embedding endpoints.
///
/// Threads  Not thread-safe: its owner holds a lock. The caller supplies the time.
class CircuitBreaker {
 public:
  explicit CircuitBreaker(const CircuitBreakerOptions& options) : options_(options) {}

  /// Whether this call may proceed. After `open_duration`, true for one probe.
  [[nodiscard]] bool try_acquire(Duration now);
  void succeeded(Duration now);
  void failed(Duration now);

  /// Open, and the next probe is not due yet.
  [[nodiscard]] bool is_rejecting(Duration now) const { return open_ && now < until_; }
  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] std::uint64_t times_opened() const { return times_opened_; }

 private:
  CircuitBreakerOptions options_;
  std::deque<Duration> failures_;
  bool open_ = false;
  bool probing_ = false;
  bool ramping_ = false;
  Duration until_{0};      // end of the open state; while probing, when another probe may start
  Duration recovered_{0};  // when the ramp began
  std::uint64_t ramp_calls_ = 0;
  std::uint64_t times_opened_ = 0;
};

}  // namespace afterimage
