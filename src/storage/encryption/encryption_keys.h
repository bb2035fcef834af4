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

}  // namespace afterimage
