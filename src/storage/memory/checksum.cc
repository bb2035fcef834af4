// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/checksum.h"

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // three times the speed of the plain symbols
#else
#include <xxhash.h>
#endif

#include <memory>

#include "afterimage/result.h"

namespace afterimage {

Checksum Checksum::of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.low = hash.low64, .high = hash.high64};
}

Checksum Checksum::of(std::span<const std::span<const std::byte>> pieces) {
  if (pieces.size() == 1) return of(pieces.front());
  RunningChecksum running;
  for (const auto piece : pieces) running.add(piece);
  return running.value();
}

RunningChecksum::RunningChecksum()
    : state_(XXH3_createState(),
             [](void* state) { XXH3_freeState(static_cast<XXH3_state_t*>(state)); }) {
  AFI_CHECK(state_ != nullptr &&
            XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_.get())) == XXH_OK);
}

void RunningChecksum::add(std::span<const std::byte> bytes) {
  AFI_CHECK(XXH3_128bits_update(static_cast<XXH3_state_t*>(state_.get()), bytes.data(),
                                bytes.size()) == XXH_OK);
}

Checksum RunningChecksum::value() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_.get()));
  return {.low = hash.low64, .high = hash.high64};
}

std::uint64_t short_checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace afterimage
