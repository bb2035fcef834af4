// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// Upright 8-bit RGB, row-major: rgb.size() == 3 * width * height. Alpha is laid over white,
/// palettes and grey are expanded, EXIF orientation is applied.
struct Image {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::vector<std::uint8_t> rgb;
};

/// Mono samples in [-1, 1]: channels are averaged.
struct Samples {
  std::uint32_t sample_rate_hz = 0;
  std::vector<float> mono;
};

struct Frame {
  Image image;
  Duration at{0};  // when it appears, from the start
};

/// All three probe first and decode only what passed. A file that ends early, or whose body does
/// not give what its header promised, is kCorruption, never a half-grey image. Threads: any.
Result<Image> decode_image(const MediaItem& item, const MediaLimits& limits = {});
Result<Samples> decode_audio(const MediaItem& item, const MediaLimits& limits = {});
/// Frames of an animated GIF or WebP as a player shows them (each composed over those before), or
/// the files of a folder in order, one a period of `frame_rate_mhz`.
Result<std::vector<Frame>> decode_video(const MediaItem& item, const MediaLimits& limits = {});

/// Resizes by averaging over the covered area (down) or bilinear interpolation (up). Deterministic.
/// No side, old or new, may be zero.
Image resize(const Image& image, std::uint32_t width, std::uint32_t height);

}  // namespace afterimage
