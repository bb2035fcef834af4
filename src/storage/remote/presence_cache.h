// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <optional>

#include "afterimage/tier.h"
#include "afterimage/units.h"
#include "storage/memory/tier_key_hash.h"

namespace afterimage {

/// Remembers for a while whether keys that other processes also change were present or absent.
/// Bounded: when it is full, the older half of the keys is dropped.
///
/// Threads  Not thread-safe: the owner's lock protects it. The caller supplies the time.
class PresenceCache {
 public:
  /// Remembers about `most` keys at most.
  explicit PresenceCache(std::size_t most) : half_(most / 2 + 1) {}

  void note(const TierKey& key, bool present, Duration until);
  void forget(const TierKey& key);
  /// nullopt: unknown, or the record has expired.
  [[nodiscard]] std::optional<bool> present(const TierKey& key, Duration now) const;
  /// Number of keys last noted as present, including expired records.
  [[nodiscard]] std::size_t count_present() const;

 private:
  struct Known {
    bool present = false;
    Duration until{0};
  };
  using Map = boost::unordered_flat_map<TierKey, Known, TierKeyHash>;

  std::size_t half_;
  Map young_;
  Map old_;
};

}  // namespace afterimage
