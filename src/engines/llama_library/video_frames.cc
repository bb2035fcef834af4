// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/video_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace afterimage {
namespace {

constexpr double kFramesPerSecond = 2;
constexpr std::uint32_t kLeast = 4;
constexpr std::uint32_t kMost = 768;

}  // namespace

std::vector<FramePair> frame_pairs(std::uint32_t frames, Duration length) {
  const double seconds = std::chrono::duration<double>(length).count();
  const auto wanted = static_cast<std::uint32_t>(
      std::clamp(seconds * kFramesPerSecond, double{kLeast}, double{kMost}));
  const std::uint32_t count = std::max(std::min(wanted, frames) / 2 * 2, 2U);
  const auto frame_at = [&](std::uint32_t i) {
    const double place = static_cast<double>(i) * (frames - 1) / (count - 1);
    return static_cast<std::uint32_t>(std::nearbyint(place));
  };
  std::vector<FramePair> pairs;
  for (std::uint32_t i = 0; i < count; i += 2) {
    FramePair pair{.first = frame_at(i), .second = frame_at(i + 1)};
    pair.at = (pair.first + pair.second) / 2.0 * seconds / frames;
    pairs.push_back(pair);
  }
  return pairs;
}

std::string timestamp_of(const FramePair& pair) { return fmt::format("<{:.1f} seconds>", pair.at); }

}  // namespace afterimage
