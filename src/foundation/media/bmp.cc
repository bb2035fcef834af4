// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// BMP files, and the icons of Windows, whose pictures are PNG files or bitmaps with a mask.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {

namespace {

constexpr std::uint32_t kBmpRows = 0;
constexpr std::uint32_t kBmpRle8 = 1;
constexpr std::uint32_t kBmpRle4 = 2;
constexpr std::uint32_t kBmpMasks = 3;
constexpr std::uint32_t kBmpAlphaMasks = 6;
constexpr std::size_t kBmpFileHeader = 14;

/// One colour of a pixel of 16 or 32 bits.
struct BmpMask {
  std::uint32_t bits = 0;

  [[nodiscard]] std::uint8_t of(std::uint32_t pixel) const {
    if (bits == 0) return 0;
    const std::uint32_t most = bits >> std::countr_zero(bits);
    return static_cast<std::uint8_t>(std::uint64_t{(pixel & bits) >> std::countr_zero(bits)} * 255 /
                                     most);
  }
};

struct Bitmap {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  bool is_upside_down = true;  // the last row is the first in the file, as usual
  std::uint32_t bits = 0;      // of a pixel
  std::uint32_t compression = kBmpRows;
  std::array<BmpMask, 4> masks = {};  // red, green, blue, alpha
  std::span<const std::byte> palette;
  std::size_t colour_bytes = 4;  // of the palette
  std::span<const std::byte> behind_header;

  [[nodiscard]] std::size_t row_bytes() const { return (std::size_t{width} * bits + 7) / 8; }
  [[nodiscard]] std::size_t stride() const { return (row_bytes() + 3) / 4 * 4; }
};

bool is_bitmap_header(std::uint32_t size) {
  return size == 12 || size == 16 || size == 40 || size == 52 || size == 56 || size == 64 ||
         size == 108 || size == 124;
}

/// Of an old header, whose sides have 16 bits.
void read_core_header(ByteCursor& cursor, Bitmap& bitmap) {
  bitmap.width = cursor.little(2);
  bitmap.height = cursor.little(2);
  cursor.take(2);  // planes
  bitmap.bits = cursor.little(2);
  bitmap.colour_bytes = 3;
}

/// How many colours the palette has by this header.
std::uint32_t read_info_header(ByteCursor& cursor, std::uint32_t size, Bitmap& bitmap) {
  ByteCursor header(cursor.take(size - 4));
  bitmap.width = header.little(4);
  const std::uint32_t height = header.little(4);
  bitmap.is_upside_down = (height >> 31U) == 0;
  bitmap.height = bitmap.is_upside_down ? height : 0U - height;
  header.take(2);  // planes
  bitmap.bits = header.little(2);
  if (size == 16) return 0;
  bitmap.compression = header.little(4);
  header.take(12);  // bytes of pixels, pixels of a metre
  const std::uint32_t colours = header.little(4);
  header.take(4);  // important ones
  const bool has_masks = bitmap.compression == kBmpMasks || bitmap.compression == kBmpAlphaMasks;
  if (has_masks && size < 52) {  // behind the header
    const std::size_t count = bitmap.compression == kBmpAlphaMasks ? 4 : 3;
    for (std::size_t i = 0; i < count; ++i) bitmap.masks[i].bits = cursor.little(4);
  } else if (has_masks) {
    const std::size_t count = size >= 56 ? 4 : 3;
    for (std::size_t i = 0; i < count; ++i) bitmap.masks[i].bits = header.little(4);
  }
  return colours;
}

/// `bytes` begin with the header behind that of the file.
Result<Bitmap> read_bitmap(const MediaFile& file, std::span<const std::byte> bytes) {
  ByteCursor cursor(bytes);
  const std::uint32_t size = cursor.little(4);
  if (!is_bitmap_header(size)) return corrupt(file, "a bitmap with an unknown header");
  Bitmap bitmap;
  std::uint32_t colours = 0;
  if (size == 12) {
    read_core_header(cursor, bitmap);
  } else {
    colours = read_info_header(cursor, size, bitmap);
  }
  const std::uint32_t bits = bitmap.bits;
  const bool is_indexed = bits == 1 || bits == 4 || bits == 8;
  if (!is_indexed && bits != 16 && bits != 24 && bits != 32) {
    return unsupported(file, fmt::format("a bitmap of {} bits a pixel", bits));
  }
  const bool has_masks = bitmap.compression == kBmpMasks || bitmap.compression == kBmpAlphaMasks;
  const bool fits = bitmap.compression == kBmpRows ||
                    (bitmap.compression == kBmpRle8 && bits == 8 && bitmap.is_upside_down) ||
                    (bitmap.compression == kBmpRle4 && bits == 4 && bitmap.is_upside_down) ||
                    (has_masks && (bits == 16 || bits == 32));
  if (!fits) {
    return unsupported(file, fmt::format("a bitmap of {} bits a pixel, compressed in the way {}",
                                         bits, bitmap.compression));
  }
  if (!has_masks && bits == 16) bitmap.masks = {{{0x7C00}, {0x3E0}, {0x1F}, {0}}};
  if (!has_masks && bits == 32) bitmap.masks = {{{0xFF0000}, {0xFF00}, {0xFF}, {0}}};
  if (is_indexed) {
    const std::uint32_t most = 1U << bits;
    if (colours == 0 || colours > most) colours = most;
    bitmap.palette = cursor.take(colours * bitmap.colour_bytes);
  }
  if (cursor.ended_early()) return corrupt(file, "a bitmap that ends within its header");
  bitmap.behind_header = cursor.rest();
  return bitmap;
}

/// Writes pixels of a bitmap as RGBA.
class BitmapReader {
 public:
  /// `takes_alpha`: the fourth byte of a pixel of 32 bits is its alpha, as in icons.
  BitmapReader(const MediaFile& file, const Bitmap& bitmap, bool takes_alpha)
      : file_(file), bitmap_(bitmap) {
    if (takes_alpha && bitmap_.bits == 32 && bitmap_.compression == kBmpRows) {
      bitmap_.masks[3].bits = 0xFF000000;
    }
    rgba_.resize(std::size_t{4} * bitmap_.width * bitmap_.height);
  }

