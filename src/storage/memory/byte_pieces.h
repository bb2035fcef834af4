// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "afterimage/result.h"
#include "afterimage/tier.h"

namespace afterimage {

inline std::size_t size_of(BytePieces pieces) {
  std::size_t size = 0;
  for (const auto piece : pieces) size += piece.size();
  return size;
}

/// Requires that `to` has size_of(pieces) bytes.
inline void copy_pieces(BytePieces pieces, std::span<std::byte> to) {
  AFI_CHECK(to.size() == size_of(pieces));
  for (const auto piece : pieces) {
    // Not std::ranges::copy, which g++ 12 compiles to a loop over single bytes.
    if (!piece.empty()) std::memcpy(to.data(), piece.data(), piece.size());
    to = to.subspan(piece.size());
  }
}

}  // namespace afterimage
