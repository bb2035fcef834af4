// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "engines/llama/sequence_state.h"

namespace afterimage::testing {

/// The bytes that llama.cpp would have written for what it restores from `outline`; empty if `fill`
/// fails.
template <typename Fill>
std::vector<std::byte> restored_state(const StateOutline& outline, const Fill& fill) {
  std::size_t size = 0;
  for (const StatePart& part : outline.parts) size += part.bytes.size() + part.rows;
  std::vector<std::byte> state(size, std::byte{0xEE});
  std::vector<std::span<std::byte>> places;
  std::size_t at = 0;
  for (const StatePart& part : outline.parts) {
    const auto place = std::span(state).subspan(at, part.bytes.size() + part.rows);
    if (part.rows > 0) places.push_back(place);
    std::ranges::copy(part.bytes, place.begin());
    at += place.size();
  }
  if (!fill(places).has_value()) state.clear();
  return state;
}

inline std::vector<std::byte> restored_state(const StateFormat& format,
                                             std::vector<SectionRows> sections) {
  const StateOutline outline = outline_of(format, std::move(sections));
  return restored_state(
      outline, [&](StatePlaces places) { return fill_rows(format, outline.sections, places); });
}

}  // namespace afterimage::testing
