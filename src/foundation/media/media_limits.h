// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

#include "afterimage/units.h"

namespace afterimage {

/// Limits on media files, checked against a file's header before anything is allocated for it.
struct MediaLimits {
  Bytes max_file = 64_MiB;
  std::uint32_t max_side = 16'384;               // pixels
  std::uint64_t max_pixels = 64'000'000;         // of one image or frame
  std::uint32_t max_frames = 256;                // of one animation or folder, or kept of a video
  std::uint64_t max_total_pixels = 512'000'000;  // of all those frames together
  std::uint32_t max_video_frames = 20'000;       // of one MP4, WebM or Matroska file
  std::uint64_t max_decoded_pixels = 4'000'000'000;  // of all its frames, which are decoded in turn
  std::uint64_t max_samples = 60ULL * 60 * 48'000;   // of one audio clip, per channel: an hour
};

}  // namespace afterimage
