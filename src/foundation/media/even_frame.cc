// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/even_frame.h"

extern "C" {
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace afterimage {

Result<EvenFrame> even_frame(const AVFrame& frame) {
  const auto format = static_cast<AVPixelFormat>(frame.format);
  const AVPixFmtDescriptor* const about = av_pix_fmt_desc_get(format);
  if (about == nullptr) return EvenFrame();
  const int across = 1 << about->log2_chroma_w;
  const int down = 1 << about->log2_chroma_h;
  const int width = (frame.width + across - 1) / across * across;
  const int height = (frame.height + down - 1) / down * down;
  const bool is_planar = av_pix_fmt_count_planes(format) == about->nb_components;
  if (!is_planar || (width == frame.width && height == frame.height)) {
    return EvenFrame();
  }
  EvenFrame even(av_frame_alloc());
  if (even == nullptr) return fail(ErrorCode::kNoSpace, "no memory to decode a picture");
  even->format = frame.format;
  even->width = width;
  even->height = height;
  if (av_frame_copy_props(even.get(), &frame) < 0 || av_frame_get_buffer(even.get(), 0) < 0)
    return fail(ErrorCode::kNoSpace, "no memory to decode a picture");
  const int bytes = (about->comp[0].depth + 7) / 8;
  for (int plane = 0; plane < about->nb_components; ++plane) {
    const bool is_chroma = plane == 1 || plane == 2;
    const int from_width =
        is_chroma ? AV_CEIL_RSHIFT(frame.width, about->log2_chroma_w) : frame.width;
    const int from_height =
        is_chroma ? AV_CEIL_RSHIFT(frame.height, about->log2_chroma_h) : frame.height;
    const int to_width = is_chroma ? width >> about->log2_chroma_w : width;
    const int to_height = is_chroma ? height >> about->log2_chroma_h : height;
    for (int y = 0; y < to_height; ++y) {
      const std::uint8_t* const from =
          frame.data[plane] + std::ptrdiff_t{std::min(y, from_height - 1)} * frame.linesize[plane];
      std::uint8_t* const to = even->data[plane] + std::ptrdiff_t{y} * even->linesize[plane];
      std::memcpy(to, from, static_cast<std::size_t>(from_width * bytes));
      for (int x = from_width; x < to_width; ++x) {
        std::memcpy(to + std::ptrdiff_t{x} * bytes, from + std::ptrdiff_t{from_width - 1} * bytes,
                    static_cast<std::size_t>(bytes));
      }
    }
  }
  return even;
}

int scaler_matrix(std::uint32_t number) {
  switch (number) {
    case AVCOL_SPC_BT709:
      return SWS_CS_ITU709;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
      return SWS_CS_BT2020;
    case AVCOL_SPC_FCC:
      return SWS_CS_FCC;
    case AVCOL_SPC_SMPTE240M:
      return SWS_CS_SMPTE240M;
    default:
      return SWS_CS_ITU601;  // also where the file does not say: the library's own default
  }
}

}  // namespace afterimage
