// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/load_rate.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace afterimage {
namespace {

constexpr double kKeepsALoad = 1 - 1.0 / 32;
constexpr double kHalfLifeSeconds = 30;
constexpr double kOutlier = 8;
constexpr double kShortest = 1e-4;     // shorter times count as this one
constexpr std::uint64_t kTrusted = 8;  // outliers are recognised after so many loads
constexpr double kSmall = 64 << 10;    // above this size, the variance grows with the size
constexpr double kSpread = 0.25;       // least (deviation ÷ mean)² of sizes to fit a slope

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

Duration duration(double seconds) {
  // The bound is far beyond any load and far below the largest Duration.
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8)));
}

}  // namespace

void LoadRate::add(Bytes bytes, Duration took, Duration now) {
  double y = std::max(seconds(took), 0.0);
  const double most = believed_ * std::max(seconds(expected(bytes)), kShortest);
  const bool outlier = loads_ >= kTrusted && y > most;
  if (outlier) y = most;
  believed_ = outlier ? believed_ * kOutlier : kOutlier;
  const double since = loads_ == 0 ? 0 : std::max(seconds(now - last_), 0.0);
  const double keep = kKeepsALoad * std::exp2(-since / kHalfLifeSeconds);
  last_ = now;
  ++loads_;
  const auto x = static_cast<double>(bytes.value());
  const double weight = 1 / (x + kSmall);
  n_ = n_ * keep + weight;
  x_ = x_ * keep + weight * x;
  y_ = y_ * keep + weight * y;
  xx_ = xx_ * keep + weight * x * x;
  xy_ = xy_ * keep + weight * x * y;
  fit();
}

void LoadRate::fit() {
  const double x = x_ / n_;
  const double y = y_ / n_;
  const double variance = xx_ / n_ - x * x;
  if (variance < kSpread * x * x || x == 0) {
    const double before = latency_seconds_ + seconds_per_byte_ * x;
    if (before <= 0) {  // all loads so far took no time
      latency_seconds_ = y;
      return;
    }
    latency_seconds_ *= y / before;
    seconds_per_byte_ *= y / before;
    return;
  }
  const double slope = (xy_ / n_ - x * y) / variance;
  // A fitted line that is negative somewhere is noise: use a flat line or one through the origin.
  if (slope <= 0) {
    latency_seconds_ = y;
    seconds_per_byte_ = 0;
  } else if (y < slope * x) {
    latency_seconds_ = 0;
    seconds_per_byte_ = xy_ / xx_;
  } else {
    latency_seconds_ = y - slope * x;
    seconds_per_byte_ = slope;
  }
}

Duration LoadRate::expected(Bytes bytes, std::uint32_t gets) const {
  if (loads_ == 0) return Duration(0);
  return duration(latency_seconds_ * gets + seconds_per_byte_ * static_cast<double>(bytes.value()));
}

Duration LoadRate::latency() const {
  return loads_ == 0 ? Duration(0) : duration(latency_seconds_);
}

}  // namespace afterimage
