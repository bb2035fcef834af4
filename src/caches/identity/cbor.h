// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace afterimage {

/// Writes canonical CBOR (RFC 8949): shortest heads, definite lengths. It has only the types that
/// block hashes need.
class CborWriter {
 public:
  /// Starts a new message and keeps the allocated memory.
  void clear() { message_.clear(); }

  CborWriter& integer(std::int64_t value) {
    return value >= 0 ? head(kUnsigned, static_cast<std::uint64_t>(value))
                      : head(kNegative, ~static_cast<std::uint64_t>(value));  // -1 - value
  }
  CborWriter& bytes(std::span<const std::byte> value) {
    head(kBytes, value.size());
    message_.insert(message_.end(), value.begin(), value.end());
    return *this;
  }
  /// UTF-8 as given.
  CborWriter& text(std::string_view value) {
    head(kText, value.size());
    const auto raw = std::as_bytes(std::span(value));
    message_.insert(message_.end(), raw.begin(), raw.end());
    return *this;
  }
  /// Begins an array; the next `count` values are its elements.
  CborWriter& array(std::size_t count) { return head(kArray, count); }
  CborWriter& null() {
    message_.push_back(std::byte{0xF6});
    return *this;
  }

  [[nodiscard]] std::span<const std::byte> message() const { return message_; }

 private:
  enum Major : unsigned { kUnsigned = 0, kNegative = 1, kBytes = 2, kText = 3, kArray = 4 };

  CborWriter& head(Major major, std::uint64_t value) {
    const unsigned high = static_cast<unsigned>(major) << 5U;
    if (value < 24) return put(high | static_cast<unsigned>(value), value, 0);
    if (value <= 0xFFU) return put(high | 24U, value, 1);
    if (value <= 0xFFFFU) return put(high | 25U, value, 2);
    if (value <= 0xFFFF'FFFFU) return put(high | 26U, value, 4);
    return put(high | 27U, value, 8);
  }

  /// The head's first byte, then `width` bytes of the value, big-endian.
  CborWriter& put(unsigned first, std::uint64_t value, unsigned width) {
    message_.push_back(static_cast<std::byte>(first));
    while (width-- > 0) message_.push_back(static_cast<std::byte>((value >> (8 * width)) & 0xFFU));
    return *this;
  }

  std::vector<std::byte> message_;
};

}  // namespace afterimage
