// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/tier.h"

namespace afterimage::testing {

/// A tier as if it were far away: a get advances the clock.
///
/// Threads  One, because of the clock.
class SlowTier final : public Tier {
 public:
  SlowTier(Tier& inner, ManualClock& clock) : inner_(inner), clock_(clock) {}

  Duration latency{0};
  Duration per_kib{0};
  bool says_nothing = false;  // metadata() returns nothing
  bool fails = false;
  std::uint64_t gets = 0;
  std::vector<TierKey> forgotten;  // negative results that were invalidated
  TierKey last_put;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    last_put = key;
    return inner_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    ++gets;
    auto entry = inner_.get(key, room);
    const std::size_t size = entry && *entry ? (**entry).bytes.size() : 0;
    clock_.advance(latency + per_kib * size / 1024);
    if (fails) return fail(ErrorCode::kUnavailable, "the server does not reply");
    return entry;
  }
  Result<void> erase(const TierKey& key) override { return inner_.erase(key); }
  Result<void> flush() override { return inner_.flush(); }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    return inner_.may_contain(key);
  }
  void invalidate_negative(std::span<const TierKey> keys) override {
    forgotten.insert(forgotten.end(), keys.begin(), keys.end());
  }
  [[nodiscard]] bool is_pending(const TierKey& key) const override {
    return inner_.is_pending(key);
  }
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override {
    return says_nothing ? std::nullopt : inner_.metadata(key);
  }
  [[nodiscard]] TierStats stats() const override { return inner_.stats(); }

 private:
  Tier& inner_;
  ManualClock& clock_;
};

}  // namespace afterimage::testing
