// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <optional>

#include "afterimage/tier.h"
#include "afterimage/units.h"

namespace afterimage {

/// What was lately known of keys that others change, too: there, or not. Bounded: the oldest half
/// is forgotten at a time.
///
/// Threads  Not thread-safe; its owner's lock. Time is the caller's.
class PresenceCache {
 public:
  /// Of at most about so many keys.
  explicit PresenceCache(std::size_t most) : half_(most / 2 + 1) {}

  void note(const TierKey& key, bool there, Duration until);
  void forget(const TierKey& key);
  /// nullopt: nothing is known any more.
  [[nodiscard]] std::optional<bool> there(const TierKey& key, Duration now) const;
  /// How many are known to be there, or were.
  [[nodiscard]] std::size_t count_there() const;

 private:
  struct Known {
    bool there = false;
    Duration until{0};
  };
  using Map = boost::unordered_flat_map<TierKey, Known, TierKeyHash>;

  std::size_t half_;
  Map young_;
  Map old_;
};

}  // namespace afterimage
