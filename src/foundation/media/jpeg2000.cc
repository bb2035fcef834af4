// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// JPEG 2000 through OpenJPEG: one thread, strict.
#include <fmt/format.h>
#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {
namespace {

struct FreeJpeg2000 {
  void operator()(opj_stream_t* stream) const { opj_stream_destroy(stream); }
  void operator()(opj_image_t* image) const { opj_image_destroy(image); }
};
using OwnedImage = std::unique_ptr<opj_image_t, FreeJpeg2000>;

// Its streams and decoders have one type.
struct FreeDecoder {
  void operator()(opj_codec_t* decoder) const { opj_destroy_codec(decoder); }
};

constexpr auto kNothing = static_cast<OPJ_SIZE_T>(-1);

OPJ_SIZE_T read_some(void* to, OPJ_SIZE_T wanted, void* cursor) {
  auto& from = *static_cast<ByteCursor*>(cursor);
  const auto bytes = from.take(std::min<std::size_t>(wanted, from.rest().size()));
  if (bytes.empty()) return kNothing;
  std::memcpy(to, bytes.data(), bytes.size());
  return bytes.size();
}

OPJ_OFF_T skip_some(OPJ_OFF_T wanted, void* cursor) {
  auto& from = *static_cast<ByteCursor*>(cursor);
  if (wanted < 0 || from.rest().empty()) return -1;
  return static_cast<OPJ_OFF_T>(
      from.take(std::min<std::uint64_t>(static_cast<std::uint64_t>(wanted), from.rest().size()))
          .size());
}

/// Keeps the first message: later ones follow from it.
void keep_message(const char* text, void* kept) {
  auto& message = *static_cast<std::string*>(kept);
  if (message.empty()) message = std::string_view(text).substr(0, std::strcspn(text, "\n"));
}

Result<OwnedImage> decode_planes(const MediaFile& file) {
  ByteCursor cursor(file.bytes);
  std::string message;  // outlives the decoder
  const bool is_stream = as_text(file.bytes).starts_with("\xFF\x4F");
  const std::unique_ptr<opj_codec_t, FreeDecoder> decoder(
      opj_create_decompress(is_stream ? OPJ_CODEC_J2K : OPJ_CODEC_JP2));
  constexpr std::size_t kMostBuffered = 1UL << 16U;
  const std::unique_ptr<opj_stream_t, FreeJpeg2000> stream(
      opj_stream_create(std::min(kMostBuffered, file.bytes.size()), OPJ_TRUE));
  if (decoder == nullptr || stream == nullptr) {
    return fail(ErrorCode::kNoSpace, "no memory to decode a picture");
  }
  opj_stream_set_user_data(stream.get(), &cursor, nullptr);
  opj_stream_set_user_data_length(stream.get(), file.bytes.size());
  opj_stream_set_read_function(stream.get(), read_some);
  opj_stream_set_skip_function(stream.get(), skip_some);
  opj_set_error_handler(decoder.get(), keep_message, &message);
  opj_dparameters_t settings;
  opj_set_default_decoder_parameters(&settings);
  // Without a number it asks the environment; built without threads it refuses any.
  (void)opj_codec_set_threads(decoder.get(), 0);
  opj_image_t* header = nullptr;
  bool is_whole = opj_setup_decoder(decoder.get(), &settings) == OPJ_TRUE &&
                  opj_decoder_set_strict_mode(decoder.get(), OPJ_TRUE) == OPJ_TRUE &&
                  opj_read_header(stream.get(), decoder.get(), &header) == OPJ_TRUE;
  OwnedImage image(header);
  is_whole = is_whole && opj_decode(decoder.get(), stream.get(), image.get()) == OPJ_TRUE;
  if (is_whole) return image;
  return corrupt(file, message.empty() ? "its pixels cannot be decoded"
                                       : "its pixels cannot be decoded: " + message);
}

/// What became of the header's promise.
Result<void> check_planes(const MediaFile& file, const PictureHeader& header,
                          const opj_image_t& image) {
  const std::uint32_t width = image.x1 - image.x0;
  const std::uint32_t height = image.y1 - image.y0;
  if (width != header.width || height != header.height) {
    return corrupt(file, fmt::format("it declares {}x{} pixels and holds {}x{}", header.width,
                                     header.height, width, height));
  }
  if (image.numcomps == 0 || image.numcomps > 4) {
    return corrupt(file, fmt::format("it holds {} components", image.numcomps));
  }
  for (const opj_image_comp_t& plane : std::span(image.comps, image.numcomps)) {
    if (plane.data == nullptr || plane.w == 0 || plane.h == 0 || plane.dx == 0 || plane.dy == 0 ||
        plane.prec == 0 || plane.prec > 16 || plane.factor != 0) {
      return corrupt(file, "its pixels end early or are damaged");
    }
  }
  return {};
}

/// One component's samples as bytes.
class Levels {
 public:
  explicit Levels(const opj_image_comp_t& plane)
      : plane_(&plane),
        most_((1 << plane.prec) - 1),
        zero_(plane.sgnd != 0 ? 1 << (plane.prec - 1) : 0) {}

