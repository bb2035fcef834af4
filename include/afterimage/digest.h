// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "afterimage/result.h"

namespace afterimage {

inline constexpr std::size_t kDigestBytes = 32;

/// `bytes` as 64 lower-case hexadecimal digits.
std::string to_hex(std::span<const std::byte, kDigestBytes> bytes);
/// Parses exactly 64 hexadecimal digits of either case; anything else is kInvalidArgument.
Result<std::array<std::byte, kDigestBytes>> digest_from_hex(std::string_view hex);

/// A 256-bit digest, stored and compared in full. `Tag` makes each kind of digest its own type.
/// The order is the byte order and is the same on every machine.
template <typename Tag>
struct Digest {
  std::array<std::byte, kDigestBytes> bytes{};

  auto operator<=>(const Digest&) const = default;

  [[nodiscard]] std::string hex() const { return to_hex(bytes); }
  static Result<Digest> from_hex(std::string_view hex) {
    AFI_TRY(const auto parsed, digest_from_hex(hex));
    return Digest{parsed};
  }
};

/// SHA-256 of a media item's raw bytes, independent of model, tenant and preprocessing.
using ContentDigest = Digest<struct ContentDigestTag>;
/// SHA-256 of decoded pixels or samples together with their shape, format and dtype.
using DecodedDigest = Digest<struct DecodedDigestTag>;
/// Key of one encoder output: content, preprocessing, encoder, weights and tenant (identity.h).
using EncoderKey = Digest<struct EncoderKeyTag>;
/// Identifies everything besides the token sequence that changes KV: model, weights, adapter, chat
/// template, dtype, preprocessing, tenant. The root of one prefix tree.
using NamespaceId = Digest<struct NamespaceIdTag>;
/// Identifies everything besides the question's own words that changes an answer.
using ScopeKey = Digest<struct ScopeKeyTag>;

}  // namespace afterimage
