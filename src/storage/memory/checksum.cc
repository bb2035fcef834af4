// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/checksum.h"

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // three times the speed of the plain symbols
#else
#include <xxhash.h>
#endif

namespace afterimage {

Checksum Checksum::of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.low = hash.low64, .high = hash.high64};
}

std::uint64_t short_checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace afterimage
