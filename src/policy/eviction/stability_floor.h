// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/units.h"

namespace afterimage {

/// How many entries a cache should not be pushed below by newcomers (the seed's INV-11).
///
/// The floor protects the population, not each member: a newcomer may replace one entry, but a
/// large one that would cost so many that fewer than the floor remain is served uncached instead.
/// The byte budget is never exceeded for its sake, shrinking the budget ignores it, and it is asked
/// once per eviction round, so no answer of it can make a cache loop or refuse for ever.
class StabilityFloor {
 public:
  virtual ~StabilityFloor() = default;
  /// Asked under the cache's lock: answer from memory, do not block.
  [[nodiscard]] virtual EntryCount minimum_entries() const = 0;
};

/// A number.
class FixedFloor final : public StabilityFloor {
 public:
  explicit FixedFloor(EntryCount minimum) : minimum_(minimum) {}
  [[nodiscard]] EntryCount minimum_entries() const override { return minimum_; }

 private:
  EntryCount minimum_;
};

/// What the requests in flight hold, but for one moment in a thousand: their average (Little's law:
/// arrivals per second × seconds in service), and 3.09 deviations of a Poisson number of them,
/// times the entries that each holds. A constant share for a margin, as the seed's 15 %, is too
/// little for the few and too much for the many.
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
