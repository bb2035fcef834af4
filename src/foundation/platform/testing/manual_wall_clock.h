// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>

#include "afterimage/clock.h"

namespace afterimage::testing {

/// Stands still until a test sets it.
class ManualWallClock final : public WallClock {
 public:
  explicit ManualWallClock(WallTime now = WallTime()) : now_(now.time_since_epoch().count()) {}
  [[nodiscard]] WallTime now() const override { return WallTime(Duration(now_.load())); }
  void set(WallTime now) { now_ = now.time_since_epoch().count(); }

 private:
  std::atomic<Duration::rep> now_;
};

}  // namespace afterimage::testing
