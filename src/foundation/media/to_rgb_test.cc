// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/to_rgb.h"

#include <gtest/gtest.h>

#include <cstring>

namespace afterimage {
namespace {

constexpr int kRows = 32;
constexpr int kWidth = 16;

/// Grey luma under two colours, which meet in the middle.
OwnedAv<AVFrame> two_colours(AVPixelFormat format) {
  OwnedAv<AVFrame> frame(av_frame_alloc());
  frame->format = format;
  frame->width = kWidth;
  frame->height = kRows;
  EXPECT_EQ(av_frame_get_buffer(frame.get(), 0), 0);
  const int chroma_rows = format == AV_PIX_FMT_YUV420P ? kRows / 2 : kRows;
  for (int plane = 0; plane < 3; ++plane) {
    const int rows = plane == 0 ? kRows : chroma_rows;
    for (int y = 0; y < rows; ++y) {
      const int level = plane == 2 && y >= rows / 2 ? 200 : 128;
      std::memset(frame->data[plane] + std::ptrdiff_t{y} * frame->linesize[plane], level, kWidth);
    }
  }
  return frame;
}

/// Of a pixel in each row around the middle.
std::vector<int> reds(int filter, AVPixelFormat format, std::size_t channels = 3) {
  const OwnedAv<AVFrame> frame = two_colours(format);
  const auto rows =
      ToRgb(filter)
          .convert(*frame, {.format = format, .matrix = AVCOL_SPC_UNSPECIFIED}, channels, {})
          .value();
  EXPECT_EQ(rows.size(), channels * kWidth * kRows);
  std::vector<int> reds;
  for (std::size_t y = kRows / 2 - 2; y < kRows / 2 + 2; ++y)
    reds.push_back(rows.at(channels * (y * kWidth + 8)));
  return reds;
}

// Regression: with libswscale 6 to 8 (FFmpeg 5 to 7), packed RGB took the nearer row of colours, or the mean of
// two: {130, 130, 188, 245}.
TEST(ToRgb, WeighsBothRowsOfColours) {
  EXPECT_EQ(reds(SWS_BILINEAR, AV_PIX_FMT_YUV420P), (std::vector{130, 159, 217, 245}));
  EXPECT_EQ(reds(SWS_BICUBIC, AV_PIX_FMT_YUV420P), (std::vector{121, 155, 221, 255}));
  EXPECT_EQ(reds(SWS_POINT, AV_PIX_FMT_YUV420P), (std::vector{130, 130, 245, 245}));
  EXPECT_EQ(reds(SWS_BILINEAR, AV_PIX_FMT_YUV422P), (std::vector{130, 130, 245, 245}));
}

/// As libswscale writes it.
std::vector<std::uint8_t> packed(const AVFrame& frame, int filter, AVPixelFormat to,
                                 std::size_t channels) {
  const auto format = static_cast<AVPixelFormat>(frame.format);
  const OwnedAv<SwsContext> context(sws_getContext(
      frame.width, frame.height, format, frame.width, frame.height, to,
      filter | SWS_ACCURATE_RND | SWS_BITEXACT | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP, nullptr,
      nullptr, nullptr));
  sws_setColorspaceDetails(context.get(), sws_getCoefficients(SWS_CS_ITU601), 0,
                           sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  const std::size_t stride = (channels * static_cast<std::size_t>(frame.width) + 127) / 64 * 64;
  std::vector<std::uint8_t> padded(stride * static_cast<std::size_t>(frame.height) + 64);
  std::uint8_t* const planes[4] = {padded.data(), nullptr, nullptr, nullptr};
  const int strides[4] = {static_cast<int>(stride), 0, 0, 0};
  EXPECT_EQ(sws_scale(context.get(), frame.data, frame.linesize, 0, frame.height, planes, strides),
            frame.height);
  std::vector<std::uint8_t> rows;
  for (int y = 0; y < frame.height; ++y) {
    const auto row = padded.begin() + y * static_cast<std::ptrdiff_t>(stride);
    rows.insert(rows.end(), row,
                row + static_cast<std::ptrdiff_t>(channels) * std::ptrdiff_t{frame.width});
  }
  return rows;
}

TEST(ToRgb, PicturesHaveThePixelsOfPackedRgb) {
  for (const AVPixelFormat format :
       {AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUV422P, AV_PIX_FMT_YUV444P, AV_PIX_FMT_NV12,
        AV_PIX_FMT_YUV420P10LE, AV_PIX_FMT_YUVA420P, AV_PIX_FMT_GRAY8, AV_PIX_FMT_RGB24,
        AV_PIX_FMT_BGR0, AV_PIX_FMT_GBRP}) {
    OwnedAv<AVFrame> frame(av_frame_alloc());
    frame->format = format;
    frame->width = 50;
    frame->height = 38;
    ASSERT_EQ(av_frame_get_buffer(frame.get(), 0), 0);
    std::uint32_t random = 1;
    for (std::size_t plane = 0; plane < 4 && frame->buf[plane] != nullptr; ++plane) {
      for (std::size_t i = 0; i < frame->buf[plane]->size; ++i) {
        random = random * 1'664'525 + 1'013'904'223;
        const bool is_upper_half = format == AV_PIX_FMT_YUV420P10LE && i % 2 == 1;
        frame->buf[plane]->data[i] =
            static_cast<std::uint8_t>(random >> (is_upper_half ? 30U : 24U));
      }
    }
    const bool has_alpha = format == AV_PIX_FMT_YUVA420P;
    const std::size_t channels = has_alpha ? 4 : 3;
    for (const int filter : {SWS_BICUBIC, SWS_POINT}) {
      const auto rows = ToRgb(filter).convert(*frame, {.format = format}, channels, {});
      ASSERT_TRUE(rows.has_value()) << format;
      EXPECT_EQ(*rows,
                packed(*frame, filter, has_alpha ? AV_PIX_FMT_RGBA : AV_PIX_FMT_RGB24, channels))
          << format << ", " << filter;
    }
  }
}

TEST(ToRgb, PutsAlphaBehindTheColours) {
  EXPECT_EQ(reds(SWS_BICUBIC, AV_PIX_FMT_YUV444P, 4), (std::vector{130, 130, 245, 245}));
  const OwnedAv<AVFrame> frame = two_colours(AV_PIX_FMT_YUV444P);
  const auto rows = ToRgb(SWS_BICUBIC).convert(*frame, {.format = AV_PIX_FMT_YUV444P}, 4, {});
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(std::vector(rows->end() - 4, rows->end()),
            (std::vector<std::uint8_t>{245, 72, 130, 255}));
}

TEST(ToRgb, TakesGreyFramesAndNoHardwares) {
  OwnedAv<AVFrame> frame(av_frame_alloc());
  frame->format = AV_PIX_FMT_GRAY8;
  frame->width = 5;
  frame->height = 3;
  ASSERT_EQ(av_frame_get_buffer(frame.get(), 0), 0);
  for (int y = 0; y < 3; ++y) {
    std::memset(frame->data[0] + std::ptrdiff_t{y} * frame->linesize[0], 77, 5);
  }
  ToRgb to_rgb(SWS_BILINEAR);
  const auto grey =
      to_rgb.convert(*frame, {.format = AV_PIX_FMT_GRAY8, .is_full_range = true}, 3, {});
  EXPECT_EQ(grey.value(), std::vector<std::uint8_t>(5 * 3 * 3, 77));
  EXPECT_EQ(to_rgb.convert(*frame, {.format = AV_PIX_FMT_VAAPI}, 3, {}).error().code,
            ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace afterimage
