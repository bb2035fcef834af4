// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "afterimage/secret.h"

namespace afterimage {

/// Bytes of a word that is hashed in one piece.
inline constexpr std::size_t kShortWord = 15;

/// A digest of a text under a secret of this process: without the key nobody can tell whether a guessed
/// text has it. SipHash-1-3; of a word, and of values together, two products with numbers of the secret, which is a
/// tenth of the work: these never leave the process, whose memory has the key too.
class PrintKey {
 public:
  explicit PrintKey(const Secret& secret);

  [[nodiscard]] std::uint64_t print(std::string_view text) const;
  /// Of a word of at most 15 bytes, as two numbers: its first eight bytes and the others, the first one lowest, with
  /// zeros behind them. Takes as long for each size: those of words cannot be foreseen.
  [[nodiscard]] std::uint64_t print_short(std::uint64_t begin, std::uint64_t rest,
                                          std::size_t size) const {
    return product(begin, rest | (static_cast<std::uint64_t>(size) << 56U), words_);
  }
  /// Of a word of any size.
  [[nodiscard]] std::uint64_t print_word(std::string_view word) const;
  /// Of two values in order.
  [[nodiscard]] std::uint64_t print(std::uint64_t one, std::uint64_t other) const {
    return product(one, other, pairs_);
  }
  /// Hides the value of a number; differences of hidden values are those of the values.
  [[nodiscard]] std::uint16_t hide(std::uint64_t number) const {
    return static_cast<std::uint16_t>(number + pad_);
  }

 private:
  /// The halves of the product on each other.
  static std::uint64_t folded(std::uint64_t one, std::uint64_t other) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(one) * other;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
  }

  using Factors = std::array<std::uint64_t, 4>;
  static std::uint64_t product(std::uint64_t one, std::uint64_t other, const Factors& by) {
    return folded(folded(one ^ by[0], other ^ by[1]) ^ by[2], by[3]);
  }
  /// Four that `name` and the secret decide.
  [[nodiscard]] Factors factors(char name) const;

  std::uint64_t low_;
  std::uint64_t high_;
  std::uint64_t pad_;
  Factors words_;
  Factors pairs_;
};

}  // namespace afterimage
