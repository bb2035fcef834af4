// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// HEIC, AVIF and TIFF through FFmpeg's decoders, as well as JPEG 2000 without OpenJPEG: one thread, bit-exact
// conversions, no error concealment, and no picture of more pixels than the header says.
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavutil/imgutils.h>
#include <libavutil/log.h>
#include <libavutil/mem.h>
#include <libavutil/pixdesc.h>
}

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "foundation/media/even_frame.h"
#include "foundation/media/formats.h"
#include "foundation/media/heif.h"
#include "foundation/media/libav.h"
#include "foundation/media/to_rgb.h"

namespace afterimage {
namespace {

Error no_memory_for_still() { return {ErrorCode::kNoSpace, "no memory to decode a picture"}; }

/// Decodes pictures of one kind, one after the other.
class StillDecoder {
 public:
  struct Settings {
    AVCodecID codec = AV_CODEC_ID_NONE;
    std::span<const std::byte> configuration;
    std::uint32_t width = 0;
    std::uint32_t height = 0;
  };

  static Result<StillDecoder> open(const MediaFile& file, const Settings& settings) {
    av_log_set_level(AV_LOG_QUIET);
    const AVCodec* const codec = avcodec_find_decoder(settings.codec);
    if (codec == nullptr) {
      return unsupported(file,
                         fmt::format("this machine's FFmpeg has no decoder for {}: convert the "
                                     "file to PNG or JPEG",
                                     avcodec_get_name(settings.codec)));
    }
    OwnedAv<AVCodecContext> context(avcodec_alloc_context3(codec));
    if (context == nullptr) return std::unexpected(no_memory_for_still());
    context->thread_count = 1;
    context->flags |= AV_CODEC_FLAG_BITEXACT;
    context->err_recognition = AV_EF_EXPLODE;
    context->error_concealment = 0;
    // Coded sizes are multiples of blocks of at most 128 pixels.
    constexpr std::uint64_t kBlock = 128;
    context->max_pixels =
        static_cast<std::int64_t>((settings.width + kBlock) * (settings.height + kBlock));
    const std::size_t extra = settings.configuration.size();
    if (extra != 0) {
      context->extradata =
          static_cast<std::uint8_t*>(av_mallocz(extra + AV_INPUT_BUFFER_PADDING_SIZE));
      if (context->extradata == nullptr) return std::unexpected(no_memory_for_still());
      std::memcpy(context->extradata, settings.configuration.data(), extra);
      context->extradata_size = static_cast<int>(extra);
    }
    if (avcodec_open2(context.get(), codec, nullptr) < 0) {
      return corrupt(file, "its decoder refuses it");
    }
    return StillDecoder(file, std::move(context));
  }

  Result<OwnedAv<AVFrame>> decode(std::span<const std::byte> coded) {
    OwnedAv<AVPacket> packet(av_packet_alloc());
    if (packet == nullptr || av_new_packet(packet.get(), static_cast<int>(coded.size())) < 0) {
      return std::unexpected(no_memory_for_still());
    }
    std::memcpy(packet->data, coded.data(), coded.size());
    return decode_packet(std::move(packet));
  }

  /// Without a copy. `tiff` outlives the decoder.
  Result<OwnedAv<AVFrame>> decode(TiffForDecoder& tiff) {
    static_assert(TiffForDecoder::kPadding >= AV_INPUT_BUFFER_PADDING_SIZE);
    OwnedAv<AVPacket> packet(av_packet_alloc());
    if (packet == nullptr) return std::unexpected(no_memory_for_still());
    packet->data = reinterpret_cast<std::uint8_t*>(tiff.bytes.data());
    packet->size = static_cast<int>(tiff.bytes.size() - TiffForDecoder::kPadding);
    const auto keep = [](void*, std::uint8_t*) {};
    packet->buf =
        av_buffer_create(packet->data, tiff.bytes.size(), keep, nullptr, AV_BUFFER_FLAG_READONLY);
    if (packet->buf == nullptr) return std::unexpected(no_memory_for_still());
    return decode_packet(std::move(packet));
  }

