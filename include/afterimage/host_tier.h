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

/// Entries in host memory, evicted least recently used first.
///
/// Unit     The bytes of the entries, charged to a MemoryBudget that other users may share.
/// Errors   See Tier. An entry whose bytes changed in memory is a miss, counted, and removed.
/// Threads  Any. Bytes are copied and verified outside the lock.
/// Cost     A put or a get is one copy and one checksum.
class HostTier final : public Tier {
 public:
  /// `budget` must outlive the tier.
  explicit HostTier(MemoryBudget& budget);
  ~HostTier() override;
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    return put_pieces(key, meta, {&bytes, 1});
  }
  Result<void> put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override;
  Result<EntryCount> erase_matching(const EntryFilter& filter) override;
  Result<void> flush() override { return {}; }
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override;
  [[nodiscard]] TierStats stats() const override;

  /// The stored entry itself rather than a copy, unverified: for tests that damage it.
  [[nodiscard]] std::span<std::byte> bytes_for_test(const TierKey& key);

 private:
  struct State;
  Result<std::shared_ptr<AlignedBytes>> make_room(std::size_t size);

  std::unique_ptr<State> state_;
};

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
  ~TierStack() override;
  TierStack(const TierStack&) = delete;
  TierStack& operator=(const TierStack&) = delete;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    return put_pieces(key, meta, {&bytes, 1});
  }
  Result<void> put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  std::vector<Result<std::optional<TierEntry>>> get_all(std::span<const TierKey> keys,
                                                        MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override;
  Result<EntryCount> erase_matching(const EntryFilter& filter) override;
  Result<void> flush() override;
  /// Whether any tier may contain it.
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  /// Whether all tiers hold it; otherwise a put is useful to the tiers that do not.
  [[nodiscard]] bool holds(const TierKey& key) const override;
  void probe(std::span<const TierKey> keys) override;
  void invalidate_negative(std::span<const TierKey> keys) override;
  [[nodiscard]] std::size_t places() const override;
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

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
