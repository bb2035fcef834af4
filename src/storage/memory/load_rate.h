// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

#include "afterimage/units.h"

namespace afterimage {

/// How long a load takes, learned from loads: a latency and so many seconds a byte.
///
/// Fit      Least squares; what is large weighs less, because it strays more. A load counts half
///          after 22 others, and half after 30 s: what a device did an hour ago says little. Where
///          all loads were of about one size, the latency keeps its part of the time.
/// Outliers One load counts for at most 8 times what was expected of it, the next that is as far
///          off for 64 times, and so on: a hiccup moves the estimate by a quarter, and a device
///          that stays slow is known after a few loads.
/// Threads  Not thread-safe.
class LoadRate {
 public:
  /// A load of `bytes` took `took` and ended at `now`, on any clock that does not go back.
  void add(Bytes bytes, Duration took, Duration now);

  /// What `gets` loads of `bytes` together are expected to take. 0 before the first.
  [[nodiscard]] Duration expected(Bytes bytes, std::uint32_t gets = 1) const;

  [[nodiscard]] std::uint64_t loads() const { return loads_; }
  [[nodiscard]] Duration latency() const;
  [[nodiscard]] double seconds_per_byte() const { return seconds_per_byte_; }

 private:
  void fit();

  std::uint64_t loads_ = 0;
  Duration last_{0};
  double believed_ = 8;  // so many times what was expected
  // Weighted sums over the loads x bytes long and y seconds: 1, x, y, x², xy.
  double n_ = 0;
  double x_ = 0;
  double y_ = 0;
  double xx_ = 0;
  double xy_ = 0;
  // Before anything is measured, the proportions of a disk or a network; no more than that.
  double latency_seconds_ = 1e-3;
  double seconds_per_byte_ = 1e-9;
};

}  // namespace afterimage
