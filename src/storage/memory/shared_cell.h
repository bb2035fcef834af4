// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// A small value shared by processes: read whole, and replaced by compare-and-swap.
///
///   read() → replace(its version, next) → true: replaced
///                                         false: another process was first; read again
///
/// Order    Linearizable across processes: a read after a successful replace() returns its value or
///          a later one, or nothing if the value was lost with all of its copies.
/// Errors   kUnavailable, kTimeout: no server could be reached, or not every copy acknowledged. It
///          is then unknown whether the value was replaced, and values read before must not be
///          relied on.
/// Threads  Any.
class SharedCell {
 public:
  struct Value {
    std::vector<std::byte> bytes;  // empty: the stored value cannot be decoded
    std::string version;           // for replace(); equal only if nothing changed in between
  };
  virtual ~SharedCell() = default;

  /// nullopt: there is no value.
  virtual Result<std::optional<Value>> read() = 0;
  /// Replaces the value if its version is `expected`; nullopt: if there is none. False: the current
  /// version differs, and the value was left unchanged.
  virtual Result<bool> replace(const std::optional<std::string>& expected,
                               std::span<const std::byte> next) = 0;
  /// kUnavailable: where the value is stored cannot tell whether a replaced value stays replaced
  /// after a restart or a takeover.
  [[nodiscard]] virtual Result<void> replacements_last() const { return {}; }
};

}  // namespace afterimage
