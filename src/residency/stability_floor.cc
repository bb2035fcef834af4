// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/residency/stability_floor.h"

#include <cmath>

namespace afterimage {
namespace {

constexpr double kMargin = 1.15;
constexpr double kLargest = 1e15;  // far above any cache, far below what a double cannot count

}  // namespace

QueueFloor::QueueFloor(Load load) {
  const double held =
      load.arrivals_per_second * load.seconds_in_service * load.entries_per_request * kMargin;
  const bool sane = load.arrivals_per_second > 0 && load.seconds_in_service > 0 &&
                    load.entries_per_request > 0 && held < kLargest;
  minimum_ = EntryCount(sane ? static_cast<std::uint64_t>(std::ceil(held)) : 0);
}

}  // namespace afterimage
