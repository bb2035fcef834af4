// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

#include "afterimage/units.h"

namespace afterimage {

/// Estimates how long a load takes from measured loads: a latency plus seconds per byte.
///
/// Fit      Least squares; large loads weigh less, because they vary more. The weight of a load
///          halves after 22 further loads, and after 30 s: old measurements say little. If all
///          loads had about the same size, the latency keeps its share of the time.
/// Outliers A load counts for at most 8 times its expected time, the next that is as far off for 64
///          times, and so on: one hiccup moves the estimate by a quarter, and a device that stays
///          slow is recognised after a few loads.
/// Threads  Not thread-safe.
class LoadRate {
 public:
  /// Records a load of `bytes` that took `took` and ended at `now`, on any monotonic clock.
  void add(Bytes bytes, Duration took, Duration now);

  /// Expected time of `gets` loads of `bytes` in total. 0 before the first load.
  [[nodiscard]] Duration expected(Bytes bytes, std::uint32_t gets = 1) const;

  [[nodiscard]] std::uint64_t loads() const { return loads_; }
  [[nodiscard]] Duration latency() const;
  [[nodiscard]] double seconds_per_byte() const { return seconds_per_byte_; }

 private:
  void fit();

  std::uint64_t loads_ = 0;
  Duration last_{0};
  double believed_ = 8;  // a load counts for at most so many times its expected time
  // Weighted sums over the loads x bytes long and y seconds: 1, x, y, x², xy.
  double n_ = 0;
  double x_ = 0;
  double y_ = 0;
  double xx_ = 0;
  double xy_ = 0;
  // Until loads are measured: typical values of a disk or network.
  double latency_seconds_ = 1e-3;
  double seconds_per_byte_ = 1e-9;
};

}  // namespace afterimage