  Result<std::vector<std::uint8_t>> read(std::span<const std::byte> pixels) {
    const bool is_run_coded = bitmap_.compression == kBmpRle8 || bitmap_.compression == kBmpRle4;
    if (is_run_coded) {
      AFI_TRY_VOID(read_runs(pixels));
    } else {
      AFI_TRY_VOID(read_rows(pixels));
    }
    return std::move(rgba_);
  }

 private:
  /// Row `y` from above.
  std::uint8_t* row(std::uint32_t y) { return rgba_.data() + std::size_t{4} * y * bitmap_.width; }

  bool put_index(std::uint32_t index, std::uint8_t* to) const {
    const std::size_t at = index * bitmap_.colour_bytes;
    if (at + 3 > bitmap_.palette.size()) return false;
    for (std::size_t i = 0; i < 3; ++i) {
      to[i] = std::to_integer<std::uint8_t>(bitmap_.palette[at + 2 - i]);
    }
    to[3] = 255;
    return true;
  }

  Result<void> read_rows(std::span<const std::byte> pixels) {
    const std::size_t stride = bitmap_.stride();
    // The last row's padding is missing in some files.
    if (pixels.size() < stride * (bitmap_.height - 1) + bitmap_.row_bytes()) {
      return corrupt(file_, "its bitmap's rows end early");
    }
    for (std::uint32_t y = 0; y < bitmap_.height; ++y) {
      const auto line = pixels.subspan(stride * y, bitmap_.row_bytes());
      if (!put_row(line, row(bitmap_.is_upside_down ? bitmap_.height - 1 - y : y))) {
        return corrupt(file_, "a bitmap's colour outside its palette");
      }
    }
    return {};
  }

  bool put_row(std::span<const std::byte> line, std::uint8_t* to) const {
    ByteCursor cursor(line);
    for (std::uint32_t x = 0; x < bitmap_.width; ++x, to += 4) {
      if (bitmap_.bits <= 8) {
        const std::size_t bit = std::size_t{x} * bitmap_.bits;
        const auto byte = std::to_integer<std::uint32_t>(line[bit / 8]);
        const std::uint32_t below = 8 - bitmap_.bits - static_cast<std::uint32_t>(bit % 8);
        if (!put_index((byte >> below) & ((1U << bitmap_.bits) - 1), to)) return false;
      } else if (bitmap_.bits == 24) {
        const std::uint32_t bgr = cursor.little(3);
        to[0] = static_cast<std::uint8_t>(bgr >> 16U);
        to[1] = static_cast<std::uint8_t>(bgr >> 8U);
        to[2] = static_cast<std::uint8_t>(bgr);
        to[3] = 255;
      } else {
        const std::uint32_t pixel = cursor.little(bitmap_.bits / 8);
        for (std::size_t i = 0; i < 4; ++i) to[i] = bitmap_.masks[i].of(pixel);
        if (bitmap_.masks[3].bits == 0) to[3] = 255;
      }
    }
    return true;
  }

