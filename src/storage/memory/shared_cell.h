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

/// A small value that processes share: read whole, and replaced only by whoever knows what it
/// replaces.
///
///   read() -> replace(its version, next) -> true: next is there
///                                           false: somebody was first; read again
///
/// Order    Of all processes: whoever reads after a replace() that said true reads what it put, or
///          what came after that, or nothing, if the value was lost with all of its copies.
/// Errors   kUnavailable: nobody could be asked, or not every copy has heard. Then it is not known
///          whether it was replaced; what was read before is not to be relied on any longer.
/// Threads  Any.
class SharedCell {
 public:
  struct Value {
    std::vector<std::byte> bytes;  // none: what is there cannot be made out
    std::string version;           // for replace(); equal only if nothing was changed between
  };
  virtual ~SharedCell() = default;

  /// nullopt: there is nothing.
  virtual Result<std::optional<Value>> read() = 0;
  /// `expected` is the version that goes; nullopt: there was nothing. False: something else is
  /// there by now, and stays.
  virtual Result<bool> replace(const std::optional<std::string>& expected,
                               std::span<const std::byte> next) = 0;
};

}  // namespace afterimage
