// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Headers of TIFF files. Also checks that the file is complete as far as its structure says, since a decoder
// may make do with less.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {

namespace {

constexpr std::uint32_t kTiffWidth = 256;
constexpr std::uint32_t kTiffHeight = 257;
constexpr std::uint32_t kTiffCompression = 259;
constexpr std::uint32_t kTiffColours = 262;
constexpr std::uint32_t kTiffStrips = 273;
constexpr std::uint32_t kTiffStripBytes = 279;
constexpr std::uint32_t kTiffStripRows = 278;
constexpr std::uint32_t kTiffTileWidth = 322;
constexpr std::uint32_t kTiffTileHeight = 323;
constexpr std::uint32_t kTiffTiles = 324;
constexpr std::uint32_t kTiffSampleFormat = 339;
constexpr std::uint32_t kTiffTileBytes = 325;
constexpr std::uint32_t kTiffJpegTables = 347;
constexpr std::uint32_t kJpegInTiff = 7;

/// One field of a TIFF directory, of whole numbers.
struct TiffField {
  std::span<const std::byte> values;
  std::uint32_t count = 0;
  std::size_t width = 0;  // bytes of a value
  bool big_endian = false;

  /// 0: there is none.
  [[nodiscard]] std::uint32_t at(std::size_t index) const {
    if (index >= count) return 0;
    ByteCursor cursor(values.subspan(index * width, width));
    return big_endian ? cursor.big(width) : cursor.little(width);
  }
};

class TiffDirectory {
 public:
  explicit TiffDirectory(std::span<const std::byte> file)
      : file_(file), big_endian_(as_text(file).starts_with("MM")) {
    ByteCursor start(file.subspan(std::min<std::size_t>(file.size(), 4)));
    const std::uint32_t at = number(start, 4);
    ended_early_ = start.ended_early() || at > file.size();
    if (!ended_early_) entries_ = file.subspan(at);
  }

  [[nodiscard]] bool ended_early() const { return ended_early_; }

  [[nodiscard]] bool is_big_endian() const { return big_endian_; }
  /// The twelve bytes of each field, as stored.
  [[nodiscard]] std::vector<std::span<const std::byte>> stored_fields() const {
    ByteCursor cursor(entries_);
    const std::uint32_t count = number(cursor, 2);
    std::vector<std::span<const std::byte>> fields;
    for (std::uint32_t i = 0; i < count && cursor.rest().size() >= 12; ++i) {
      fields.push_back(cursor.take(12));
    }
    return fields;
  }
  [[nodiscard]] std::uint32_t name_of_field(std::span<const std::byte> stored) const {
    ByteCursor cursor(stored);
    return number(cursor, 2);
  }

  /// The first field of this name.
  TiffField field(std::uint32_t name) {
    ByteCursor cursor(entries_);
    const std::uint32_t count = number(cursor, 2);
    for (std::uint32_t i = 0; i < count; ++i) {
      ByteCursor entry(cursor.take(12));
      if (cursor.ended_early()) break;
      if (number(entry, 2) != name) continue;
      const std::uint32_t type = number(entry, 2);
      TiffField field{.values = {}, .count = number(entry, 4), .big_endian = big_endian_};
      const bool is_bytes = type == 1 || type == 7;
      field.width = is_bytes ? 1 : type == 3 ? 2 : 4;
      const std::uint64_t size = std::uint64_t{field.count} * field.width;
      if (!is_bytes && type != 3 && type != 4) return {};
      if (size <= 4) {
        field.values = entry.take(size);
        return field;
      }
      const std::uint32_t at = number(entry, 4);
      if (at > file_.size() || size > file_.size() - at) {
        ended_early_ = true;
        return {};
      }
      field.values = file_.subspan(at, static_cast<std::size_t>(size));
      return field;
    }
    return {};
  }

 private:
  [[nodiscard]] std::uint32_t number(ByteCursor& cursor, std::size_t width) const {
    return big_endian_ ? cursor.big(width) : cursor.little(width);
  }

