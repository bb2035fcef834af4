// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "afterimage/encrypted_tier.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"

/// An entry as bytes that tell nothing without the key, and that nobody can make or change without
/// it: AES-256-GCM. No I/O.
///
/// Shape    A header of 64 bytes, then ciphertext: what is beside the entry (forms, cost), padded
///          to 64 bytes, and the entry's bytes.
/// Bound    To the entry's place: its key and class are authenticated, so an entry that was moved
///          to another's place does not open.
/// Errors   seal: kUnavailable: the system gives no random bytes. open: any bytes may be given.
/// Threads  Any.
/// Source   docs/formats/sealed-entry.md, to the byte.
namespace afterimage {

inline constexpr std::size_t kEncryptionHeader = 64;

/// Of a sealed entry.
std::size_t encrypted_size(const EntryMeta& meta, std::size_t bytes);
/// `into` is of just that size.
Result<void> encrypt_entry(const EncryptionKeys& keys, const TierKey& key, const EntryMeta& meta,
                           std::span<const std::byte> bytes, std::span<std::byte> into);

enum class SealState : unsigned char {
  kOpened,
  kNotEncrypted,  // no sealed entry: too short, or of another format
  kOtherKey,      // sealed under a key that is not among these
  kDamaged,       // not what was sealed here
};
struct OpenedEntry {
  SealState state = SealState::kDamaged;
  EntryMeta meta;               // these two: if opened
  std::size_t bytes_begin = 0;  // in the decrypted bytes; a multiple of 64
};
/// Decrypts into `into`, which is of sealed.size() - kEncryptionHeader bytes (none if that is negative).
/// What it holds if the state is not kOpened is not to be used.
OpenedEntry open_entry(const EncryptionKeys& keys, const TierKey& key,
                       std::span<const std::byte> sealed, std::span<std::byte> into);

}  // namespace afterimage
