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

/// Identifies the key that encrypted an entry: eight bytes that reveal nothing about the key.
using EncryptionKeyId = std::array<std::byte, 8>;

/// A list of encryption keys: the first encrypts, all decrypt. To change the key, put a new one
/// before the old one, and remove the old one when the entries it encrypted are gone.
///
/// Shape    Text: one key per line, 64 hexadecimal digits (`openssl rand -hex 32`); empty lines and
///          lines that begin with # are ignored. At most kMost keys.
/// Errors   kInvalidArgument: no key, or malformed text; kNotFound: no such file;
///          kUnavailable: the system refused, or others may read the file. No message contains any
///          part of a key.
/// Threads  Immutable. Keys are wiped when the object is destroyed.
class EncryptionKeys {
 public:
  static constexpr std::size_t kMost = 8;

  /// Parses a key list. `where` is named in messages.
  static Result<EncryptionKeys> parse(std::string_view text, const std::string& where);
  /// Reads a file that only its owner may read (0600 or 0400). Symbolic links are followed, because
  /// secrets are mounted that way.
  static Result<EncryptionKeys> read(const std::string& path);
  /// Reads an environment variable; there, keys may also be separated by commas.
  static Result<EncryptionKeys> from_environment(const std::string& name);

  EncryptionKeys(EncryptionKeys&&) = default;
  EncryptionKeys& operator=(EncryptionKeys&&) = default;
  EncryptionKeys(const EncryptionKeys&) = delete;
  EncryptionKeys& operator=(const EncryptionKeys&) = delete;
  ~EncryptionKeys();

  /// The id of the key that encrypts.
  [[nodiscard]] const EncryptionKeyId& id() const { return keys_.front().id; }
  /// Derives the key of one entry from the key with that id: HKDF-SHA-256 (RFC 5869) with the
  /// entry's key as salt. False: there is no key with that id.
  [[nodiscard]] bool entry_key(const EncryptionKeyId& id, const TierKey& key, Secret& into) const;

 private:
  struct Key {
    Secret secret{};
    EncryptionKeyId id{};
  };
  EncryptionKeys() = default;

  std::vector<Key> keys_;
};

/// Wraps any tier: entries are encrypted when put and decrypted when read. A holder of the
/// tier's bytes (a disk, another machine) learns how many entries there are, their sizes, costs and keys,
/// and can delete them, but cannot read, forge, change or swap them.
///
/// Unit     As the wrapped tier; an entry takes some 128 bytes more.
/// Errors   See Tier. An entry that cannot be decrypted is a miss and counted as damaged. Entries
///          under another key, and unencrypted ones, stay where they are and count as not held, so
///          that they are put again; stats().degraded_reason says so. Modified entries are removed.
/// Memory   A get decrypts in place, in the memory that the wrapped tier filled; a put charges
///          `memory` for the encrypted copy.
/// Threads  Any.
/// Cost     One pass of AES-256-GCM each way, without a lock.
/// Source   src/storage/encryption/DESIGN.md.
class EncryptedTier final : public Tier {
 public:
  /// `tier` and `memory` must outlive it.
  EncryptedTier(Tier& tier, EncryptionKeys keys, MemoryBudget& memory);
  ~EncryptedTier() override;
  EncryptedTier(const EncryptedTier&) = delete;
  EncryptedTier& operator=(const EncryptedTier&) = delete;

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
