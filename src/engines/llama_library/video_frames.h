// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "afterimage/units.h"

namespace afterimage {

/// Of two frames that a video encoder merges: when they are shown, seconds from the start.
struct FramePair {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  double at = 0;
};

/// The frames of a clip that Qwen's video processors take: two a second, at least four, evenly from
/// the first to the last, in pairs. A clip of one frame is a pair of it.
///
/// Requires frames > 0.
/// Source   Qwen2VLVideoProcessor.sample_frames, Qwen3VLProcessor._calculate_timestamps
///          (transformers).
[[nodiscard]] std::vector<FramePair> frame_pairs(std::uint32_t frames, Duration length);

/// What Qwen3-VL reads before a pair: "<1.2 seconds>".
[[nodiscard]] std::string timestamp_of(const FramePair& pair);

}  // namespace afterimage
