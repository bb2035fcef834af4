// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace afterimage {

/// Reads forward through untrusted bytes, never past their end. A read beyond the end returns zero
/// (or nothing) and sets a flag: read a few fields, then check ended_early().
class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  [[nodiscard]] bool ended_early() const { return ended_early_; }
  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > rest_.size()) {
      ended_early_ = true;
      rest_ = {};
      return {};
    }
    const auto taken = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

  /// An unsigned big-endian number of `width` bytes (at most 4).
  std::uint32_t big(std::size_t width) {
    std::uint32_t value = 0;
    for (const std::byte b : take(width)) value = (value << 8U) | std::to_integer<std::uint32_t>(b);
    return value;
  }

  /// An unsigned little-endian number of `width` bytes (at most 4).
  std::uint32_t little(std::size_t width) {
    std::uint32_t value = 0;
    unsigned shift = 0;
    for (const std::byte b : take(width)) {
      value |= std::to_integer<std::uint32_t>(b) << shift;
      shift += 8;
    }
    return value;
  }

 private:
  std::span<const std::byte> rest_;
  bool ended_early_ = false;
};

/// The bytes as characters, whatever they contain.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The bytes as unsigned char, for C libraries.
inline const unsigned char* as_octets(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace afterimage
