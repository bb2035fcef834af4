// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

#include "foundation/platform/random.h"

namespace afterimage {

/// Draws ranks 1 … count; rank r has probability proportional to r to the power of -skew.
///
/// Cost     No table: a few logarithms and powers per draw, for any count.
/// Source   Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
///          discrete distributions", 1996.
class Zipf {
 public:
  /// Requires count > 0 and skew ≥ 0; 0 is uniform.
  Zipf(std::uint64_t count, double skew);
  [[nodiscard]] std::uint64_t draw(Rng& rng) const;

 private:
  [[nodiscard]] double integral(double x) const;
  [[nodiscard]] double inverse(double y) const;
  [[nodiscard]] double density(double x) const;

  double count_;
  double skew_;
  double first_;  // areas up to the first rank and up to the last
  double last_;
  double squeeze_;
};

}  // namespace afterimage
