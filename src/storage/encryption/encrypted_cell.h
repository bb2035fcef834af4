// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "afterimage/encrypted_tier.h"
#include "afterimage/tier.h"
#include "storage/memory/shared_cell.h"

namespace afterimage {

/// A SharedCell whose value is encrypted when written and decrypted when read. The store
/// can neither read, forge nor change a value, but can return an older one: the content must allow
/// the reader to detect that.
///
/// Shape    An encrypted entry (docs/formats/encrypted-entry.md) whose key is `place`.
/// Errors   As SharedCell. A value that cannot be decrypted has no bytes; kUnavailable: encrypted
///          under another key, which must not be mistaken for damage.
/// Threads  Any.
class EncryptedCell final : public SharedCell {
 public:
  /// `cell` must outlive it.
  EncryptedCell(SharedCell& cell, const TierKey& place, EncryptionKeys keys)
      : cell_(cell), place_(place), keys_(std::move(keys)) {}

  Result<std::optional<Value>> read() override;
  Result<bool> replace(const std::optional<std::string>& expected,
                       std::span<const std::byte> next) override;
  [[nodiscard]] Result<void> replacements_last() const override {
    return cell_.replacements_last();
  }

 private:
  SharedCell& cell_;
  const TierKey place_;
  const EncryptionKeys keys_;
};

}  // namespace afterimage
