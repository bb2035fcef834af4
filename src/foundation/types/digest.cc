// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/digest.h"

namespace afterimage {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

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
    const int high = hex_value(hex[2 * i]);
    const int low = hex_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "a digest has a non-hexadecimal digit at position " + std::to_string(2 * i));
    }
    bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  return bytes;
}

}  // namespace afterimage
