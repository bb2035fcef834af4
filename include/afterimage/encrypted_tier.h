// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/secret.h"
#include "afterimage/tier.h"

namespace afterimage {

/// Which key sealed an entry: eight bytes that tell keys apart and nothing about them.
using EncryptionKeyId = std::array<std::byte, 8>;

/// The keys under which entries are sealed: the first seals, all of them open. So a key is changed
/// by putting a new one before the old one, and taking the old one away when what it sealed is
/// gone.
///
/// Shape    Text: a key a line, 64 hexadecimal digits (`openssl rand -hex 32`); empty lines and
///          lines that begin with # do not count. At most kMost.
/// Errors   kInvalidArgument: no key, or no such text; kNotFound; kUnavailable: the system refused,
///          or others may read the file. No message holds any of a key.
/// Threads  Immutable. Keys are wiped when the object goes.
class EncryptionKeys {
 public:
  static constexpr std::size_t kMost = 8;

  /// `where` is named in messages.
  static Result<EncryptionKeys> parse(std::string_view text, const std::string& where);
  /// A file that only its owner may read (0600 or 0400). Links are followed: that is how secrets
  /// are mounted.
  static Result<EncryptionKeys> read(const std::string& path);
  /// The text is an environment variable's value; lines may be separated by commas.
  static Result<EncryptionKeys> from_environment(const std::string& name);

  EncryptionKeys(EncryptionKeys&&) = default;
  EncryptionKeys& operator=(EncryptionKeys&&) = default;
  EncryptionKeys(const EncryptionKeys&) = delete;
  EncryptionKeys& operator=(const EncryptionKeys&) = delete;
  ~EncryptionKeys();

  /// Of the key that seals.
  [[nodiscard]] const EncryptionKeyId& id() const { return keys_.front().id; }
  /// The key of one entry under the key of that id: HKDF-SHA-256 (RFC 5869) with the entry's key as
  /// salt. False: there is no such key.
  [[nodiscard]] bool entry_key(const EncryptionKeyId& id, const TierKey& key, Secret& into) const;

 private:
  struct Key {
    Secret secret{};
    EncryptionKeyId id{};
  };
  EncryptionKeys() = default;

  std::vector<Key> keys_;
};

/// Any tier, with entries that are sealed on their way in and opened on their way out: whoever
/// holds the tier's bytes (a disk, another machine) learns how many entries there are, how large,
/// how costly and under which keys, and can take them away; but not read, make, change or exchange
/// them.
///
/// Unit     As the tier below; an entry takes some 128 bytes more.
/// Errors   See Tier. What does not open is a miss and counted as damaged. Entries of another key,
///          and such as were never sealed, stay where they are and count as not held, so that they
///          are put again; stats().trouble says so. What was changed is removed.
/// Memory   Both the sealed and the opened copy are in memory for a moment: a get takes `room` for
///          both, a put takes what it seals from `memory`.
/// Threads  Any.
/// Cost     One pass of AES-256-GCM each way, without a lock.
/// Source   src/seal/DESIGN.md.
class EncryptedTier final : public Tier {
 public:
  /// `tier` and `memory` outlive it.
  EncryptedTier(Tier& tier, EncryptionKeys keys, MemoryBudget& memory);
  ~EncryptedTier() override;
  EncryptedTier(const EncryptedTier&) = delete;
  EncryptedTier& operator=(const EncryptedTier&) = delete;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  std::vector<Result<std::optional<TierEntry>>> get_all(std::span<const TierKey> keys,
                                                        MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override;
  Result<void> flush() override;
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  [[nodiscard]] bool holds(const TierKey& key) const override;
  void probe(std::span<const TierKey> keys) override;
  void invalidate_negative(std::span<const TierKey> keys) override;
  [[nodiscard]] std::size_t places() const override;
  [[nodiscard]] bool is_pending(const TierKey& key) const override;
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override;
  [[nodiscard]] TierStats stats() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
