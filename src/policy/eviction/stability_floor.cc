// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <cmath>

#include "afterimage/eviction_policy.h"

namespace afterimage {
namespace {

constexpr double kDeviations = 3.09;  // of a normal distribution: exceeded once in a thousand
constexpr double kLargest = 1e15;     // far above any cache, and exact in a double

}  // namespace

QueueFloor::QueueFloor(Load load) {
  const double requests = load.arrivals_per_second * load.seconds_in_service;
  const double held = (requests + kDeviations * std::sqrt(requests)) * load.entries_per_request;
  const bool sane = load.arrivals_per_second > 0 && load.seconds_in_service > 0 &&
                    load.entries_per_request > 0 && held < kLargest;
  minimum_ = EntryCount(sane ? static_cast<std::uint64_t>(std::ceil(held)) : 0);
}

}  // namespace afterimage
