// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// The bytes of one input, consumed from the front: small numbers that steer a target, and text.
/// After the end, numbers are 0 and texts are empty.
namespace afterimage::testing {

class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

  [[nodiscard]] bool empty() const { return left_.empty(); }
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  /// Up to that many bytes, or fewer at the end.
  std::string_view text(std::size_t size) {
    const auto part = left_.first(std::min(size, left_.size()));
    left_ = left_.subspan(part.size());
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::string_view rest() { return text(left_.size()); }
  /// Up to the next `end`, which is consumed too; everything if there is none.
  std::string_view until(char end) {
    const std::string_view all(reinterpret_cast<const char*>(left_.data()), left_.size());
    const std::string_view part = text(std::min(all.find(end), all.size()));
    text(1);
    return part;
  }

 private:
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    for (const char byte : text(size)) value = value << 8U | static_cast<std::uint8_t>(byte);
    return value;
  }

  std::span<const std::uint8_t> left_;
};

}  // namespace afterimage::testing
