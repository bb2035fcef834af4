// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/frame_size.h"

#include <algorithm>
#include <cmath>

namespace afterimage {

FrameSize seen_size(FrameSize stored, std::size_t frames, bool is_qwen3) {
  constexpr double kOfClip = 25'165'824;
  constexpr double kOfFrame = 768 * 28 * 28;
  const double patch = is_qwen3 ? 32 : 28;  // two by two of them are merged
  const double most = is_qwen3 ? kOfClip / static_cast<double>(frames) : kOfFrame;
  const double found = double{1} * stored.width * stored.height;
  if (found <= most) return stored;
  const double scale = std::sqrt(most / found);
  const auto reduced = [&](std::uint32_t side) {
    const double patches = std::max(std::floor(side * scale / patch), 1.0);
    return std::min(side, static_cast<std::uint32_t>(patches * patch));
  };
  return {.width = reduced(stored.width), .height = reduced(stored.height)};
}

}  // namespace afterimage
