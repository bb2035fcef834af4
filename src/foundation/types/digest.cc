// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/digest.h"

#include <charconv>

namespace afterimage {

std::string to_hex(std::span<const std::byte, kDigestBytes> bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.resize_and_overwrite(2 * kDigestBytes, [&](char* out, std::size_t size) {
    for (const std::byte b : bytes) {
      *out++ = kDigits[std::to_integer<unsigned>(b) >> 4U];
      *out++ = kDigits[std::to_integer<unsigned>(b) & 15U];
    }
    return size;
  });
  return text;
}

Result<std::array<std::byte, kDigestBytes>> digest_from_hex(std::string_view hex) {
  if (hex.size() != 2 * kDigestBytes) {
    return fail(ErrorCode::kInvalidArgument, "a digest has 64 hexadecimal digits; found " +
                                                 std::to_string(hex.size()) + " characters");
  }
  std::array<std::byte, kDigestBytes> bytes{};
  for (std::size_t i = 0; i < kDigestBytes; ++i) {
    const char* const digits = hex.data() + 2 * i;
    unsigned char value = 0;
    if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) {
      return fail(ErrorCode::kInvalidArgument,
                  "a digest has a non-hexadecimal digit at position " + std::to_string(2 * i));
    }
    bytes[i] = std::byte{value};
  }
  return bytes;
}

}  // namespace afterimage
