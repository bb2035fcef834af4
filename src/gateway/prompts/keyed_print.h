// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string_view>

#include "afterimage/secret.h"

namespace afterimage {

/// A digest of a text under a secret of this process: without the key nobody can tell whether a guessed
/// text has it. SipHash-1-3.
class PrintKey {
 public:
  explicit PrintKey(const Secret& secret);

  [[nodiscard]] std::uint64_t print(std::string_view text) const;
  /// Of two values in order.
  [[nodiscard]] std::uint64_t print(std::uint64_t one, std::uint64_t other) const;
  /// Hides the value of a number; differences of hidden values are those of the values.
  [[nodiscard]] std::uint16_t hide(std::uint64_t number) const {
    return static_cast<std::uint16_t>(number + pad_);
  }

 private:
  std::uint64_t low_;
  std::uint64_t high_;
  std::uint64_t pad_;
};

}  // namespace afterimage
