// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/to_rgb.h"

extern "C" {
#include <libavutil/pixdesc.h>
}

#include <array>
#include <cstddef>

#include "foundation/media/even_frame.h"

namespace afterimage {
namespace {

constexpr int kExactly = SWS_ACCURATE_RND | SWS_BITEXACT | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP;

/// Only of these are packed and planar RGB the same but for what ToRgb says.
bool has_luma_and_chroma(AVPixelFormat format) {
  const AVPixFmtDescriptor& about = *av_pix_fmt_desc_get(format);
  return about.nb_components >= 3 &&
         (about.flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL)) == 0;
}

std::vector<std::uint8_t> without_gaps(const std::uint8_t* from, std::size_t stride,
                                       std::size_t row, std::size_t height) {
  std::vector<std::uint8_t> rows;
  rows.reserve(row * height);
  for (std::size_t y = 0; y < height; ++y, from += stride)
    rows.insert(rows.end(), from, from + row);
  return rows;
}

using Planes = std::array<const std::uint8_t*, 4>;  // red, green, blue, and of four channels alpha

template <std::size_t kChannels>
void join_row(const Planes& planes, std::size_t begin, std::size_t width, std::uint8_t* pixel) {
  const std::uint8_t* const red = planes[0] + begin;
  const std::uint8_t* const green = planes[1] + begin;
  const std::uint8_t* const blue = planes[2] + begin;
  for (std::size_t i = 0; i < width; ++i, pixel += kChannels) {
    pixel[0] = red[i];
    pixel[1] = green[i];
    pixel[2] = blue[i];
    if constexpr (kChannels == 4) pixel[3] = planes[3][begin + i];
  }
}

std::vector<std::uint8_t> joined(const Planes& planes, std::size_t stride, std::size_t width,
                                 std::size_t height) {
  const std::size_t channels = planes[3] == nullptr ? 3 : 4;
  std::vector<std::uint8_t> rows(channels * width * height);
  for (std::size_t y = 0; y < height; ++y) {
    std::uint8_t* const to = rows.data() + y * channels * width;
    if (channels == 3) {
      join_row<3>(planes, y * stride, width, to);
    } else {
      join_row<4>(planes, y * stride, width, to);
    }
  }
  return rows;
}

AVPixelFormat format_of(bool is_planar, std::size_t channels) {
  if (is_planar) return channels == 4 ? AV_PIX_FMT_GBRAP : AV_PIX_FMT_GBRP;
  return channels == 4 ? AV_PIX_FMT_RGBA : AV_PIX_FMT_RGB24;
}

}  // namespace

Result<std::vector<std::uint8_t>> ToRgb::convert(const AVFrame& frame, const FrameColours& colours,
                                                 std::size_t channels, const MediaFile& file) {
  if (sws_isSupportedInput(colours.format) == 0) {
    return unsupported(file, "an unknown pixel format");
  }
  AFI_TRY(const EvenFrame even, even_frame(frame));
  const AVFrame& source = even == nullptr ? frame : *even;
  const bool is_planar = has_luma_and_chroma(colours.format);
  context_.reset(sws_getCachedContext(
      context_.release(), source.width, source.height, colours.format, source.width, source.height,
      format_of(is_planar, channels), filter_ | kExactly, nullptr, nullptr, nullptr));
  if (context_ == nullptr) return unsupported(file, "a pixel format without a conversion");
  sws_setColorspaceDetails(context_.get(), sws_getCoefficients(scaler_matrix(colours.matrix)),
                           colours.is_full_range ? 1 : 0, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0,
                           1 << 16, 1 << 16);
  const auto width = static_cast<std::size_t>(frame.width);
  const auto height = static_cast<std::size_t>(frame.height);
  const std::size_t samples = is_planar ? 1 : channels;  // of a pixel, in a plane
  // It writes whole blocks of pixels.
  const std::size_t stride = (samples * static_cast<std::size_t>(source.width) + 127) / 64 * 64;
  const std::size_t plane = stride * static_cast<std::size_t>(source.height) + 64;
  padded_.resize(plane * channels / samples);
  // Green, blue, red, alpha.
  std::array<std::uint8_t*, 4> to{};
  std::array<int, 4> strides{};
  for (std::size_t i = 0; i < channels / samples; ++i) {
    to[i] = padded_.data() + i * plane;
    strides[i] = static_cast<int>(stride);
  }
  if (sws_scale(context_.get(), source.data, source.linesize, 0, source.height, to.data(),
                strides.data()) != source.height) {
    return corrupt(file, "its pixels cannot be converted to RGB");
  }
  if (!is_planar) return without_gaps(padded_.data(), stride, channels * width, height);
  const std::uint8_t* const green = padded_.data();
  return joined(
      {green + 2 * plane, green, green + plane, channels == 4 ? green + 3 * plane : nullptr},
      stride, width, height);
}

}  // namespace afterimage
