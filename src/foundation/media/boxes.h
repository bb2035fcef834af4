// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "foundation/media/cursor.h"

namespace afterimage {

/// A box of an ISO base media file: MP4, HEIC, AVIF, JPEG 2000.
struct Box {
  std::string_view type;
  std::span<const std::byte> body;
};

/// The next box; nullopt: there is none, or it is longer than what it is in.
inline std::optional<Box> next_box(ByteCursor& cursor) {
  std::uint64_t size = cursor.big(4);
  const std::string_view type = as_text(cursor.take(4));
  std::uint64_t header = 8;
  if (size == 1) {
    size = std::uint64_t{cursor.big(4)} << 32U;
    size |= cursor.big(4);
    header = 16;
  } else if (size == 0) {
    size = header + cursor.rest().size();
  }
  if (size < header) return std::nullopt;
  const auto body = cursor.take(size - header);
  if (cursor.ended_early()) return std::nullopt;
  return Box{.type = type, .body = body};
}

}  // namespace afterimage
