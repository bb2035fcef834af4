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

/// A cell whose value is sealed on its way in and opened on its way out: whoever keeps it can
/// neither read nor make nor change one. He can give an older one again; what is inside has to be
/// such that this is found out.
///
/// Shape    A sealed entry (docs/formats/sealed-entry.md) whose key is `place`.
/// Errors   As SharedCell. What does not open has no bytes; kUnavailable: sealed under another key,
///          which nobody should take for a value that is damaged.
/// Threads  Any.
class EncryptedCell final : public SharedCell {
 public:
  /// `cell` outlives it.
  EncryptedCell(SharedCell& cell, const TierKey& place, EncryptionKeys keys)
      : cell_(cell), place_(place), keys_(std::move(keys)) {}

  Result<std::optional<Value>> read() override;
  Result<bool> replace(const std::optional<std::string>& expected,
                       std::span<const std::byte> next) override;

 private:
  SharedCell& cell_;
  const TierKey place_;
  const EncryptionKeys keys_;
};

}  // namespace afterimage
