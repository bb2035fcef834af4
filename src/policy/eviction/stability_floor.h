// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/units.h"

namespace afterimage {

/// The number of entries below which new entries must not push a cache (the seed's INV-11).
///
/// The floor protects the number of entries, not each of them: a new entry may replace one entry,
/// but a large one that would leave fewer entries than the floor is served uncached instead. The
/// byte budget is never exceeded for the floor, shrinking the budget ignores it, and a cache reads
/// it once per eviction round, so no value can make a cache loop or refuse for ever.
class StabilityFloor {
 public:
  virtual ~StabilityFloor() = default;
  /// Called under the cache's lock: must not block.
  [[nodiscard]] virtual EntryCount minimum_entries() const = 0;
};

/// A constant floor.
class FixedFloor final : public StabilityFloor {
 public:
  explicit FixedFloor(EntryCount minimum) : minimum_(minimum) {}
  [[nodiscard]] EntryCount minimum_entries() const override { return minimum_; }

 private:
  EntryCount minimum_;
};

/// The entries that requests in flight hold, exceeded in one moment in a thousand: the average
/// number of requests (Little's law: arrivals per second × seconds in service) plus 3.09 standard
/// deviations of a Poisson distribution, times the entries that each holds. A constant margin, as
/// the seed's 15 %, is too small for few requests and too large for many.
class QueueFloor final : public StabilityFloor {
 public:
  struct Load {
    double arrivals_per_second = 0;
    double seconds_in_service = 0;
    double entries_per_request = 0;
  };
  /// Negative, infinite or undefined loads count as none.
  explicit QueueFloor(Load load);
  [[nodiscard]] EntryCount minimum_entries() const override { return minimum_; }

 private:
  EntryCount minimum_;
};

}  // namespace afterimage
