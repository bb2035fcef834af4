// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "foundation/media/formats.h"
#include "foundation/media/libav.h"

/// Private to this room, where FFmpeg's libraries are linked.
namespace afterimage {

/// What a frame's samples mean, where the frame itself may be wrong.
struct FrameColours {
  AVPixelFormat format = AV_PIX_FMT_NONE;
  std::uint32_t matrix = 0;  // AVCOL_SPC_*, any number
  bool is_full_range = false;
};

/// Converts frames to RGB or RGBA, 8 bits each, without scaling, to the same bits on every machine.
///
/// Planes   Luma and chroma become planes of red, green and blue first, which are then put together. For packed
///          RGB libswscale has plain C only, which takes six times as long, and with SWS_BILINEAR it takes the
///          nearer row of chroma, or the mean of two, instead of weighing both.
/// Threads  One at a time.
class ToRgb {
 public:
  /// How colours of several pixels are spread over them: SWS_POINT, SWS_BILINEAR, SWS_BICUBIC.
  explicit ToRgb(int filter) : filter_(filter) {}
  /// Rows of `channels` bytes (3 or 4) for each pixel, without gaps.
  ///
  /// Errors   kUnsupported: a pixel format that libswscale does not convert. kCorrupt, kNoSpace.
  Result<std::vector<std::uint8_t>> convert(const AVFrame& frame, const FrameColours& colours,
                                            std::size_t channels, const MediaFile& file);

 private:
  int filter_;
  OwnedAv<SwsContext> context_;
  std::vector<std::uint8_t> padded_;
};

}  // namespace afterimage
