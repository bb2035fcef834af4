// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "afterimage/digest.h"

namespace afterimage {

/// Hash for maps keyed by a digest. SHA-256 output is already uniform, so the hash is its first
/// eight bytes; equality still compares all 256 bits.
struct DigestHash {
  using is_avalanching = void;
  template <typename Tag>
  std::size_t operator()(const Digest<Tag>& digest) const noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, digest.bytes.data(), sizeof word);
    return static_cast<std::size_t>(word);
  }
};

}  // namespace afterimage
