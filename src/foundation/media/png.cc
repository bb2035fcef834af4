// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <png.h>
#include <zlib.h>

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {

namespace {

constexpr std::size_t kSignatureBytes = 8;
constexpr std::size_t kTypeBytes = 4;

struct Chunk {
  std::string_view type;
  std::span<const std::byte> body;
  bool is_intact;  // its CRC is correct
};

Chunk next_chunk(ByteCursor& cursor) {
  const std::uint32_t length = cursor.big(4);
  const auto named = cursor.take(std::uint64_t{length} + kTypeBytes);
  const std::uint32_t crc = cursor.big(4);
  if (cursor.ended_early()) return {};
  return {.type = as_text(named.first(kTypeBytes)),
          .body = named.subspan(kTypeBytes),
          .is_intact = crc32_z(0, as_octets(named), named.size()) == crc};
}

bool pixels_are_next(ByteCursor cursor) {
  cursor.take(4);  // the length
  return as_text(cursor.take(kTypeBytes)) == "IDAT";
}

struct PngSource {
  std::span<const std::byte> rest;
  char text[128];
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto* source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::snprintf(source->text, sizeof source->text, "%s", text);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void read_some(png_structp png, png_bytep out, std::size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->rest.size()) png_error(png, "the file ends early");
  std::memcpy(out, source->rest.data(), count);
  source->rest = source->rest.subspan(count);
}

/// libpng reports errors by longjmp, which runs no destructors. Therefore each call into libpng has
/// its own function below that owns nothing after setjmp.
class PngReader {
 public:
  explicit PngReader(std::span<const std::byte> bytes) : source_{.rest = bytes, .text = {}} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  /// Requests 8-bit RGBA rows, whatever the stored format.
  bool start(std::uint32_t width, std::uint32_t height) {
    if (png_ == nullptr || info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, &source_, read_some);
    png_set_user_limits(png_, width, height);
    ignore_what_is_not_pixels();
    png_read_info(png_, info_);
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_gray_to_rgb(png_);
    png_set_add_alpha(png_, 0xFF, PNG_FILLER_AFTER);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  bool read_row(std::uint8_t* row) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_row(png_, row, nullptr);
    return true;
  }

  [[nodiscard]] bool gives_rgba_of(const PictureHeader& header) const {
    return png_get_image_width(png_, info_) == header.width &&
           png_get_image_height(png_, info_) == header.height &&
           png_get_rowbytes(png_, info_) == 4 * std::size_t{header.width};
  }
  [[nodiscard]] int passes() const { return passes_; }
  [[nodiscard]] const char* message() const { return source_.text; }

 private:
  /// Skips colour profiles and texts, which can be compressed, large and broken but change no
  /// pixel.
  void ignore_what_is_not_pixels() {
    static constexpr png_byte kIgnored[] =
        "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0"
        "sBIT\0sCAL\0sPLT\0sRGB\0tEXt\0tIME\0zTXt";
    static_assert(sizeof kIgnored % 5 == 0);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kIgnored, sizeof kIgnored / 5);
  }

  PngSource source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
};

}  // namespace

Result<PictureHeader> read_png_header(const MediaFile& file) {
  ByteCursor cursor(file.bytes.subspan(kSignatureBytes));
  const Chunk first = next_chunk(cursor);
  if (cursor.ended_early()) return corrupt(file, "its PNG header ends early");
  if (first.type != "IHDR" || first.body.size() != 13 || !first.is_intact) {
    return corrupt(file, "its PNG header (IHDR) is missing or damaged");
  }
  ByteCursor fields(first.body);
  PictureHeader header{.format = FileFormat::kPng};
  header.width = fields.big(4);
  header.height = fields.big(4);
  while (!pixels_are_next(cursor)) {
    const Chunk chunk = next_chunk(cursor);
    if (cursor.ended_early() || chunk.type == "IEND") {
      return corrupt(file, "its PNG header ends before any pixels");
    }
    // Also for unknown chunks: a damaged type may hide the chunk that holds the orientation.
    if (!chunk.is_intact) return corrupt(file, "a PNG chunk is damaged");
    if (chunk.type == "eXIf") header.orientation = exif_orientation(chunk.body);
  }
  return header;
}

Result<Image> decode_png(const MediaFile& file, const PictureHeader& header) {
  PngReader reader(file.bytes);
  if (!reader.start(header.width, header.height)) return corrupt(file, reader.message());
  if (!reader.gives_rgba_of(header)) return corrupt(file, "a PNG that declares two sizes");

  const std::size_t row_bytes = 4 * std::size_t{header.width};
  const bool interlaced = reader.passes() > 1;
  // An interlaced image needs a buffer for all rows; any other is decoded row by row.
  std::vector<std::uint8_t> rgba(interlaced ? row_bytes * header.height : row_bytes);
  Image image{.width = header.width, .height = header.height, .rgb = {}};
  image.rgb.reserve(3 * std::size_t{header.width} * header.height);
  for (int pass = 1; pass <= reader.passes(); ++pass) {
    for (std::uint32_t y = 0; y < header.height; ++y) {
      const auto row = std::span(rgba).subspan(interlaced ? y * row_bytes : 0, row_bytes);
      if (!reader.read_row(row.data())) {
        return corrupt(file,
                       fmt::format("row {} of {}: {}", y + 1, header.height, reader.message()));
      }
      if (pass == reader.passes()) append_over_white(row, image.rgb);
    }
  }
  return image;
}

}  // namespace afterimage
