// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"

namespace afterimage {

/// Entries in this machine's memory. Evicts the entry that was not used for longest.
///
/// Unit     The bytes of the entries, charged to a MemoryBudget that others may share.
/// Errors   See Tier. An entry whose bytes changed where they lie is a miss, counted, and removed.
/// Threads  Any. Bytes are copied and checked outside the lock.
/// Cost     A put or a get is one copy and one checksum.
class HostTier final : public Tier {
 public:
  /// `budget` outlives the tier.
  explicit HostTier(MemoryBudget& budget);
  ~HostTier() override;
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override;
  Result<void> flush() override { return {}; }
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override;
  [[nodiscard]] TierStats stats() const override;

  /// The entry itself rather than a copy, unverified: for who damages it in a test.
  [[nodiscard]] std::span<std::byte> bytes_for_test(const TierKey& key);

 private:
  struct State;
  Result<std::shared_ptr<AlignedBytes>> make_room(std::size_t size);

  std::unique_ptr<State> state_;
};

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
  ~TierStack() override;
  TierStack(const TierStack&) = delete;
  TierStack& operator=(const TierStack&) = delete;

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
  [[nodiscard]] std::size_t places() const override;
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

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
