// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"
#include "storage/memory/tier.h"

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

}  // namespace afterimage
