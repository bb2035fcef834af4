// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "foundation/platform/mutex.h"
#include "storage/memory/tier.h"

namespace afterimage {

/// Several tiers as one, the nearest first. A hit in a farther tier is promoted into the nearer
/// ones.
///
/// With Keys::kNameContent, a tier that refuses a put keeps its old entry, which has the same
/// content. With Keys::kAreReplaced, the old entry is erased from that tier, so that a nearer tier
/// never hides a newer value.
///
/// Errors   A failing tier costs its own hits and nothing else. put: succeeds if one of the tiers
///          accepted it. erase, flush: all tiers are called, and the first error is returned.
/// Threads  Any, as of the tiers.
class TierStack final : public Tier {
 public:
  enum class Keys : unsigned char { kNameContent, kAreReplaced };

  /// The tiers must outlive the stack. Requires at least one.
  explicit TierStack(std::vector<Tier*> nearest_first, Keys keys = Keys::kNameContent);

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  std::vector<Result<std::optional<TierEntry>>> get_all(std::span<const TierKey> keys,
                                                        MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override;
  Result<void> flush() override;
  /// Whether any tier may contain it.
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  /// Whether all tiers hold it; otherwise a put is useful to the tiers that do not.
  [[nodiscard]] bool holds(const TierKey& key) const override;
  void probe(std::span<const TierKey> keys) override;
  void invalidate_negative(std::span<const TierKey> keys) override;
  [[nodiscard]] std::size_t places() const override { return tiers_.size(); }
  [[nodiscard]] bool is_pending(const TierKey& key) const override;
  /// The metadata from the nearest tier that may contain it.
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override;
  /// Of the stack as a whole: a hit in any tier is one hit. Space, entries and evictions are those
  /// of the nearest tier.
  [[nodiscard]] TierStats stats() const override;

 private:
  Result<std::optional<TierEntry>> find_and_promote(const TierKey& key, MemoryBudget& room);
  /// Puts the entry into the tiers nearer than `tier`, unless something was erased since.
  void promote(std::size_t tier, const TierKey& key, const TierEntry& entry,
               std::uint64_t erasures);
  void count(const Result<std::optional<TierEntry>>& found);
  [[nodiscard]] std::uint64_t erasures(const TierKey& key);

  /// Keys that share a stripe are promoted one at a time. Locked before any tier is called.
  struct Stripe {
    Mutex mutex;
    std::uint64_t erasures AFI_GUARDED_BY(mutex) = 0;  // and replacements
  };
  [[nodiscard]] Stripe& stripe_of(const TierKey& key) {
    return stripes_[TierKeyHash()(key) % stripes_.size()];
  }

  const std::vector<Tier*> tiers_;
  const Keys keys_;
  std::array<Stripe, 16> stripes_;
  mutable Mutex mutex_;
  TierStats stats_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