 private:
  StillDecoder(const MediaFile& file, OwnedAv<AVCodecContext> context)
      : file_(&file), context_(std::move(context)) {}

  Result<OwnedAv<AVFrame>> decode_packet(OwnedAv<AVPacket> packet) {
    OwnedAv<AVFrame> frame(av_frame_alloc());
    if (frame == nullptr) return std::unexpected(no_memory_for_still());
    packet->flags |= AV_PKT_FLAG_KEY;
    int done = avcodec_send_packet(context_.get(), packet.get());
    if (done >= 0) done = avcodec_send_packet(context_.get(), nullptr);
    if (done >= 0) done = avcodec_receive_frame(context_.get(), frame.get());
    if (done < 0) {
      char text[AV_ERROR_MAX_STRING_SIZE] = {};
      av_strerror(done, text, sizeof text);
      return corrupt(*file_, fmt::format("its pixels cannot be decoded: {}", text));
    }
    avcodec_flush_buffers(context_.get());
    if (frame->decode_error_flags != 0 || (frame->flags & AV_FRAME_FLAG_CORRUPT) != 0) {
      return corrupt(*file_, "its pixels end early or are damaged");
    }
    return frame;
  }

  const MediaFile* file_;
  OwnedAv<AVCodecContext> context_;
};

std::uint8_t rounded_to_byte(unsigned value) {
  return static_cast<std::uint8_t>((value * 255U + 32'767U) / 65'535U);
}

/// Samples of 16 bits, rounded as those of PNG files; libswscale would cut them off.
std::vector<std::uint8_t> rounded_samples(const AVFrame& frame, std::size_t samples) {
  std::vector<std::uint8_t> to;
  const auto row = static_cast<std::size_t>(frame.width) * samples;
  to.reserve(row * static_cast<std::size_t>(frame.height));
  for (int y = 0; y < frame.height; ++y) {
    const std::uint8_t* from = frame.data[0] + std::ptrdiff_t{y} * frame.linesize[0];
    for (std::size_t i = 0; i < row; ++i, from += 2) {
      std::uint16_t value = 0;
      std::memcpy(&value, from, sizeof value);
      to.push_back(rounded_to_byte(value));
    }
  }
  return to;
}

/// Rows of RGB or RGBA, `channels` bytes a pixel.
struct StillPixels {
  std::vector<std::uint8_t> bytes;
  std::size_t channels = 3;
};

bool has_alpha(AVPixelFormat format) {
  const AVPixFmtDescriptor* const about = av_pix_fmt_desc_get(format);
  return about != nullptr && (about->flags & AV_PIX_FMT_FLAG_ALPHA) != 0;
}

Result<StillPixels> wide_samples(const AVFrame& frame, AVPixelFormat format) {
  StillPixels pixels;
  if (format == AV_PIX_FMT_RGB48 || format == AV_PIX_FMT_RGBA64) {
    pixels.channels = format == AV_PIX_FMT_RGB48 ? 3 : 4;
    pixels.bytes = rounded_samples(frame, pixels.channels);
    return pixels;
  }
  for (const std::uint8_t level : rounded_samples(frame, 1)) {
    pixels.bytes.insert(pixels.bytes.end(), 3, level);
  }
  return pixels;
}

/// The frame's own bytes: it is RGB or RGBA already.
std::vector<std::uint8_t> rows_of(const AVFrame& frame, std::size_t channels) {
  const std::size_t row = channels * static_cast<std::size_t>(frame.width);
  std::vector<std::uint8_t> bytes;
  bytes.reserve(row * static_cast<std::size_t>(frame.height));
  for (int y = 0; y < frame.height; ++y) {
    const std::uint8_t* const from = frame.data[0] + std::ptrdiff_t{y} * frame.linesize[0];
    bytes.insert(bytes.end(), from, from + row);
  }
  return bytes;
}

Result<StillPixels> rgb_of_still(const AVFrame& frame, const std::optional<HeifColour>& colour,
                                 const MediaFile& file) {
  auto format = static_cast<AVPixelFormat>(frame.format);
  if (format == AV_PIX_FMT_RGB48 || format == AV_PIX_FMT_RGBA64 || format == AV_PIX_FMT_GRAY16) {
    return wide_samples(frame, format);
  }
  if (format == AV_PIX_FMT_RGB24 || format == AV_PIX_FMT_RGBA) {
    const std::size_t channels = format == AV_PIX_FMT_RGB24 ? 3 : 4;
    return StillPixels{.bytes = rows_of(frame, channels), .channels = channels};
  }
  const std::uint32_t matrix = colour.has_value() && colour->matrix != AVCOL_SPC_UNSPECIFIED
                                   ? colour->matrix
                                   : colour_matrix(frame);
  if (matrix == AVCOL_SPC_RGB && format == AV_PIX_FMT_YUV444P) format = AV_PIX_FMT_GBRP;
  if (matrix == AVCOL_SPC_YCGCO && format != AV_PIX_FMT_GBRP) {
    return unsupported(file, "colours as YCgCo: convert it to PNG or JPEG");
  }
  const bool is_jpeg = format == AV_PIX_FMT_YUVJ420P || format == AV_PIX_FMT_YUVJ422P ||
                       format == AV_PIX_FMT_YUVJ444P;
  const bool is_full =
      colour.has_value() ? colour->is_full_range : frame.color_range == AVCOL_RANGE_JPEG || is_jpeg;
  StillPixels pixels{.bytes = {}, .channels = has_alpha(format) ? std::size_t{4} : 3};
  // How colours of two or four pixels each are spread over them: as libheif does it, and nearly as libavif.
  ToRgb to_rgb(sniff(file.bytes) == FileFormat::kHeic ? SWS_POINT : SWS_BICUBIC);
  const FrameColours colours{.format = format, .matrix = matrix, .is_full_range = is_full};
  AFI_TRY(pixels.bytes, to_rgb.convert(frame, colours, pixels.channels, file));
  return pixels;
}

/// Copies a tile to its place. Both have the same planes of whole samples.
void place_tile(const AVFrame& tile, std::uint32_t left, std::uint32_t top, AVFrame& canvas) {
  const AVPixFmtDescriptor& about = *av_pix_fmt_desc_get(static_cast<AVPixelFormat>(canvas.format));
  const int bytes = (about.comp[0].depth + 7) / 8;
  for (int plane = 0; plane < av_pix_fmt_count_planes(static_cast<AVPixelFormat>(canvas.format));
       ++plane) {
    const bool is_chroma = plane == 1 || plane == 2;
    const int right = is_chroma ? about.log2_chroma_w : 0;
    const int down = is_chroma ? about.log2_chroma_h : 0;
    std::uint8_t* const to =
        canvas.data[plane] +
        std::ptrdiff_t{static_cast<int>(top) >> down} * canvas.linesize[plane] +
        std::ptrdiff_t{static_cast<int>(left) >> right} * bytes;
    av_image_copy_plane(to, canvas.linesize[plane], tile.data[plane], tile.linesize[plane],
                        AV_CEIL_RSHIFT(tile.width, right) * bytes,
                        AV_CEIL_RSHIFT(tile.height, down));
  }
}

Result<OwnedAv<AVFrame>> canvas_for(const AVFrame& tile, const HeifCoded& coded) {
  OwnedAv<AVFrame> canvas(av_frame_alloc());
  if (canvas == nullptr) return std::unexpected(no_memory_for_still());
  canvas->format = tile.format;
  canvas->width = static_cast<int>(coded.tile_width * coded.columns);
  canvas->height = static_cast<int>(coded.tile_height * coded.rows);
  if (av_frame_copy_props(canvas.get(), &tile) < 0 || av_frame_get_buffer(canvas.get(), 0) < 0)
    return std::unexpected(no_memory_for_still());
  return canvas;
}

/// Planes of one sample each, of which a tile's place is the same number of samples from the corner.
bool is_planar_picture(const AVFrame& frame) {
  const AVPixFmtDescriptor* const about =
      av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  if (about == nullptr) return false;
  const int planes = av_pix_fmt_count_planes(static_cast<AVPixelFormat>(frame.format));
  return planes == about->nb_components &&
         (about->flags &
          (AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL)) == 0;
}

Result<OwnedAv<AVFrame>> decode_tiles(const MediaFile& file, const HeifCoded& coded) {
  AFI_TRY(StillDecoder decoder,
          StillDecoder::open(file, {.codec = coded.is_av1 ? AV_CODEC_ID_AV1 : AV_CODEC_ID_HEVC,
                                    .configuration = coded.configuration,
                                    .width = coded.tile_width,
                                    .height = coded.tile_height}));
  OwnedAv<AVFrame> canvas;
  for (std::size_t i = 0; i < coded.tiles.size(); ++i) {
    AFI_TRY(OwnedAv<AVFrame> tile, decoder.decode(coded.tiles[i]));
    if (!std::cmp_equal(tile->width, coded.tile_width) ||
        !std::cmp_equal(tile->height, coded.tile_height)) {
      return corrupt(file, fmt::format("it declares {}x{} pixels and holds {}x{}", coded.tile_width,
                                       coded.tile_height, tile->width, tile->height));
    }
    if (!is_planar_picture(*tile)) return unsupported(file, "an unknown pixel format");
    if (coded.tiles.size() == 1) return tile;
    if (canvas == nullptr) {
      AFI_TRY(canvas, canvas_for(*tile, coded));
    }
    if (tile->format != canvas->format) return corrupt(file, "tiles of different pixel formats");
    const auto column = static_cast<std::uint32_t>(i % coded.columns);
    const auto row = static_cast<std::uint32_t>(i / coded.columns);
    place_tile(*tile, column * coded.tile_width, row * coded.tile_height, *canvas);
  }
  return canvas;
}

/// Levels of 8 bits, over the whole range.
Result<std::vector<std::uint8_t>> decode_alpha(const MediaFile& file, const HeifCoded& coded,
                                               const AVFrame& picture) {
  AFI_TRY(const OwnedAv<AVFrame> frame, decode_tiles(file, coded));
  if (frame->width != picture.width || frame->height != picture.height) {
    return corrupt(file, "alpha of another size than the picture");
  }
  // Its first plane alone: the others, if there are any, say nothing.
  const AVPixFmtDescriptor& about = *av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame->format));
  const int depth = about.comp[0].depth;
  const unsigned most = (1U << static_cast<unsigned>(depth)) - 1;
  const bool is_full = coded.colour.has_value() ? coded.colour->is_full_range
                                                : frame->color_range != AVCOL_RANGE_MPEG;
  if (!is_full) return unsupported(file, "alpha of a limited range");
  std::vector<std::uint8_t> levels;
  levels.reserve(static_cast<std::size_t>(frame->width) * static_cast<std::size_t>(frame->height));
  for (int y = 0; y < frame->height; ++y) {
    const std::uint8_t* from = frame->data[0] + std::ptrdiff_t{y} * frame->linesize[0];
    for (int x = 0; x < frame->width; ++x) {
      unsigned level = *from++;
      if (depth > 8) level |= static_cast<unsigned>(*from++) << 8U;
      levels.push_back(static_cast<std::uint8_t>((level * 255U + most / 2) / most));
    }
  }
  return levels;
}

Image image_of_pixels(StillPixels pixels, std::uint32_t width, std::uint32_t height) {
  Image image{.width = width, .height = height, .rgb = {}};
  if (pixels.channels == 3) {
    image.rgb = std::move(pixels.bytes);
  } else {
    image.rgb.reserve(pixels.bytes.size() / 4 * 3);
    append_over_white(pixels.bytes, image.rgb);
  }
  return image;
}

/// Makes the pixels opaque that are not meant to be transparent, or are already multiplied by their alpha.
void blend(std::vector<std::uint8_t>& rgba, TiffAlpha alpha) {
  for (std::size_t i = 0; i + 4 <= rgba.size(); i += 4) {
    const unsigned white = 255U - rgba[i + 3];
    for (std::size_t channel = 0; channel < 3 && alpha == TiffAlpha::kMultiplied; ++channel) {
      rgba[i + channel] = static_cast<std::uint8_t>(std::min(255U, rgba[i + channel] + white));
    }
    rgba[i + 3] = 255;
  }
}

Image cropped(Image image, const HeifCrop& crop) {
  if (crop.width == image.width && crop.height == image.height) return image;
  Image part{.width = crop.width, .height = crop.height, .rgb = {}};
  part.rgb.reserve(std::size_t{3} * crop.width * crop.height);
  for (std::uint32_t y = crop.top; y < crop.top + crop.height; ++y) {
    const auto row = std::span(image.rgb).subspan(3 * (std::size_t{y} * image.width + crop.left),
                                                  std::size_t{3} * crop.width);
    part.rgb.insert(part.rgb.end(), row.begin(), row.end());
  }
  return part;
}

}  // namespace