  std::span<const std::byte> file_;
  bool big_endian_;
  bool ended_early_ = false;
  std::span<const std::byte> entries_;
};

/// Whether every strip or tile is in the file.
bool holds_pixels(TiffDirectory& directory, std::size_t size) {
  for (const auto& [places, bytes] :
       {std::pair{kTiffStrips, kTiffStripBytes}, std::pair{kTiffTiles, kTiffTileBytes}}) {
    const TiffField at = directory.field(places);
    const TiffField lengths = directory.field(bytes);
    if (at.count == 0) continue;
    if (lengths.count != at.count) return false;
    for (std::uint32_t i = 0; i < at.count; ++i) {
      if (lengths.at(i) == 0 || at.at(i) > size || lengths.at(i) > size - at.at(i)) return false;
    }
    return true;
  }
  return false;
}

/// What can be read of JPEG within a TIFF; kAsMarked: none of it.
JpegColours colours_of_jpeg(TiffDirectory& directory) {
  constexpr std::uint32_t kSamples = 277;
  constexpr std::uint32_t kPlanes = 284;
  const TiffField bits = directory.field(258);
  const std::uint32_t samples = std::max(directory.field(kSamples).at(0), 1U);
  for (std::uint32_t i = 0; i < bits.count; ++i) {
    if (bits.at(i) != 8) return JpegColours::kAsMarked;
  }
  if (bits.count != samples || directory.field(kPlanes).at(0) > 1) return JpegColours::kAsMarked;
  switch (directory.field(kTiffColours).at(0)) {
    case 1:
      return samples == 1 ? JpegColours::kGrey : JpegColours::kAsMarked;
    case 2:
      return samples == 3 ? JpegColours::kRgb : JpegColours::kAsMarked;
    case 6:
      return samples == 3 ? JpegColours::kYCbCr : JpegColours::kAsMarked;
    default:
      return JpegColours::kAsMarked;
  }
}

Result<void> check_tiff_kind(TiffDirectory& directory, const MediaFile& file) {
  static constexpr std::uint32_t kCompressions[] = {1, 2, 3, 4, 5, 8, 32'773, 32'946};
  constexpr std::uint32_t kYCbCr = 6;
  constexpr std::uint32_t kLab = 8;
  constexpr std::uint32_t kItuLab = 10;
  if (directory.field(50'706).count != 0) {  // the version of DNG
    return unsupported(file, "a raw picture of a camera (DNG): convert it to PNG or JPEG");
  }
  const std::uint32_t compression = directory.field(kTiffCompression).at(0);
  if (compression == kJpegInTiff) {
    if (colours_of_jpeg(directory) != JpegColours::kAsMarked) return {};
    return unsupported(file,
                       "a TIFF of JPEG that is not grey, RGB or YCbCr of 8 bits: convert it "
                       "to PNG or JPEG");
  }
  if (std::ranges::find(kCompressions, compression) == std::end(kCompressions)) {
    return unsupported(
        file,
        fmt::format("a TIFF compressed in the way {}{}; LZW, Deflate, PackBits, JPEG, fax and "
                    "none are read: convert it to PNG or JPEG",
                    compression,
                    compression == 6        ? " (JPEG of 1992)"
                    : compression == 50'000 ? " (Zstandard)"
                                            : ""));
  }
  const std::uint32_t colours = directory.field(kTiffColours).at(0);
  const std::string_view unread = colours == kYCbCr                               ? "YCbCr colours"
                                  : colours >= kLab && colours <= kItuLab         ? "Lab colours"
                                  : directory.field(kTiffSampleFormat).at(0) == 3 ? "floats"
                                  : directory.field(kTiffTiles).count != 0
                                      ? "tiles that are not JPEG"
                                      : "";
  if (unread.empty()) return {};
  return unsupported(file, fmt::format("a TIFF of {}: convert it to PNG or JPEG", unread));
}

}  // namespace

Result<PictureHeader> read_tiff_header(const MediaFile& file) {
  TiffDirectory directory(file.bytes);
  PictureHeader header{.format = FileFormat::kTiff};
  header.width = directory.field(kTiffWidth).at(0);
  header.height = directory.field(kTiffHeight).at(0);
  if (directory.ended_early()) return corrupt(file, "a TIFF that ends early");
  AFI_TRY_VOID(check_tiff_kind(directory, file));
  if (!holds_pixels(directory, file.bytes.size())) {
    return corrupt(file, "a TIFF that ends before its pixels do, or has none");
  }
  header.orientation = exif_orientation(file.bytes);
  if (directory.field(kTiffCompression).at(0) == kJpegInTiff) {
    // Also what is decoded and not shown.
    header.coded_width = std::max(header.width, directory.field(kTiffTileWidth).at(0));
    header.coded_height = std::max(header.height, directory.field(kTiffTileHeight).at(0));
  }
  return header;
}

Result<std::optional<TiffJpeg>> jpeg_in_tiff(const MediaFile& file) {
  TiffDirectory directory(file.bytes);
  if (directory.field(kTiffCompression).at(0) != kJpegInTiff) return std::nullopt;
  const std::uint32_t width = directory.field(kTiffWidth).at(0);
  const std::uint32_t height = directory.field(kTiffHeight).at(0);
  const bool tiled = directory.field(kTiffStrips).count == 0;
  TiffJpeg jpeg{.shared = directory.field(kTiffJpegTables).values,
                .colours = colours_of_jpeg(directory)};
  jpeg.piece_width = tiled ? directory.field(kTiffTileWidth).at(0) : width;
  jpeg.piece_height = directory.field(tiled ? kTiffTileHeight : kTiffStripRows).at(0);
  if (!tiled && (jpeg.piece_height == 0 || jpeg.piece_height > height)) jpeg.piece_height = height;
  if (jpeg.piece_width == 0 || jpeg.piece_height == 0) {
    return corrupt(file, "a TIFF of tiles without a size");
  }
  constexpr std::size_t kMostShared = 1UL << 16U;  // it is read again for each strip
  if (jpeg.shared.size() > kMostShared) {
    return corrupt(file, fmt::format("a TIFF with {} bytes of tables", jpeg.shared.size()));
  }
  const auto pieces_of = [](std::uint32_t side, std::uint32_t each) {
    return side / each + (side % each != 0 ? 1 : 0);
  };
  jpeg.columns = pieces_of(width, jpeg.piece_width);
  const TiffField places = directory.field(tiled ? kTiffTiles : kTiffStrips);
  const TiffField bytes = directory.field(tiled ? kTiffTileBytes : kTiffStripBytes);
  const std::uint64_t expected = std::uint64_t{jpeg.columns} * pieces_of(height, jpeg.piece_height);
  if (places.count != expected || bytes.count != expected) {
    return corrupt(
        file, fmt::format("a TIFF of {} strips or tiles instead of {}", places.count, expected));
  }
  for (std::uint32_t i = 0; i < places.count; ++i) {
    jpeg.pieces.push_back(file.bytes.subspan(places.at(i), bytes.at(i)));
  }
  return jpeg;
}

Result<TiffForDecoder> tiff_for_decoder(const MediaFile& file) {
  // Sides, bits, compression, photometry, order of bits, strips, samples, planes, fax
  // options, predictor, palette, tiles, format of samples, subsampling.
  static constexpr std::uint32_t kFields[] = {256, 257, 258, 259, 262, 266, 273, 277, 278, 279, 284,
                                              292, 293, 317, 320, 322, 323, 324, 325, 339, 530};
  TiffDirectory directory(file.bytes);
  TiffForDecoder made;
  const auto stored = directory.stored_fields();
  constexpr std::size_t kAround = 7;  // an even place, the number of fields, the next directory
  made.bytes.reserve(file.bytes.size() + 12 * stored.size() + kAround + TiffForDecoder::kPadding);
  made.bytes.assign(file.bytes.begin(), file.bytes.end());
  if (made.bytes.size() % 2 != 0) made.bytes.push_back(std::byte{0});
  std::vector<std::span<const std::byte>> kept;
  for (const auto& field : stored) {
    if (std::ranges::find(kFields, directory.name_of_field(field)) != std::end(kFields)) {
      kept.push_back(field);
    }
  }
  const auto put = [&](std::size_t at, std::size_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t place = directory.is_big_endian() ? width - 1 - i : i;
      made.bytes[at + place] = static_cast<std::byte>(value >> (8 * i));
    }
  };
  const std::size_t begin = made.bytes.size();
  put(4, begin, 4);
  made.bytes.resize(begin + 2);
  put(begin, kept.size(), 2);
  for (const auto& field : kept) made.bytes.insert(made.bytes.end(), field.begin(), field.end());
  made.bytes.resize(made.bytes.size() + 4);  // there is no further directory
  made.bytes.resize(made.bytes.size() + TiffForDecoder::kPadding);
  const TiffField extra = directory.field(338);
  if (extra.count != 0 && extra.at(0) == 0) made.alpha = TiffAlpha::kNone;
  if (extra.count != 0 && extra.at(0) == 1) made.alpha = TiffAlpha::kMultiplied;
  return made;
}

}  // namespace afterimage
