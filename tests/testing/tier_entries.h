// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
/// Keys and values that tests regenerate instead of storing.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "afterimage/tier.h"
#include "foundation/platform/random.h"

namespace afterimage::testing {

inline TierKey tier_key(std::uint64_t n, EntryClass entry_class = EntryClass::kEncoderOutput) {
  TierKey key{.entry_class = entry_class};
  Rng rng(n);
  for (std::byte& byte : key.bytes) byte = static_cast<std::byte>(rng.below(256));
  return key;
}

/// Bytes that differ for every (seed, size), so that no copy has to be stored.
inline std::vector<std::byte> tier_bytes(std::uint64_t seed, std::size_t size) {
  std::vector<std::uint64_t> words(size / 8 + 1);
  std::uint64_t word = Rng(seed ^ (size << 32U)).next();
  for (std::uint64_t& each : words) each = word = word * 0x5851F42D4C957F2DU + 1;
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), words.data(), size);
  return bytes;
}

}  // namespace afterimage::testing
