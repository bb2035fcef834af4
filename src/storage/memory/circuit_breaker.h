// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <deque>

#include "afterimage/units.h"

namespace afterimage {

struct CircuitBreakerOptions {
  std::uint32_t failures = 5;                        // so many
  Duration within = std::chrono::seconds(10);        // in so long,
  Duration open_duration = std::chrono::seconds(5);  // and nobody asks for so long; then one does
  Duration few = std::chrono::seconds(1);            // it was well: one of ten asks for so long,
  Duration some = std::chrono::seconds(2);           // then one of three for so long, then all
};

/// Keeps callers away from a server that fails, and lets them come back a few at a time, so that a
/// server that has just recovered is not overrun by all who waited.
///
/// Threads  Not thread-safe; its owner's lock. Time is the caller's.
class CircuitBreaker {
 public:
  explicit CircuitBreaker(const CircuitBreakerOptions& options) : options_(options) {}

  /// Whether this call may go; true for one probe after a rest.
  [[nodiscard]] bool lets_through(Duration now);
  void succeeded(Duration now);
  void failed(Duration now);

  /// No call would go now, and the next probe is still to come.
  [[nodiscard]] bool rests(Duration now) const { return open_ && now < until_; }
  [[nodiscard]] bool open() const { return open_; }
  [[nodiscard]] std::uint64_t times_opened() const { return times_opened_; }

 private:
  CircuitBreakerOptions options_;
  std::deque<Duration> failures_;
  bool open_ = false;
  bool probing_ = false;
  bool returning_ = false;
  Duration until_{0};     // of the rest; while probing, when another may probe
  Duration returned_{0};  // the ramp began
  std::uint64_t asked_ = 0;
  std::uint64_t times_opened_ = 0;
};

}  // namespace afterimage
