// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "afterimage/units.h"

namespace afterimage {

/// A monotonic clock. Everything that measures time takes a Clock.
///
/// Unit     Nanoseconds since an arbitrary start.
/// Threads  Any.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Duration now() const = 0;
};

/// The machine's monotonic clock.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] Duration now() const override;
};

/// Stands still until a test or a replay moves it.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] Duration now() const override { return Duration(now_.load()); }
  void advance(Duration step) { now_ += step.count(); }

 private:
  std::atomic<Duration::rep> now_{0};
};

/// UTC time since 1970, without leap seconds.
using WallTime = std::chrono::sys_time<Duration>;

/// The time of day. For records and for timestamps from other machines only: it may jump in either
/// direction, so durations are never measured with it.
///
/// Threads  Any.
class WallClock {
 public:
  virtual ~WallClock() = default;
  [[nodiscard]] virtual WallTime now() const = 0;
};

/// `time` in RFC 3339 format, to the microsecond: "2026-11-22T08:15:30.000250Z".
[[nodiscard]] std::string rfc3339(WallTime time);

}  // namespace afterimage
