// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "foundation/platform/mutex.h"
#include "storage/encryption/encrypted_entry.h"
#include "storage/encryption/encryption_keys.h"
#include "storage/memory/tier.h"

namespace afterimage {

/// Wraps any tier: entries are encrypted when put and decrypted when read. Whoever holds the tier's
/// bytes (a disk, another machine) learns how many entries there are, their sizes, costs and keys,
/// and can delete them, but cannot read, forge, change or swap them.
///
/// Unit     As the wrapped tier; an entry takes some 128 bytes more.
/// Errors   See Tier. An entry that cannot be decrypted is a miss and counted as damaged. Entries
///          under another key, and unencrypted ones, stay where they are and count as not held, so
///          that they are put again; stats().degraded_reason says so. Modified entries are removed.
/// Memory   The encrypted and the decrypted copy exist together for a moment: a get charges `room`
///          for both, a put charges `memory` for the encrypted copy.
/// Threads  Any.
/// Cost     One pass of AES-256-GCM each way, without a lock.
/// Source   src/storage/encryption/DESIGN.md.
class EncryptedTier final : public Tier {
 public:
  /// `tier` and `memory` must outlive it.
  EncryptedTier(Tier& tier, EncryptionKeys keys, MemoryBudget& memory)
      : tier_(tier), keys_(std::move(keys)), memory_(memory) {}

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  std::vector<Result<std::optional<TierEntry>>> get_all(std::span<const TierKey> keys,
                                                        MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override { return tier_.erase(key); }
  Result<void> flush() override { return tier_.flush(); }
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  [[nodiscard]] bool holds(const TierKey& key) const override;
  void probe(std::span<const TierKey> keys) override { tier_.probe(keys); }
  void invalidate_negative(std::span<const TierKey> keys) override {
    tier_.invalidate_negative(keys);
  }
  [[nodiscard]] std::size_t places() const override { return tier_.places(); }
  [[nodiscard]] bool is_pending(const TierKey& key) const override { return tier_.is_pending(key); }
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override;
  [[nodiscard]] TierStats stats() const override;

 private:
  /// Most foreign entries (other key, or not encrypted) to remember; beyond, they are read again.
  static constexpr std::size_t kMostForeign = 65'536;
  std::unexpected<Error> refuse(ErrorCode code, std::string message);
  Result<std::optional<TierEntry>> open(const TierKey& key, const TierEntry& encrypted,
                                        MemoryBudget& room);
  void record_unopened(const TierKey& key, SealState state);
  [[nodiscard]] bool is_foreign(const TierKey& key) const;

  Tier& tier_;
  const EncryptionKeys keys_;
  MemoryBudget& memory_;
  mutable Mutex mutex_;
  std::uint64_t refused_ AFI_GUARDED_BY(mutex_) = 0;       // puts refused before the wrapped tier
  std::uint64_t unopened_ AFI_GUARDED_BY(mutex_) = 0;      // hits there that are misses here
  std::uint64_t without_room_ AFI_GUARDED_BY(mutex_) = 0;  // gets for which there was no memory
  std::uint64_t removed_ AFI_GUARDED_BY(mutex_) = 0;       // damaged entries removed by this tier
  std::uint64_t other_key_ AFI_GUARDED_BY(mutex_) = 0;     // of the unopened ones
  std::uint64_t not_encrypted_ AFI_GUARDED_BY(mutex_) = 0;
  std::unordered_set<TierKey, TierKeyHash> foreign_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
