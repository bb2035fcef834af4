// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/encryption/encrypted_cell.h"

#include <vector>

#include "storage/encryption/encrypted_entry.h"

namespace afterimage {

Result<std::optional<SharedCell::Value>> EncryptedCell::read() {
  AFI_TRY(std::optional<Value> found, cell_.read());
  if (!found.has_value()) return std::nullopt;
  const std::vector<std::byte> encrypted = std::exchange(found->bytes, {});
  std::vector<std::byte> opened(
      encrypted.size() < kEncryptionHeader ? 0 : encrypted.size() - kEncryptionHeader);
  const DecryptedEntry entry = decrypt_entry(keys_, place_, encrypted, opened);
  if (entry.state == DecryptStatus::kOtherKey) {
    return fail(
        ErrorCode::kUnavailable,
        "the shared value is encrypted under another key: add that key to the list of keys");
  }
  if (entry.state == DecryptStatus::kOpened) {
    found->bytes.assign(opened.begin() + static_cast<std::ptrdiff_t>(entry.bytes_begin),
                        opened.end());
  }
  return found;
}

Result<bool> EncryptedCell::replace(const std::optional<std::string>& expected,
                                    std::span<const std::byte> next) {
  std::vector<std::byte> encrypted(encrypted_size({}, next.size()));
  AFI_TRY_VOID(encrypt_entry(keys_, place_, {}, next, encrypted));
  return cell_.replace(expected, encrypted);
}

}  // namespace afterimage
