// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>

#include "afterimage/units.h"

namespace afterimage {

/// Time as a program needs it: a reading that never goes back. Everything that measures takes a
/// Clock.
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

}  // namespace afterimage