  /// Writes a row of `width` pixels, `step` bytes each. Of a component with fewer samples each stands for
  /// several pixels, as in Pillow.
  void write_row(std::uint32_t y, std::uint32_t width, std::uint8_t* to, std::size_t step) const {
    const std::int32_t* const from =
        plane_->data + std::size_t{plane_->w} * std::min(y / plane_->dy, plane_->h - 1);
    if (plane_->dx == 1 && plane_->prec == 8 && plane_->w >= width) {
      for (std::uint32_t x = 0; x < width; ++x) {
        to[x * step] = static_cast<std::uint8_t>(std::clamp(from[x] + zero_, 0, 255));
      }
      return;
    }
    for (std::uint32_t x = 0; x < width; ++x) {
      to[x * step] = byte_of(from[std::min(x / plane_->dx, plane_->w - 1)]);
    }
  }

 private:
  /// Of more than 8 bits rounded, as those of PNG files; others with zeros behind them, as in Pillow.
  [[nodiscard]] std::uint8_t byte_of(std::int32_t sample) const {
    const std::int32_t level = std::clamp(sample, -zero_, most_ - zero_) + zero_;
    if (plane_->prec <= 8) return static_cast<std::uint8_t>(level << (8 - plane_->prec));
    return static_cast<std::uint8_t>(((level << (16 - plane_->prec)) * 255 + 32'767) / 65'535);
  }

  const opj_image_comp_t* plane_;
  std::int32_t most_;
  std::int32_t zero_;  // of signed samples: what is half as bright as can be
};

/// Files without boxes do not say what their colours are: of YCbCr, some have fewer samples.
bool is_ycc(const opj_image_t& image) {
  if (image.numcomps < 3 || image.color_space == OPJ_CLRSPC_SRGB) return false;
  const opj_image_comp_t& first = image.comps[0];
  return image.color_space == OPJ_CLRSPC_SYCC ||
         std::ranges::any_of(std::span(image.comps, image.numcomps), [&](const auto& plane) {
           return plane.dx != first.dx || plane.dy != first.dy;
         });
}

/// BT.601 of full range, in place.
void rgb_of_ycc(std::uint8_t* pixel) {
  constexpr int kHalf = 1 << 15;
  const int y = pixel[0] << 16;
  const int blue = pixel[1] - 128;
  const int red = pixel[2] - 128;
  const auto byte = [](int value) {
    return static_cast<std::uint8_t>(std::clamp(value >> 16, 0, 255));
  };
  pixel[0] = byte(y + 91'881 * red + kHalf);
  pixel[1] = byte(y - 22'554 * blue - 46'802 * red + kHalf);
  pixel[2] = byte(y + 116'130 * blue + kHalf);
}

/// Rows of RGB, over white.
Image image_of_planes(const opj_image_t& planes) {
  Image image{.width = planes.x1 - planes.x0, .height = planes.y1 - planes.y0, .rgb = {}};
  image.rgb.reserve(std::size_t{3} * image.width * image.height);
  const bool is_grey = planes.numcomps < 3;
  const bool has_alpha = planes.numcomps % 2 == 0;
  const bool has_ycc = is_ycc(planes);
  const std::size_t channels = has_alpha ? 4 : 3;
  std::vector<std::uint8_t> row(channels * image.width);
  for (std::uint32_t y = 0; y < image.height; ++y) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const std::size_t plane = channel == 3 ? planes.numcomps - 1 : is_grey ? 0 : channel;
      Levels(planes.comps[plane]).write_row(y, image.width, row.data() + channel, channels);
    }
    for (std::size_t at = 0; has_ycc && at < row.size(); at += channels) rgb_of_ycc(&row[at]);
    if (has_alpha) {
      append_over_white(row, image.rgb);
    } else {
      image.rgb.insert(image.rgb.end(), row.begin(), row.end());
    }
  }
  return image;
}

}  // namespace

Result<Image> decode_jpeg2000(const MediaFile& file, const PictureHeader& header) {
  AFI_TRY(const OwnedImage planes, decode_planes(file));
  AFI_TRY_VOID(check_planes(file, header, *planes));
  return image_of_planes(*planes);
}

std::string jpeg2000_decoder() { return fmt::format(", openjpeg {}", opj_version()); }

}  // namespace afterimage
