// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>

#include "afterimage/result.h"

namespace afterimage {

/// An unsigned number with a unit. Conversions are explicit, so bytes and tokens cannot be mixed
/// up. Arithmetic that would overflow or underflow Rep is a broken invariant (AFI_CHECK), never a
/// wrap.
template <typename Tag, typename Rep>
class Quantity {
 public:
  using rep = Rep;

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}

  [[nodiscard]] constexpr Rep value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;

  constexpr Quantity& operator+=(Quantity other) {
    AFI_CHECK(other.value_ <= std::numeric_limits<Rep>::max() - value_);
    value_ = static_cast<Rep>(value_ + other.value_);
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    AFI_CHECK(other.value_ <= value_);
    value_ = static_cast<Rep>(value_ - other.value_);
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  /// a - b, or 0 where b is greater.
  friend constexpr Quantity sub_sat(Quantity a, Quantity b) { return a > b ? a - b : Quantity(); }

  static constexpr Quantity max() { return Quantity(std::numeric_limits<Rep>::max()); }

 private:
  static_assert(std::numeric_limits<Rep>::is_integer && !std::numeric_limits<Rep>::is_signed,
                "counts and sizes are never negative");
  Rep value_ = 0;
};

using Bytes = Quantity<struct BytesTag, std::uint64_t>;
using TokenCount = Quantity<struct TokenCountTag, std::uint32_t>;
/// Rows of an encoder's output: the unit in which schedulers count encoder compute and cache space.
using EmbeddingCount = Quantity<struct EmbeddingCountTag, std::uint64_t>;
using EntryCount = Quantity<struct EntryCountTag, std::uint64_t>;

/// A span of time. Also the unit of an entry's cost: the measured time that a hit saves.
using Duration = std::chrono::nanoseconds;

constexpr Bytes operator""_B(unsigned long long n) { return Bytes(n); }
constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes(n << 10U); }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes(n << 20U); }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes(n << 30U); }

constexpr double to_milliseconds(Duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

}  // namespace afterimage
