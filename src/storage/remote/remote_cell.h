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

/// 256 bits that name a cell to all processes that share it.
using CellId = std::array<std::byte, 32>;

/// A small shared value under one key of a tier's servers, "afi1:e:" and 64 hexadecimal digits.
///
/// Order    A read also writes: it renews the time to live, and every replica in the slot table, or
///          attached to a standalone server, must acknowledge that (WAIT). A stale master that has been replaced without knowing it
///          has no such replica, so its value is not accepted.
///          Replacing uses WATCH, MULTI and EXEC; no scripts.
/// Errors   As SharedCell; a value of more than kMostBytes is not read.
/// Time     read and replace: at most connect_timeout and 6 timeouts each. Servers whose circuit
///          breaker is open are called, too.
/// Threads  Any.
/// Source   docs/formats/remote.md.
class RemoteCell final : public SharedCell {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20U;

  /// `tier` outlives the cell. A value that is not read for `ttl` expires.
  RemoteCell(RemoteTier& tier, const CellId& id, Duration ttl);

  Result<std::optional<Value>> read() override;
  Result<bool> replace(const std::optional<std::string>& expected,
                       std::span<const std::byte> next) override;
  [[nodiscard]] Result<void> replacements_last() const override {
    return cluster_.erasures_last(name_);
  }

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  class Session;
  Result<void> with_session(const std::function<Result<void>(Session&)>& what);

  RemoteCluster& cluster_;
  const std::string name_;
  const std::string ttl_;  // in milliseconds
};

}  // namespace afterimage