  Result<void> read_runs(std::span<const std::byte> pixels) {
    for (std::size_t i = 0; i < rgba_.size(); i += 4) {
      if (!put_index(0, &rgba_[i])) return corrupt(file_, "a bitmap without a palette");
    }
    ByteCursor cursor(pixels);
    std::uint32_t x = 0;
    std::uint32_t y = 0;  // from below
    const auto put = [&](std::uint32_t index) {
      if (x >= bitmap_.width || y >= bitmap_.height) return true;  // as readers do
      return put_index(index, row(bitmap_.height - 1 - y) + std::size_t{4} * x++);
    };
    const std::uint32_t in_a_byte = 8 / bitmap_.bits;
    while (true) {
      const std::uint32_t count = cursor.big(1);
      const std::uint32_t value = cursor.big(1);
      if (cursor.ended_early()) return corrupt(file_, "its bitmap's runs end early");
      bool fits = true;
      if (count != 0) {
        for (std::uint32_t i = 0; i < count && fits; ++i) fits = put(index_in(value, i));
      } else if (value == 0) {
        x = 0;
        ++y;
      } else if (value == 1) {
        return {};
      } else if (value == 2) {
        x += cursor.big(1);
        y += cursor.big(1);
      } else {
        const auto literal = cursor.take((value + in_a_byte - 1) / in_a_byte);
        for (std::uint32_t i = 0; i < value && fits && !literal.empty(); ++i) {
          fits = put(index_in(std::to_integer<std::uint32_t>(literal[i / in_a_byte]), i));
        }
        cursor.take(literal.size() % 2);
      }
      if (!fits) return corrupt(file_, "a bitmap's colour outside its palette");
    }
  }

  /// The colour of the `i`-th pixel of a run in this byte.
  [[nodiscard]] std::uint32_t index_in(std::uint32_t byte, std::uint32_t i) const {
    if (bitmap_.bits == 8) return byte;
    return i % 2 == 0 ? byte >> 4U : byte & 0xFU;
  }

  const MediaFile& file_;
  Bitmap bitmap_;
  std::vector<std::uint8_t> rgba_;
};

Image over_white(const std::vector<std::uint8_t>& rgba, std::uint32_t width, std::uint32_t height) {
  Image image{.width = width, .height = height, .rgb = {}};
  image.rgb.reserve(rgba.size() / 4 * 3);
  append_over_white(rgba, image.rgb);
  return image;
}

/// The picture of an icon that is shown: the largest, and of these the one of most colours.
Result<MediaFile> picture_of_icon(const MediaFile& file) {
  ByteCursor cursor(file.bytes.subspan(4));
  const std::uint32_t count = cursor.little(2);
  std::span<const std::byte> best;
  std::pair<std::uint32_t, std::uint32_t> best_size;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t width = cursor.big(1);
    const std::uint32_t height = cursor.big(1);
    cursor.take(4);  // colours, reserved, planes
    const std::uint32_t bits = cursor.little(2);
    const std::uint32_t size = cursor.little(4);
    const std::uint32_t offset = cursor.little(4);
    if (cursor.ended_early() || offset > file.bytes.size() || size > file.bytes.size() - offset) {
      return corrupt(file,
                     fmt::format("picture {} of {} of the icon is not in the file", i + 1, count));
    }
    const std::pair found((width == 0 ? 256 : width) * (height == 0 ? 256 : height), bits);
    if (best.empty() || found > best_size) {
      best_size = found;
      best = file.bytes.subspan(offset, size);
    }
  }
  if (best.empty()) return corrupt(file, "an icon without a picture");
  return MediaFile{.bytes = best, .name = file.name};
}

