// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "afterimage/clock.h"
#include "storage/memory/shared_cell.h"
#include "storage/remote/remote_tier.h"

namespace afterimage {

/// 256 bits that name a cell to all who share it.
using CellId = std::array<std::byte, 32>;

/// A cell under one key of a tier's servers, "afi1:e:" and 64 hexadecimal digits.
///
/// Order    Reading writes, too: the time to live is set anew, and every replica that the table of
///          slots names has to acknowledge that (WAIT). A master that was replaced and does not
///          know it yet has no such replica, so what it still says counts for nothing.
///          Replacing goes by WATCH, MULTI and EXEC; no scripts.
/// Errors   As SharedCell; a value of more than kMostBytes is not read.
/// Time     read: connect_timeout and 5 timeouts; replace: the same. Servers that are left alone
///          are asked, too.
/// Threads  Any.
/// Source   docs/formats/remote.md.
class RemoteCell final : public SharedCell {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20U;

  /// `tier` outlives it. What nobody reads for `ttl` is forgotten.
  RemoteCell(RemoteTier& tier, const CellId& id, Duration ttl);

  Result<std::optional<Value>> read() override;
  Result<bool> replace(const std::optional<std::string>& expected,
                       std::span<const std::byte> next) override;

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  class Conversation;
  Result<void> converse(const std::function<Result<void>(Conversation&)>& what);

  RemoteCluster& cluster_;
  const std::string name_;
  const std::string ttl_;  // in milliseconds
};

}  // namespace afterimage
