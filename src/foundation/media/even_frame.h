// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

extern "C" {
#include <libavutil/frame.h>
}

#include <cstdint>
#include <cstring>
#include <memory>

#include "afterimage/result.h"

/// Private to this room, where FFmpeg's libraries are linked.
namespace afterimage {

struct FreeEvenFrame {
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
};
using EvenFrame = std::unique_ptr<AVFrame, FreeEvenFrame>;

/// With the last row and column of its first plane twice, where several pixels share a colour and the last of them
/// are not in the picture: libswscale, told to be exact, would stretch the colours over the picture. nullptr: it
/// needs none.
///
/// Errors  kNoSpace.
Result<EvenFrame> even_frame(const AVFrame& frame);

/// The number in frame.colorspace: decoders put there whatever a file says, which need not be one of the enumeration.
inline std::uint32_t colour_matrix(const AVFrame& frame) {
  static_assert(sizeof frame.colorspace == sizeof(std::uint32_t));
  std::uint32_t number = 0;
  std::memcpy(&number, &frame.colorspace, sizeof number);
  return number;
}

/// The same in libswscale's numbering.
int scaler_matrix(std::uint32_t number);

}  // namespace afterimage
