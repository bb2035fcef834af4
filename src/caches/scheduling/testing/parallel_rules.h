// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "caches/scheduling/parallel_advice.h"

namespace afterimage::testing {

/// The rule of the original VisualKVCache, for comparison: whether it recommends data mode. It
/// ignores the model's size and the deployment, and requires 512 pixels on both sides.
inline bool seed_rule(std::uint32_t images, std::uint32_t width, std::uint32_t height,
                      std::uint32_t depth) {
  if (images >= 10 && width <= 256 && height <= 256) return false;
  return images >= 2 || (width >= 512 && height >= 512) || depth >= 45;
}

/// Score of a rule on the measurements. Gain and regret are means in percentage points.
struct ParallelRuleScore {
  std::size_t workloads = 0;
  std::size_t right = 0;  // workloads for which it chose the faster mode
  double gain = 0;        // over weights mode everywhere
  double regret = 0;      // gain of an oracle minus this gain
};
using ParallelRule = std::function<bool(const ParallelMeasurement&)>;  // true: data mode

inline ParallelRuleScore parallel_advice_regret(const ParallelRule& rule) {
  const auto cells = amd_parallel_measurements();
  ParallelRuleScore score{.workloads = cells.size()};
  for (const ParallelMeasurement& cell : cells) {
    const bool data = rule(cell);
    const double gained = data ? cell.gain_percent : 0;
    if (data == (cell.gain_percent > 0)) ++score.right;
    score.gain += gained;
    score.regret += std::max(0.0, cell.gain_percent) - gained;
  }
  score.gain /= static_cast<double>(cells.size());
  score.regret /= static_cast<double>(cells.size());
  return score;
}

}  // namespace afterimage::testing
