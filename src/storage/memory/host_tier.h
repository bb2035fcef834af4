// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>

#include "storage/memory/tier.h"

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
                   std::span<const std::byte> bytes) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override;
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

}  // namespace afterimage
