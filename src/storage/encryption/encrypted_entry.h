// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "afterimage/encrypted_tier.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"

/// Encrypts and authenticates one entry with AES-256-GCM: without the key it can be neither read,
/// forged nor changed. No I/O.
///
/// Shape    A header of 64 bytes, then ciphertext: the metadata (tensor specs, cost), padded to 64
///          bytes, and the entry's bytes.
/// Bound    To the entry's key: key and class are authenticated, so an entry that was moved to
///          another key does not decrypt.
/// Errors   encrypt_entry: kUnavailable: the system gives no random bytes. decrypt_entry: any bytes
///          may be given.
/// Threads  Any.
/// Source   docs/formats/encrypted-entry.md specifies every byte.
namespace afterimage {

inline constexpr std::size_t kEncryptionHeader = 64;

/// Size of the encrypted entry.
std::size_t encrypted_size(const EntryMeta& meta, std::size_t bytes);
/// Requires that `into` has exactly encrypted_size() bytes.
Result<void> encrypt_entry(const EncryptionKeys& keys, const TierKey& key, const EntryMeta& meta,
                           BytePieces bytes, std::span<std::byte> into);
inline Result<void> encrypt_entry(const EncryptionKeys& keys, const TierKey& key,
                                  const EntryMeta& meta, std::span<const std::byte> bytes,
                                  std::span<std::byte> into) {
  return encrypt_entry(keys, key, meta, BytePieces(&bytes, 1), into);
}

enum class DecryptStatus : unsigned char {
  kOpened,
  kNotEncrypted,  // not an encrypted entry: too short, or of another format
  kOtherKey,      // encrypted under a key that is not in the list
  kDamaged,       // failed authentication
};
struct DecryptedEntry {
  DecryptStatus state = DecryptStatus::kDamaged;
  EntryMeta meta;               // meta and bytes_begin: only if kOpened
  std::size_t bytes_begin = 0;  // in the decrypted bytes; a multiple of 64
};
/// Decrypts into `into`, which has encrypted.size() - kEncryptionHeader bytes (none if that is
/// negative). Unless the state is kOpened, the content of `into` must not be used.
DecryptedEntry decrypt_entry(const EncryptionKeys& keys, const TierKey& key,
                             std::span<const std::byte> encrypted, std::span<std::byte> into);

}  // namespace afterimage
