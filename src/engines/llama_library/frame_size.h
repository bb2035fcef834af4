// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>

namespace afterimage {

/// Of one frame, in pixels.
struct FrameSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;

  bool operator==(const FrameSize&) const = default;
};

/// The size to which Qwen's video processors reduce frames: Qwen3-VL looks at 25,165,824 pixels of a clip's
/// `frames` together at most, Qwen2-VL at 602,112 of each; sides are whole patches then. Smaller
/// frames keep their size, here.
///
/// Requires frames > 0.
/// Source   Qwen3VLVideoProcessor and Qwen2VLVideoProcessor, smart_resize (transformers), with the
///          models' video_preprocessor_config.json.
[[nodiscard]] FrameSize seen_size(FrameSize stored, std::size_t frames, bool is_qwen3);

}  // namespace afterimage
