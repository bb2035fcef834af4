// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/checksum.h"

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // three times the speed of the plain symbols
#else
#include <xxhash.h>
#endif

#include <memory>

#include "afterimage/check.h"

namespace afterimage {

Checksum Checksum::of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.low = hash.low64, .high = hash.high64};
}

Checksum Checksum::of(std::span<const std::span<const std::byte>> pieces) {
  if (pieces.size() == 1) return of(pieces.front());
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  AFI_CHECK(state != nullptr && XXH3_128bits_reset(state.get()) == XXH_OK);
  for (const auto piece : pieces) {
    AFI_CHECK(XXH3_128bits_update(state.get(), piece.data(), piece.size()) == XXH_OK);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return {.low = hash.low64, .high = hash.high64};
}

std::uint64_t short_checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace afterimage
