// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/engine_api/mean_vector.h"

#include <cmath>

#include "afterimage/result.h"

namespace afterimage {

void MeanVector::add(std::span<const float> vector) {
  if (sums_.empty()) sums_.resize(vector.size());
  AFI_CHECK(sums_.size() == vector.size());
  for (std::size_t i = 0; i < vector.size(); ++i) sums_[i] += double{vector[i]};
}

std::vector<float> MeanVector::finish() const {
  double squares = 0;
  for (const double sum : sums_) squares += sum * sum;
  if (!std::isfinite(squares) || squares <= 0) return {};
  std::vector<float> mean;
  for (const double sum : sums_) mean.push_back(static_cast<float>(sum / std::sqrt(squares)));
  return mean;
}

}  // namespace afterimage
