// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdio>

// clang-format off: jpeglib.h names FILE without including it.
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <fmt/format.h>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {

namespace {

constexpr unsigned kTemporary = 0x01;
constexpr unsigned kFirstFrameHeader = 0xC0;
constexpr unsigned kHuffmanTables = 0xC4;
constexpr unsigned kReserved = 0xC8;
constexpr unsigned kArithmeticTables = 0xCC;
constexpr unsigned kLastFrameHeader = 0xCF;
constexpr unsigned kFirstRestart = 0xD0;
constexpr unsigned kStartOfImage = 0xD8;
constexpr unsigned kEndOfImage = 0xD9;
constexpr unsigned kStartOfScan = 0xDA;
constexpr unsigned kApp1 = 0xE1;

// Progressive encoders write about ten scans. Each costs a pass over all coefficients, so a small
// file with thousands of scans could keep a core busy for minutes.
constexpr int kMaxScans = 200;

bool is_standalone(unsigned marker) {
  return marker == kTemporary || (marker >= kFirstRestart && marker <= kStartOfImage);
}

bool is_frame_header(unsigned marker) {
  return marker >= kFirstFrameHeader && marker <= kLastFrameHeader && marker != kHuffmanTables &&
         marker != kReserved && marker != kArithmeticTables;
}

/// The next marker; skips bytes in between, as libjpeg does.
unsigned next_marker(ByteCursor& cursor) {
  while (!cursor.ended_early()) {
    unsigned byte = cursor.big(1);
    if (byte != 0xFF) continue;
    while (byte == 0xFF) byte = cursor.big(1);
    if (byte != 0) return byte;
  }
  return 0;
}

Result<void> read_frame_header(const MediaFile& file, unsigned marker,
                               std::span<const std::byte> segment, PictureHeader& header) {
  ByteCursor cursor(segment);
  const unsigned precision = cursor.big(1);
  header.height = cursor.big(2);
  header.width = cursor.big(2);
  cursor.big(1);  // number of components: checked by the decoder
  if (cursor.ended_early()) return corrupt(file, "its JPEG frame header is too short");
  const unsigned process = marker - kFirstFrameHeader;
  const bool sequential_or_progressive = process <= 2 || process == 9 || process == 10;
  if (!sequential_or_progressive || precision != 8) {
    return unsupported(file, fmt::format("a JPEG of process SOF{} with {}-bit samples; baseline, "
                                         "extended and progressive of 8 bits are read",
                                         process, precision));
  }
  if (header.height == 0) {
    return unsupported(file, "a JPEG that states its height after its pixels (DNL)");
  }
  return {};
}

struct JpegErrors : jpeg_error_mgr {
  std::jmp_buf escape;
  char text[JMSG_LENGTH_MAX];
};

/// libjpeg's warnings that do not affect pixels; after any other warning, pixels are guessed.
bool is_harmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_JFIF_MAJOR ||
         warning == JWRN_ADOBE_XFORM || warning == JWRN_TOO_MUCH_DATA;
}

[[noreturn]] void leave(j_common_ptr info) {
  auto* errors = static_cast<JpegErrors*>(info->err);
  errors->format_message(info, errors->text);
  std::longjmp(errors->escape, 1);
}

void on_message(j_common_ptr info, int level) {
  const bool is_warning = level < 0;
  if (is_warning && !is_harmless(info->err->msg_code)) leave(info);
}

void stop_after_too_many_scans(j_common_ptr info) {
  if (info->is_decompressor != 0 &&
      reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    auto* errors = static_cast<JpegErrors*>(info->err);
    std::snprintf(errors->text, sizeof errors->text, "more than %d scans", kMaxScans);
    std::longjmp(errors->escape, 1);
  }
}

/// libjpeg reports errors by longjmp, which runs no destructors. Therefore each call into libjpeg
/// has its own function below that owns nothing after setjmp.
class JpegReader {
 public:
  JpegReader() {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = leave;
    errors_.emit_message = on_message;
    progress_.progress_monitor = stop_after_too_many_scans;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  bool read_header(std::span<const std::byte> bytes) {
    if (setjmp(errors_.escape) != 0) return false;
    jpeg_CreateDecompress(&info_, JPEG_LIB_VERSION, sizeof info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, as_octets(bytes), bytes.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }
  bool start(JpegColours colours) {
    if (setjmp(errors_.escape) != 0) return false;
    if (colours == JpegColours::kRgb) info_.jpeg_color_space = JCS_RGB;
    if (colours == JpegColours::kYCbCr) info_.jpeg_color_space = JCS_YCbCr;
    info_.out_color_space = is_cmyk() ? JCS_CMYK : JCS_RGB;
    info_.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&info_);
    return true;
  }
  bool read_row(std::uint8_t* row) {
    if (setjmp(errors_.escape) != 0) return false;
    return jpeg_read_scanlines(&info_, &row, 1) == 1;
  }

  [[nodiscard]] bool has_size_of(const PictureHeader& header) const {
    return info_.image_width == header.width && info_.image_height == header.height;
  }
  [[nodiscard]] bool is_cmyk() const {
    return info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
  }
  [[nodiscard]] bool may_have(JpegColours colours) const {
    if (colours == JpegColours::kGrey) return info_.num_components == 1;
    if (colours != JpegColours::kAsMarked) return info_.num_components == 3;
    return is_cmyk() || info_.jpeg_color_space == JCS_GRAYSCALE ||
           info_.jpeg_color_space == JCS_YCbCr || info_.jpeg_color_space == JCS_RGB;
  }
  [[nodiscard]] const char* message() const { return errors_.text; }

 private:
  jpeg_decompress_struct info_{};
  jpeg_progress_mgr progress_{};
  JpegErrors errors_{};
};

/// Inks are stored inverted (255: no ink), as Adobe writes them and browsers and Pillow expect.
void append_cmyk(std::span<const std::uint8_t> cmyk, std::vector<std::uint8_t>& rgb) {
  for (std::size_t i = 0; i + 4 <= cmyk.size(); i += 4) {
    for (std::size_t ink = 0; ink < 3; ++ink) {
      rgb.push_back(static_cast<std::uint8_t>((cmyk[i + ink] * cmyk[i + 3] + 127) / 255));
    }
  }
}

}  // namespace

Result<PictureHeader> read_jpeg_header(const MediaFile& file) {
  ByteCursor cursor(file.bytes);
  PictureHeader header{.format = FileFormat::kJpeg};
  bool has_frame_header = false;
  bool has_exif = false;
  while (true) {
    const unsigned marker = next_marker(cursor);
    if (cursor.ended_early()) return corrupt(file, "its JPEG header ends early");
    if (is_standalone(marker)) continue;
    if (marker == kEndOfImage) return corrupt(file, "a JPEG that contains no image");
    const std::uint32_t length = cursor.big(2);
    const auto segment = cursor.take(std::max(length, 2U) - 2);
    if (length < 2 || cursor.ended_early()) return corrupt(file, "its JPEG header ends early");

    constexpr std::string_view kExif("Exif\0\0", 6);
    if (is_frame_header(marker) && !has_frame_header) {
      AFI_TRY_VOID(read_frame_header(file, marker, segment, header));
      has_frame_header = true;
    } else if (marker == kApp1 && !has_exif && as_text(segment).starts_with(kExif)) {
      header.orientation = exif_orientation(segment.subspan(kExif.size()));
      has_exif = true;
    } else if (marker == kStartOfScan) {
      if (!has_frame_header) return corrupt(file, "a JPEG whose pixels precede its frame header");
      return header;
    }
  }
}

Result<Image> decode_jpeg(const MediaFile& file, const PictureHeader& header, JpegColours colours) {
  JpegReader reader;
  if (!reader.read_header(file.bytes)) return corrupt(file, reader.message());
  if (!reader.has_size_of(header)) return corrupt(file, "a JPEG that declares two sizes");
  if (!reader.may_have(colours)) {
    return colours == JpegColours::kAsMarked
               ? Result<Image>(
                     unsupported(file, "a JPEG that is not grey, RGB, YCbCr, CMYK or YCCK"))
               : corrupt(file, "a TIFF and a JPEG within it with different colours");
  }
  if (!reader.start(colours)) return corrupt(file, reader.message());

  Image image{.width = header.width, .height = header.height, .rgb = {}};
  // Reserved, not filled: memory is touched only as rows are actually decoded.
  image.rgb.reserve(3 * std::size_t{header.width} * header.height);
  std::vector<std::uint8_t> row((reader.is_cmyk() ? 4 : 3) * std::size_t{header.width});
  for (std::uint32_t y = 0; y < header.height; ++y) {
    if (!reader.read_row(row.data())) {
      return corrupt(file, fmt::format("row {} of {}: {}", y + 1, header.height, reader.message()));
    }
    if (reader.is_cmyk()) {
      append_cmyk(row, image.rgb);
    } else {
      image.rgb.insert(image.rgb.end(), row.begin(), row.end());
    }
  }
  return image;
}

}  // namespace afterimage
