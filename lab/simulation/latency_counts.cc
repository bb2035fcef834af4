// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/latency_counts.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

namespace afterimage {
namespace {

constexpr unsigned kStepBits = 6;  // 64 buckets per power of two
constexpr std::uint64_t kSteps = 1U << kStepBits;

/// The bucket of a duration: exact below 64 ns, then by the leading bits.
std::size_t place_of(std::uint64_t ns) {
  if (ns < kSteps) return ns;
  const auto shift = static_cast<unsigned>(std::bit_width(ns)) - kStepBits - 1;
  return (std::size_t{shift} + 1) * kSteps + ((ns >> shift) - kSteps);
}

std::uint64_t middle_of(std::size_t place) {
  if (place < kSteps) return place;
  const std::size_t shift = place / kSteps - 1;
  return ((kSteps + place % kSteps) << shift) + ((std::uint64_t{1} << shift) >> 1U);
}

}  // namespace

void LatencyCounts::add(Duration took) {
  const std::size_t place =
      place_of(static_cast<std::uint64_t>(std::max(took, Duration(0)).count()));
  if (place >= counts_.size()) counts_.resize(place + 1);
  ++counts_[place];
  ++count_;
  total_seconds_ += std::chrono::duration<double>(took).count();
}

Duration LatencyCounts::mean() const {
  if (count_ == 0) return Duration(0);
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(total_seconds_ / static_cast<double>(count_)));
}

Duration LatencyCounts::quantile(double share) const {
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t place = 0; place < counts_.size(); ++place) {
    seen += counts_[place];
    if (seen >= std::max<std::uint64_t>(rank, 1)) {
      return Duration(static_cast<Duration::rep>(middle_of(place)));
    }
  }
  return Duration(0);
}

}  // namespace afterimage
