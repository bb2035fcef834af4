// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {

namespace {

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};
struct DeletePlayer {
  void operator()(WebPAnimDecoder* player) const { WebPAnimDecoderDelete(player); }
};

WebPData as_webp(std::span<const std::byte> bytes) {
  return {.bytes = as_octets(bytes), .size = bytes.size()};
}

Orientation stored_orientation(const WebPDemuxer* demuxer) {
  WebPChunkIterator exif;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &exif) == 0) return Orientation::kUpright;
  auto body = std::as_bytes(std::span(exif.chunk.bytes, exif.chunk.size));
  // Some writers include the six-byte prefix that EXIF has in JPEG files.
  if (as_text(body).starts_with(std::string_view("Exif\0\0", 6))) body = body.subspan(6);
  const Orientation orientation = exif_orientation(body);
  WebPDemuxReleaseChunkIterator(&exif);
  return orientation;
}

}  // namespace

Result<PictureHeader> read_webp_header(const MediaFile& file) {
  const WebPData data = as_webp(file.bytes);
  const std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer(WebPDemux(&data));
  if (demuxer == nullptr) return corrupt(file, "a WebP that ends early or contradicts itself");
  PictureHeader header{.format = FileFormat::kWebp};
  header.width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  header.height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  header.frames = WebPDemuxGetI(demuxer.get(), WEBP_FF_FRAME_COUNT);
  if (header.frames == 0) return corrupt(file, "a WebP that contains no image");
  // EXIF orientation is that of stills only; players ignore it in animations.
  if (header.frames == 1) header.orientation = stored_orientation(demuxer.get());
  WebPIterator frame{};
  for (int more = WebPDemuxGetFrame(demuxer.get(), 1, &frame); more != 0;
       more = WebPDemuxNextFrame(&frame)) {
    header.length += shown_for(std::chrono::milliseconds(frame.duration));
  }
  WebPDemuxReleaseIterator(&frame);
  return header;
}

Result<std::vector<Frame>> decode_webp_animation(const MediaFile& file, const PictureHeader& header,
                                                 std::uint32_t wanted) {
  WebPAnimDecoderOptions options;
  if (WebPAnimDecoderOptionsInit(&options) == 0) return corrupt(file, "libwebp's ABI differs");
  options.color_mode = MODE_RGBA;
  const WebPData data = as_webp(file.bytes);
  const std::unique_ptr<WebPAnimDecoder, DeletePlayer> player(WebPAnimDecoderNew(&data, &options));
  if (player == nullptr) return corrupt(file, "its WebP animation is damaged");

  const std::size_t pixels = std::size_t{header.width} * header.height;
  std::vector<Frame> frames;
  Duration at{0};
  int ended_before_ms = 0;
  for (std::uint32_t i = 0; i < wanted; ++i) {
    std::uint8_t* rgba = nullptr;
    int ends_ms = 0;
    if (WebPAnimDecoderGetNext(player.get(), &rgba, &ends_ms) == 0) {
      return corrupt(file, fmt::format("frame {} of {} is damaged", i + 1, header.frames));
    }
    Frame& frame = frames.emplace_back();
    frame.image = {.width = header.width, .height = header.height, .rgb = {}};
    frame.image.rgb.reserve(3 * pixels);
    append_over_white(std::span(rgba, 4 * pixels), frame.image.rgb);
    frame.at = at;
    at += shown_for(std::chrono::milliseconds(ends_ms - ended_before_ms));
    ended_before_ms = ends_ms;
  }
  return frames;
}

Result<Image> decode_webp(const MediaFile& file, const PictureHeader& header) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(as_octets(file.bytes), file.bytes.size(), &features) != VP8_STATUS_OK ||
      !std::cmp_equal(features.width, header.width) ||
      !std::cmp_equal(features.height, header.height)) {
    return corrupt(file, "a WebP that declares two sizes");
  }
  if (features.has_animation != 0) {
    AFI_TRY(std::vector<Frame> frames, decode_webp_animation(file, header, 1));
    return std::move(frames[0].image);
  }
  const std::size_t pixels = std::size_t{header.width} * header.height;
  const std::size_t channels = features.has_alpha != 0 ? 4 : 3;
  const auto decode_into = features.has_alpha != 0 ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
  std::vector<std::uint8_t> decoded(pixels * channels);
  if (decode_into(as_octets(file.bytes), file.bytes.size(), decoded.data(), decoded.size(),
                  static_cast<int>(header.width * channels)) == nullptr) {
    return corrupt(file, "its WebP pixels end early or are damaged");
  }
  Image image{.width = header.width, .height = header.height, .rgb = {}};
  if (channels == 3) {
    image.rgb = std::move(decoded);
  } else {
    image.rgb.reserve(3 * pixels);
    append_over_white(decoded, image.rgb);
  }
  return image;
}

}  // namespace afterimage