/// Where the mask of an icon's bitmap says so, it is transparent.
Result<void> apply_mask(const MediaFile& file, std::span<const std::byte> mask, std::uint32_t width,
                        std::uint32_t height, std::vector<std::uint8_t>& rgba) {
  std::size_t stride = (std::size_t{width} + 31) / 32 * 4;
  // Pillow writes its rows without padding.
  if (mask.size() < stride * height) stride = (std::size_t{width} + 7) / 8;
  if (mask.size() < stride * height) return corrupt(file, "the mask of the icon ends early");
  for (std::uint32_t y = 0; y < height; ++y) {
    const auto line = mask.subspan(stride * (height - 1 - y));
    for (std::uint32_t x = 0; x < width; ++x) {
      if ((std::to_integer<unsigned>(line[x / 8]) >> (7 - x % 8) & 1U) == 0) continue;
      rgba[4 * (std::size_t{y} * width + x) + 3] = 0;
    }
  }
  return {};
}

Result<Bitmap> bitmap_of_icon(const MediaFile& picture) {
  AFI_TRY(Bitmap bitmap, read_bitmap(picture, picture.bytes));
  if (bitmap.compression != kBmpRows && bitmap.compression != kBmpMasks) {
    return unsupported(picture, "an icon with a compressed bitmap");
  }
  bitmap.height /= 2;  // the mask is its upper half
  return bitmap;
}

}  // namespace

bool is_bmp(std::span<const std::byte> file) {
  ByteCursor cursor(file.subspan(std::min(file.size(), kBmpFileHeader)));
  return as_text(file).starts_with("BM") && is_bitmap_header(cursor.little(4));
}

bool is_icon(std::span<const std::byte> file) {
  ByteCursor cursor(file);
  const std::uint32_t reserved = cursor.little(2);
  const std::uint32_t type = cursor.little(2);
  const std::uint32_t count = cursor.little(2);
  cursor.take(3);
  return reserved == 0 && type == 1 && count > 0 && count < 256 && cursor.big(1) == 0 &&
         !cursor.ended_early();
}

Result<PictureHeader> read_bmp_header(const MediaFile& file) {
  AFI_TRY(const Bitmap bitmap, read_bitmap(file, file.bytes.subspan(kBmpFileHeader)));
  return PictureHeader{.format = FileFormat::kBmp, .width = bitmap.width, .height = bitmap.height};
}

Result<Image> decode_bmp(const MediaFile& file, const PictureHeader& header) {
  AFI_TRY(const Bitmap bitmap, read_bitmap(file, file.bytes.subspan(kBmpFileHeader)));
  ByteCursor cursor(file.bytes.subspan(10));
  const std::uint32_t offset = cursor.little(4);
  if (offset < kBmpFileHeader || offset > file.bytes.size()) {
    return corrupt(file, "a bitmap whose rows are not in the file");
  }
  AFI_TRY(const std::vector<std::uint8_t> rgba,
          BitmapReader(file, bitmap, false).read(file.bytes.subspan(offset)));
  return over_white(rgba, header.width, header.height);
}

Result<PictureHeader> read_ico_header(const MediaFile& file) {
  AFI_TRY(const MediaFile picture, picture_of_icon(file));
  PictureHeader header;
  if (sniff(picture.bytes) == FileFormat::kPng) {
    AFI_TRY(header, read_png_header(picture));
    header.orientation = Orientation::kUpright;
  } else {
    AFI_TRY(const Bitmap bitmap, bitmap_of_icon(picture));
    header.width = bitmap.width;
    header.height = bitmap.height;
  }
  header.format = FileFormat::kIco;
  return header;
}

Result<Image> decode_ico(const MediaFile& file, const PictureHeader& header) {
  AFI_TRY(const MediaFile picture, picture_of_icon(file));
  if (sniff(picture.bytes) == FileFormat::kPng) return decode_png(picture, header);
  AFI_TRY(const Bitmap bitmap, bitmap_of_icon(picture));
  AFI_TRY(std::vector<std::uint8_t> rgba,
          BitmapReader(picture, bitmap, true).read(bitmap.behind_header));
  if (bitmap.bits != 32) {
    const auto mask = bitmap.behind_header.subspan(
        std::min(bitmap.stride() * bitmap.height, bitmap.behind_header.size()));
    AFI_TRY_VOID(apply_mask(picture, mask, bitmap.width, bitmap.height, rgba));
  }
  return over_white(rgba, header.width, header.height);
}

}  // namespace afterimage
