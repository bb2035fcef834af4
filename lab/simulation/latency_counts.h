// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <vector>

#include "afterimage/units.h"

namespace afterimage {

/// A histogram of durations with 1 % resolution, in a few kilobytes.
class LatencyCounts {
 public:
  void add(Duration took);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] Duration mean() const;
  /// The duration that a share of all values, in [0, 1], does not exceed. 0 s if there are none.
  [[nodiscard]] Duration quantile(double share) const;

 private:
  std::vector<std::uint64_t> counts_;  // by size
  std::uint64_t count_ = 0;
  double total_seconds_ = 0;
};

}  // namespace afterimage
