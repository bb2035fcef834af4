// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/token_places.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace afterimage {

std::vector<TokenPlace> mrope_places(const Sequence& prompt) {
  std::vector<TokenPlace> places;
  places.reserve(prompt.tokens.size() + 1);
  std::int32_t next = 0;
  const auto add_text = [&](std::size_t until) {
    for (; places.size() < until; ++next) places.push_back({next, next, next});
  };
  for (const MediaSpan& span : prompt.spans) {
    if (span.columns == 0) continue;
    add_text(span.offset.value());
    const auto columns = static_cast<std::int32_t>(span.columns);
    const auto length = static_cast<std::int32_t>(span.length.value());
    for (std::int32_t i = 0; i < length; ++i) {
      places.push_back({next, next + i / columns, next + i % columns});
    }
    next += std::max((length + columns - 1) / columns, std::min(columns, length));
  }
  add_text(prompt.tokens.size() + 1);
  return places;
}

}  // namespace afterimage
