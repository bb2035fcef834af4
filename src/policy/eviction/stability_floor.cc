// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <cmath>

#include "afterimage/eviction_policy.h"

namespace afterimage {
namespace {

constexpr double kDeviations = 3.09;  // of a normal distribution: exceeded once in a thousand
constexpr double kLargest = 1e15;     // far above any cache, and exact in a double

}  // namespace

EntryCount entries_in_flight(double arrivals_per_second, Duration in_service,
                             double entries_per_request) {
  const double requests = arrivals_per_second * std::chrono::duration<double>(in_service).count();
  const double held = (requests + kDeviations * std::sqrt(requests)) * entries_per_request;
  const bool sane = arrivals_per_second > 0 && in_service > Duration(0) &&
                    entries_per_request > 0 && held < kLargest;
  return EntryCount(sane ? static_cast<std::uint64_t>(std::ceil(held)) : 0);
}

}  // namespace afterimage
