// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "foundation/platform/mutex.h"
#include "storage/memory/tier.h"

namespace afterimage {

/// Several tiers as one, the nearest first: what a farther one gave is put into the nearer ones.
///
/// Of keys that name content a tier that refuses a put keeps what it had. Where what is under a key
/// is replaced, it loses that, so that nothing nearer hides what is newer.
///
/// Errors   A tier that fails costs its own hits and nothing else. put: well if one of them took
/// it;
///          erase, flush: all are asked, and the first error is told.
/// Threads  Any, as of the tiers.
class TierStack final : public Tier {
 public:
  enum class Keys : unsigned char { kNameContent, kAreReplaced };

  /// They outlive the stack. At least one.
  explicit TierStack(std::vector<Tier*> nearest_first, Keys keys = Keys::kNameContent);

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  std::vector<Result<std::optional<TierEntry>>> get_all(std::span<const TierKey> keys,
                                                        MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override;
  Result<void> flush() override;
  /// Any of them.
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  /// All of them: the others are to have it, too.
  [[nodiscard]] bool holds(const TierKey& key) const override;
  void probe(std::span<const TierKey> keys) override;
  void invalidate_negative(std::span<const TierKey> keys) override;
  [[nodiscard]] std::size_t places() const override { return tiers_.size(); }
  [[nodiscard]] bool is_pending(const TierKey& key) const override;
  /// What the nearest says that may hold it.
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override;
  /// Of the stack: a hit is one wherever it was. Room, entries and evictions are the nearest's.
  [[nodiscard]] TierStats stats() const override;

 private:
  Result<std::optional<TierEntry>> look(const TierKey& key, MemoryBudget& room);
  /// Into the tiers nearer than `tier`, unless something was erased since.
  void bring_up(std::size_t tier, const TierKey& key, const TierEntry& entry,
                std::uint64_t erasures);
  void count(const Result<std::optional<TierEntry>>& found);
  [[nodiscard]] std::uint64_t erasures(const TierKey& key);

  /// Keys that share one are brought up one at a time; taken before any tier is asked.
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
