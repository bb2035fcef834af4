// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/workload/zipf.h"

#include <algorithm>
#include <cmath>

#include "afterimage/result.h"

namespace afterimage {
namespace {

/// (e^x - 1) ÷ x and log(1 + x) ÷ x, accurate near 0.
double expm1_over(double x) {
  return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2 * (1 + x / 3);
}
double log1p_over(double x) {
  return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x * (0.5 - x / 3);
}

}  // namespace

Zipf::Zipf(std::uint64_t count, double skew) : count_(static_cast<double>(count)), skew_(skew) {
  AFI_CHECK(count > 0 && skew >= 0);
  first_ = integral(1.5) - 1;
  last_ = integral(count_ + 0.5);
  squeeze_ = 2 - inverse(integral(2.5) - density(2));
}

double Zipf::integral(double x) const {
  const double log_x = std::log(x);
  return expm1_over((1 - skew_) * log_x) * log_x;
}

double Zipf::inverse(double y) const {
  const double t = std::max(y * (1 - skew_), -1.0);
  return std::exp(log1p_over(t) * y);
}

double Zipf::density(double x) const { return std::exp(-skew_ * std::log(x)); }

std::uint64_t Zipf::draw(Rng& rng) const {
  while (true) {
    const double u = last_ + rng.uniform() * (first_ - last_);
    const double x = inverse(u);
    const double rank = std::clamp(std::floor(x + 0.5), 1.0, count_);
    if (rank - x <= squeeze_ || u >= integral(rank + 0.5) - density(rank)) {
      return static_cast<std::uint64_t>(rank);
    }
  }
}

}  // namespace afterimage
