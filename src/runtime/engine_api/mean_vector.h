// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace afterimage {

/// The mean of vectors of the same size, scaled to length 1. Sums are in double and in the order of
/// the calls, so that the same vectors give the same bits.
class MeanVector {
 public:
  void add(std::span<const float> vector);
  /// Empty if there is none, or their sum has no direction.
  [[nodiscard]] std::vector<float> finish() const;

 private:
  std::vector<double> sums_;
};

}  // namespace afterimage
