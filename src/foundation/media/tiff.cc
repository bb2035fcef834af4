// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// TIFF: strips and tiles of JPEG, which scanners write, through libjpeg; all others through FFmpeg's decoder.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {
namespace {

constexpr std::string_view kJpegBegins = "\xFF\xD8";
constexpr std::string_view kJpegEnds = "\xFF\xD9";

/// One strip or tile with what all of them share, as a JPEG file of its own.
std::vector<std::byte> whole_jpeg(const TiffJpeg& jpeg, std::span<const std::byte> piece) {
  auto shared = jpeg.shared;
  if (as_text(shared).ends_with(kJpegEnds)) {
    shared = shared.first(shared.size() - kJpegEnds.size());
  }
  std::vector<std::byte> file(shared.begin(), shared.end());
  if (!file.empty()) piece = piece.subspan(kJpegBegins.size());  // `shared` has begun already
  file.insert(file.end(), piece.begin(), piece.end());
  return file;
}

/// A strip or tile, which may be higher than what is left of the picture.
Result<Image> decode_piece(const MediaFile& file, const TiffJpeg& jpeg,
                           std::span<const std::byte> piece, std::uint32_t rows) {
  if (!as_text(piece).starts_with(kJpegBegins)) {
    return corrupt(file, "a strip or tile that is no JPEG");
  }
  const std::vector<std::byte> bytes = whole_jpeg(jpeg, piece);
  const MediaFile alone{.bytes = bytes, .name = file.name};
  AFI_TRY(const PictureHeader header, read_jpeg_header(alone));
  if (header.width != jpeg.piece_width || header.height < rows ||
      header.height > jpeg.piece_height) {
    return corrupt(file, fmt::format("a strip or tile of {}x{} pixels instead of {}x{}",
                                     header.width, header.height, jpeg.piece_width, rows));
  }
  return decode_jpeg(alone, header, jpeg.colours);
}

Result<Image> join_pieces(const MediaFile& file, const TiffJpeg& jpeg,
                          const PictureHeader& header) {
  Image image{.width = header.width, .height = header.height, .rgb = {}};
  for (std::size_t i = 0; i < jpeg.pieces.size(); ++i) {
    const auto left = static_cast<std::uint32_t>(i % jpeg.columns) * jpeg.piece_width;
    const auto top = static_cast<std::uint32_t>(i / jpeg.columns) * jpeg.piece_height;
    const std::uint32_t width = std::min(jpeg.piece_width, header.width - left);
    const std::uint32_t rows = std::min(jpeg.piece_height, header.height - top);
    AFI_TRY(const Image piece, decode_piece(file, jpeg, jpeg.pieces[i], rows));
    // Grows with what is decoded: a header can promise 64 Mpx in a hundred bytes.
    image.rgb.resize(3 * std::size_t{header.width} * (top + rows));
    for (std::uint32_t y = 0; y < rows; ++y) {
      const auto from =
          std::span(piece.rgb).subspan(3 * std::size_t{y} * piece.width, std::size_t{3} * width);
      std::ranges::copy(
          from, image.rgb.begin() +
                    static_cast<std::ptrdiff_t>(3 * (std::size_t{top + y} * header.width + left)));
    }
  }
  return image;
}

}  // namespace

Result<Image> decode_tiff(const MediaFile& file, const PictureHeader& header) {
  AFI_TRY(const std::optional<TiffJpeg> jpeg, jpeg_in_tiff(file));
  return jpeg.has_value() ? join_pieces(file, *jpeg, header) : decode_coded_still(file, header);
}

}  // namespace afterimage