Result<Image> decode_heif(const MediaFile& file, const PictureHeader& header) {
  AFI_TRY(const HeifImage heif, read_heif(file));
  if (heif.is_premultiplied) return unsupported(file, "colours multiplied by alpha");
  AFI_TRY(const OwnedAv<AVFrame> frame, decode_tiles(file, heif.picture));
  AFI_TRY(StillPixels pixels, rgb_of_still(*frame, heif.picture.colour, file));
  if (heif.alpha.has_value() && pixels.channels == 3) {
    AFI_TRY(const std::vector<std::uint8_t> alpha, decode_alpha(file, *heif.alpha, *frame));
    StillPixels rgba{.bytes = {}, .channels = 4};
    rgba.bytes.reserve(4 * alpha.size());
    for (std::size_t i = 0; i < alpha.size(); ++i) {
      const auto rgb = std::span(pixels.bytes).subspan(3 * i, 3);
      rgba.bytes.insert(rgba.bytes.end(), rgb.begin(), rgb.end());
      rgba.bytes.push_back(alpha[i]);
    }
    pixels = std::move(rgba);
  }
  Image image = image_of_pixels(std::move(pixels), static_cast<std::uint32_t>(frame->width),
                                static_cast<std::uint32_t>(frame->height));
  image = cropped(std::move(image), heif.crop);
  AFI_CHECK(image.width == header.width && image.height == header.height);
  return image;
}

