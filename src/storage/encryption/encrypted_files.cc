// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/encryption/encrypted_files.h"

#include <fmt/format.h>

#include "foundation/crypto/sha256.h"
#include "storage/encryption/encrypted_entry.h"

namespace afterimage {
namespace {

TierKey place_of(const std::string& path) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  return {.entry_class = EntryClass::kAnswer, .bytes = sha256(std::as_bytes(std::span(name)))};
}

}  // namespace

Result<std::vector<std::byte>> EncryptedFiles::read(const std::string& path, Bytes limit) const {
  const Bytes most = limit + Bytes(encrypted_size({}, 0));
  AFI_TRY(const std::vector<std::byte> encrypted, files_.read(path, most));
  std::vector<std::byte> opened(
      encrypted.size() < kEncryptionHeader ? 0 : encrypted.size() - kEncryptionHeader);
  const DecryptedEntry entry = decrypt_entry(keys_, place_of(path), encrypted, opened);
  switch (entry.state) {
    case DecryptStatus::kOpened:
      break;
    case DecryptStatus::kOtherKey:
      return fail(ErrorCode::kUnavailable,
                  fmt::format("'{}' is encrypted under another key: add that key to the list of "
                              "keys, or remove the file",
                              path));
    case DecryptStatus::kNotEncrypted:
      return fail(ErrorCode::kCorruption, fmt::format("'{}' is not encrypted", path));
    case DecryptStatus::kDamaged:
      return fail(ErrorCode::kCorruption,
                  fmt::format("'{}' is damaged: it failed authentication", path));
  }
  opened.erase(opened.begin(), opened.begin() + static_cast<std::ptrdiff_t>(entry.bytes_begin));
  return opened;
}

Result<void> EncryptedFiles::replace(const std::string& path, std::span<const std::byte> content) {
  std::vector<std::byte> encrypted(encrypted_size({}, content.size()));
  AFI_TRY_VOID(encrypt_entry(keys_, place_of(path), {}, content, encrypted));
  return files_.replace(path, encrypted);
}

Result<void> EncryptedFiles::append(const std::string& path,
                                    std::span<const std::byte> /*content*/) {
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' is encrypted and cannot be appended to", path));
}

}  // namespace afterimage
