// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/media/media_limits.h"

namespace afterimage {

/// Upright 8-bit RGB, row-major: rgb.size() == 3 * width * height. Alpha is composited over white,
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
  Duration at{0};  // presentation time, from the start
};

/// All three probe the file first and decode it only if the probe passed. A file that ends early,
/// or whose body contradicts its header, is kCorruption, never a partial image.
///
/// Errors   As probe(); kCorruption also for damage found while decoding.
/// Threads  Any.
/// Of an animation, the first frame, as Pillow shows it.
Result<Image> decode_image(const MediaItem& item, const MediaLimits& limits = {});
Result<Samples> decode_audio(const MediaItem& item, const MediaLimits& limits = {});
/// Frames of an animated GIF or WebP as a player shows them (each composited over those before), or
/// the files of a folder in order, one per period of `frame_rate_mhz`.
Result<std::vector<Frame>> decode_video(const MediaItem& item, const MediaLimits& limits = {});

/// Reads frames of a video one at a time, so that they are never in memory together. Of an MP4, WebM or
/// Matroska file every frame up to the last wanted one is decoded and only the wanted ones are
/// converted: neither the file's frames nor the wanted ones are limited by MediaLimits::max_frames
/// and max_total_pixels. Of a folder only the wanted files are decoded. An animation is decoded
/// whole when its first frame is read.
///
/// Threads  One at a time.
class FrameReader {
 public:
  /// Probes the item. `positions` never decrease; a frame may be wanted again. Errors as
  /// decode_frames().
  static Result<FrameReader> open(const MediaItem& item, std::span<const std::uint32_t> positions,
                                  const MediaLimits& limits = {});
  FrameReader(FrameReader&& other) noexcept;
  FrameReader& operator=(FrameReader&& other) noexcept;
  ~FrameReader();

  /// The frame at the next position; nullopt after the last. After an error only errors follow.
  Result<std::optional<Frame>> next();

 private:
  struct State;
  explicit FrameReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Only these frames of the same, whose positions are strictly increasing. Of an MP4, WebM or Matroska
/// file every frame up to the last is decoded, one after the other, and these are kept: it may have
/// more frames than MediaLimits::max_frames. kCorruption: there is no such frame.
Result<std::vector<Frame>> decode_frames(const MediaItem& item,
                                         std::span<const std::uint32_t> positions,
                                         const MediaLimits& limits = {});

/// Names the libraries that decide which samples a sound has: part of a preprocessing recipe.
std::string sound_decoder();

/// Names the libraries that decide which pixels a HEIC, AVIF, TIFF or JPEG 2000 file has: part of a
/// preprocessing recipe.
std::string picture_decoder();

/// Names the libraries that decide which pixels a video file has: part of a preprocessing recipe.
std::string video_decoder();

/// Resizes by area averaging (down) or bilinear interpolation (up). Deterministic on every machine.
/// Requires that no side, old or new, is zero.
Image resize(const Image& image, std::uint32_t width, std::uint32_t height);

}  // namespace afterimage