Result<Image> decode_coded_still(const MediaFile& file, const PictureHeader& header) {
  const AVCodecID codec =
      header.format == FileFormat::kTiff ? AV_CODEC_ID_TIFF : AV_CODEC_ID_JPEG2000;
  TiffForDecoder tiff;
  if (header.format == FileFormat::kTiff) {
    AFI_TRY(tiff, tiff_for_decoder(file));
  }
  AFI_TRY(StillDecoder decoder, StillDecoder::open(file, {.codec = codec,
                                                          .configuration = {},
                                                          .width = header.width,
                                                          .height = header.height}));
  AFI_TRY(const OwnedAv<AVFrame> frame,
          tiff.bytes.empty() ? decoder.decode(file.bytes) : decoder.decode(tiff));
  if (!std::cmp_equal(frame->width, header.width) ||
      !std::cmp_equal(frame->height, header.height)) {
    return corrupt(file, fmt::format("it declares {}x{} pixels and holds {}x{}", header.width,
                                     header.height, frame->width, frame->height));
  }
  AFI_TRY(StillPixels pixels, rgb_of_still(*frame, HeifColour{}, file));
  if (pixels.channels == 4 && tiff.alpha != TiffAlpha::kOverWhite) {
    blend(pixels.bytes, tiff.alpha);
  }
  return image_of_pixels(std::move(pixels), header.width, header.height);
}

std::string picture_decoder() {
  return fmt::format("lavc {}, lsws {}{}", avcodec_version(), swscale_version(),
                     jpeg2000_decoder());
}

}  // namespace afterimage
