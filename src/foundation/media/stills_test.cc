// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// BMP, ICO, TIFF, HEIC, AVIF and JPEG 2000. The files are seeds of the fuzzer, which
// tests/media/make_seeds.py makes with Pillow, libheif, libavif and OpenJPEG.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "foundation/media/decode.h"
#include "foundation/media/even_frame.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/probe.h"
#include "foundation/media/testing/lies.h"
#include "testing/media_files.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace testing;
using ::testing::HasSubstr;

FileContent seed(const std::string& name) {
  std::ifstream file(AFTERIMAGE_MEDIA_SEEDS "/" + name, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  AFI_CHECK(text.size() > 1);
  return text_file(std::string_view(text).substr(1));  // without the modality
}

Result<Image> decoded(FileContent file, const MediaLimits& limits = {}) {
  return decode_image(media_item(Modality::kImage, std::move(file), "cat"), limits);
}

const std::vector<std::string> kAllStills = {"bmp",
                                             "bmp_565",
                                             "bmp_alpha",
                                             "bmp_bits",
                                             "bmp_palette",
                                             "bmp_runs",
                                             "ico_bitmap",
                                             "ico_mask",
                                             "ico_png",
                                             "tiff",
                                             "tiff_alpha",
                                             "tiff_deflate",
                                             "tiff_fax",
                                             "tiff_lzw",
                                             "tiff_packbits",
                                             "tiff_jpeg",
                                             "tiff_jpeg_grey",
                                             "tiff_jpeg_strips",
                                             "tiff_jpeg_tiles",
                                             "tiff_jpeg_ycbcr",
                                             "tiff_palette",
                                             "jpeg2000",
                                             "jpeg2000_stream",
                                             "jpeg2000_alpha",
                                             "jpeg2000_grey16",
                                             "jpeg2000_lossy",
                                             "jpeg2000_palette",
                                             "jpeg2000_subsampled",
                                             "jpeg2000_tiles",
                                             "jpeg2000_ycc",
                                             "heic",
                                             "heic_alpha",
                                             "heic_grid",
                                             "avif",
                                             "avif_alpha",
                                             "avif_animated",
                                             "avif_odd"};

std::uint8_t furthest(const Image& one, const Image& other) {
  if (one.rgb.size() != other.rgb.size() || one.width != other.width) return 255;
  int most = 0;
  for (std::size_t i = 0; i < one.rgb.size(); ++i) {
    most = std::max(most, std::abs(one.rgb[i] - other.rgb[i]));
  }
  return static_cast<std::uint8_t>(most);
}

TEST(Stills, GiveBackThePixelsOfOtherWriters) {
  const Image picture = make_picture(21, 18);
  const struct {
    const char* name;
    FileFormat format;
    std::uint8_t off;  // by the rounding of YCbCr
  } kCases[] = {
      {"bmp", FileFormat::kBmp, 0},
      {"bmp_alpha", FileFormat::kBmp,
       0},  // a fourth byte without a mask says nothing, as in Pillow
      {"tiff", FileFormat::kTiff, 0},
      {"tiff_lzw", FileFormat::kTiff, 0},
      {"tiff_deflate", FileFormat::kTiff, 0},
      {"tiff_packbits", FileFormat::kTiff, 0},
      {"tiff_jpeg", FileFormat::kTiff, 3},
      {"tiff_jpeg_strips", FileFormat::kTiff, 3},
      {"tiff_jpeg_tiles", FileFormat::kTiff, 5},
      {"jpeg2000", FileFormat::kJpeg2000, 0},
      {"jpeg2000_stream", FileFormat::kJpeg2000, 0},
      {"jpeg2000_tiles", FileFormat::kJpeg2000, 0},
      {"jpeg2000_ycc", FileFormat::kJpeg2000, 3},
      {"heic", FileFormat::kHeic, 3},
      {"avif", FileFormat::kAvif, 3},
  };
  for (const auto& c : kCases) {
    const FileContent file = seed(c.name);
    EXPECT_EQ(sniff(file), c.format) << c.name;
    const auto image = decoded(file);
    ASSERT_TRUE(image.has_value()) << c.name << ": " << to_string(image.error());
    EXPECT_LE(furthest(*image, picture), c.off) << c.name;
  }
}

TEST(Stills, AlphaIsCompositedOverWhite) {
  Image expected = make_picture(21, 18);
  for (std::uint32_t i = 0; i < expected.rgb.size(); ++i) {
    const std::uint32_t alpha = i / 3 % 21 * 12;
    expected.rgb[i] =
        static_cast<std::uint8_t>((expected.rgb[i] * alpha + 255 * (255 - alpha) + 127) / 255);
  }
  for (const char* const name : {"ico_png", "ico_bitmap", "tiff_alpha", "jpeg2000_alpha"}) {
    EXPECT_EQ(furthest(decoded(seed(name)).value(), expected), 0) << name;
  }
  for (const char* const name : {"heic_alpha", "avif_alpha"}) {
    EXPECT_LE(furthest(decoded(seed(name)).value(), expected), 40) << name << ", of low quality";
  }
}

TEST(Stills, ThePaletteAndItsRunsAreTheSame) {
  const Image plain = decoded(seed("bmp_palette")).value();
  EXPECT_EQ(decoded(seed("bmp_runs")).value().rgb, plain.rgb);
  EXPECT_EQ(decoded(seed("tiff_palette")).value().rgb, plain.rgb);
  EXPECT_EQ(decoded(seed("jpeg2000_palette")).value().rgb, plain.rgb);
  EXPECT_EQ(decoded(seed("bmp_bits")).value().rgb, decoded(seed("tiff_fax")).value().rgb);
}

/// The four bytes of a field's value in a little-endian TIFF of one directory, by the field's number.
std::size_t value_of_field(const FileContent& tiff, std::uint16_t field) {
  std::uint32_t at = 0;
  for (std::size_t i = 4; i-- > 0;) at = at << 8U | std::to_integer<std::uint32_t>(tiff.at(4 + i));
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(tiff.at(i)); };
  for (at += 2; (byte(at) | byte(at + 1) << 8U) != field;) at += 12;
  return at + 8;
}

// As scanners write pages.
TEST(Stills, JpegWithinATiffIsReadAsTheTiffSays) {
  const Image colours = decoded(seed("tiff_jpeg")).value();
  const Image grey = decoded(seed("tiff_jpeg_grey")).value();
  for (std::size_t i = 0; i < grey.rgb.size(); i += 3) {
    const double level =
        0.299 * colours.rgb[i] + 0.587 * colours.rgb[i + 1] + 0.114 * colours.rgb[i + 2];
    ASSERT_NEAR(grey.rgb[i], level, 3) << i;
    ASSERT_EQ(grey.rgb[i], grey.rgb[i + 2]) << i;
  }
  // The same samples, taken for YCbCr.
  const FileContent rgb = seed("tiff_jpeg");
  const auto other = decoded(with_little(rgb, value_of_field(rgb, 262), 6, 2));
  ASSERT_TRUE(other.has_value()) << to_string(other.error());
  EXPECT_GT(furthest(*other, colours), 100);
  EXPECT_EQ(decoded(seed("tiff_jpeg_ycbcr")).value().width, 21U);
}

// FFmpeg's decoder reads none of them, and says of Lab that patches are welcome.
TEST(Stills, TiffsThatAreNotReadSayWhatTheyAre) {
  const FileContent jpeg = seed("tiff_jpeg_tiles");
  const FileContent tiles = with_little(jpeg, value_of_field(jpeg, 262), 2, 2);  // RGB
  const FileContent colours = seed("tiff_lzw");
  const struct {
    FileContent file;
    const char* message;
  } kCases[] = {
      {with_little(tiles, value_of_field(tiles, 259), 5, 2), "tiles that are not JPEG"},
      {with_little(colours, value_of_field(colours, 262), 8, 2), "Lab colours"},
      {with_little(colours, value_of_field(colours, 262), 10, 2), "Lab colours"},
      {with_little(colours, value_of_field(colours, 262), 6, 2), "YCbCr colours"},
  };
  for (const auto& c : kCases) {
    const auto image = decoded(c.file);
    ASSERT_FALSE(image.has_value()) << c.message;
    EXPECT_EQ(image.error().code, ErrorCode::kUnsupported) << c.message;
    EXPECT_NE(image.error().message.find(c.message), std::string::npos) << image.error().message;
  }
}

TEST(Stills, ForgedTiffsOfJpegAreRefused) {
  const FileContent strips = seed("tiff_jpeg_strips");
  const FileContent tiles = seed("tiff_jpeg_tiles");
  const auto with = [](const FileContent& tiff, std::uint16_t field, std::uint32_t value) {
    return with_little(tiff, value_of_field(tiff, field), value, 4);
  };
  FileContent tables = strips;
  tables.insert(tables.end(), 70'000, std::byte{0});
  tables = with_little(tables, value_of_field(tables, 347) - 4, 70'000, 4);
  const struct {
    const char* name;
    FileContent file;
    ErrorCode code;
    const char* message;
  } kCases[] = {
      {"tiles of 60,000 pixels", with(tiles, 322, 60'000), ErrorCode::kLimitExceeded, "60000x18"},
      {"tiles of no pixels", with(tiles, 323, 0), ErrorCode::kCorruption, "without a size"},
      {"tiles of 8 rows", with(tiles, 323, 8), ErrorCode::kCorruption, "4 strips or tiles"},
      {"strips of 9 rows", with(strips, 278, 9), ErrorCode::kCorruption, "strips or tiles"},
      {"strips of 7 rows", with(strips, 278, 7), ErrorCode::kCorruption, "instead of 21x7"},
      {"grey of three samples", with(strips, 262, 1), ErrorCode::kUnsupported, "TIFF of JPEG"},
      {"CMYK", with(strips, 262, 5), ErrorCode::kUnsupported, "TIFF of JPEG"},
      {"tables of 70,000 bytes", tables, ErrorCode::kCorruption, "70000 bytes of tables"},
  };
  for (const auto& c : kCases) {
    const auto image = decoded(c.file);
    ASSERT_FALSE(image.has_value()) << c.name;
    EXPECT_EQ(image.error().code, c.code) << c.name << ": " << image.error().message;
    EXPECT_THAT(image.error().message, HasSubstr(c.message)) << c.name;
  }
}

// As phones write pictures: tiles, of which the last reaches beyond, and a turn.
TEST(Stills, AGridOfTilesIsOneTurnedPicture) {
  const Image image = decoded(seed("heic_grid")).value();
  ASSERT_EQ(image.width, 60U);
  ASSERT_EQ(image.height, 100U);
  const Image tiles[2] = {make_picture(64, 64, 1), make_picture(64, 64, 2)};
  double off = 0;
  for (std::uint32_t y = 0; y < 100; ++y) {
    for (std::uint32_t x = 0; x < 60; ++x) {
      // Turned clockwise: the left column is the first row, the last row the left column.
      const std::size_t at = 3 * (std::size_t{59 - x} * 64 + y % 64);
      for (std::size_t i = 0; i < 3; ++i) {
        off += std::abs(image.rgb[3 * (std::size_t{y} * 60 + x) + i] - tiles[y / 64].rgb[at + i]);
      }
    }
  }
  EXPECT_LT(off / 18'000, 12) << "a picture that is turned otherwise is off by 80";
}

// Colours that two pixels share lay a pixel too far to the right at the right edge of pictures of odd width.
TEST(Stills, ColoursOfAnOddNumberOfPixelsAreInTheirPlaces) {
  const Image image = decoded(seed("avif_odd")).value();
  ASSERT_EQ(image.width, 161U);
  double most = 0;
  for (std::uint32_t x = 0; x < image.width; ++x) {
    const bool is_red = x / 8 % 2 == 0;
    const bool is_inside = x % 8 != 0 && x % 8 != 7;  // colours are soft at the edges of a stripe
    if (!is_inside) continue;
    const std::uint8_t* const rgb = &image.rgb[3 * (std::size_t{8} * image.width + x)];
    const int expected[3] = {is_red ? 200 : 60, 60, is_red ? 60 : 200};
    for (std::size_t i = 0; i < 3; ++i)
      most = std::max(most, std::abs(double{1} * rgb[i] - expected[i]));
  }
  EXPECT_LT(most, 24);
}

TEST(EvenFrame, SaysOfItsColoursWhatTheFrameSaid) {
  const EvenFrame odd(av_frame_alloc());
  odd->format = AV_PIX_FMT_YUV420P;
  odd->width = 3;
  odd->height = 5;
  odd->colorspace = AVCOL_SPC_BT709;
  odd->color_range = AVCOL_RANGE_JPEG;
  ASSERT_EQ(av_frame_get_buffer(odd.get(), 0), 0);
  for (int plane = 0; plane < 3; ++plane) {
    std::fill_n(odd->data[plane], std::ptrdiff_t{plane == 0 ? 5 : 3} * odd->linesize[plane],
                std::uint8_t{7});
  }
  odd->data[0][2] = 9;
  const EvenFrame even = even_frame(*odd).value();
  ASSERT_NE(even, nullptr);
  EXPECT_EQ(std::pair(even->width, even->height), std::pair(4, 6));
  EXPECT_EQ(even->data[0][3], 9) << "the last column twice";
  EXPECT_EQ(colour_matrix(*even), std::uint32_t{AVCOL_SPC_BT709});
  EXPECT_EQ(even->color_range, AVCOL_RANGE_JPEG);
  EXPECT_EQ(even_frame(*even).value(), nullptr);
}

TEST(Stills, SamplesOfSixteenBitsAreRounded) {
  const Image grey = decoded(seed("jpeg2000_grey16")).value();
  for (std::uint32_t y = 0; y < 18; ++y) {
    for (std::uint32_t x = 0; x < 21; ++x) {
      const auto level = static_cast<int>(std::lround((x * 3000 + y * 100) / 257.0));
      const std::size_t at = 3 * (std::size_t{y} * 21 + x);
      ASSERT_EQ(int{grey.rgb[at]}, level) << x << ", " << y;
      ASSERT_EQ(int{grey.rgb[at + 2]}, level);
    }
  }
}

// Pillow shifts each row of the colours by half a pixel more if the width is odd.
TEST(Stills, Jpeg2000OfFewerColoursThanPixelsAndAnOddWidthIsNotSkewed) {
  const Image image = decoded(seed("jpeg2000_subsampled")).value();
  ASSERT_EQ(image.width, 21U);
  double off = 0;
  for (std::uint32_t y = 0; y < 18; ++y) {
    for (std::uint32_t x = 0; x < 21; ++x) {
      const std::size_t at = 3 * (std::size_t{y} * 21 + x);
      const std::uint32_t expected[3] = {x * 11, y * 13, (x + y) * 6};
      for (std::size_t i = 0; i < 3; ++i) {
        off += std::abs(double{1} * image.rgb[at + i] - expected[i]);
      }
    }
  }
  EXPECT_LT(off / (21 * 18 * 3), 12) << "skewed colours are off by 31";
}

TEST(Stills, MarkersOfJpeg2000WithoutASegmentArePassed) {
  FileContent stream = seed("jpeg2000_stream");
  const auto style = static_cast<std::ptrdiff_t>(find_text(stream, "\xFF\x52"));
  stream.insert(stream.begin() + style, {std::byte{0xFF}, std::byte{0x30}});
  EXPECT_EQ(probe(media_item(Modality::kImage, stream)).value().width, 21U);
}

// Decoders allocate by the header, and show what is there of a stream that ends early.
TEST(Stills, ForgedJpeg2000IsRefusedByItsHeader) {
  const FileContent stream = seed("jpeg2000_stream");
  const FileContent tiles = seed("jpeg2000_tiles");
  const auto begin = static_cast<std::ptrdiff_t>(find_text(tiles, "\xFF\x4F\xFF\x51"));
  const FileContent stream_of_tiles(tiles.begin() + begin, tiles.end());
  const FileContent palette = seed("jpeg2000_palette");
  const std::size_t style = find_text(stream, "\xFF\x52") + 2;  // its length, then what it says
  const std::size_t colours = find_text(tiles, "colr") + 7;
  const std::size_t last_tile = find_text(stream_of_tiles, {"\xFF\x90\0\x0A\0\3", 6});
  FileContent without_last = cut_to(stream_of_tiles, last_tile);
  without_last.insert(without_last.end(), {std::byte{0xFF}, std::byte{0xD9}});
  const auto large = [&](std::uint32_t side) {
    FileContent file = stream;
    for (const std::size_t at : {8U, 12U, 24U, 28U}) file = with_big(file, at, side, 4);
    return file;
  };
  // Precincts of 128 pixels, 65,535 layers.
  FileContent many_packets = large(8'000);
  const FileContent fine =
      text_file({"\xFF\x52\0\x12\1\0\xFF\xFF\1\5\4\4\0\1\x77\x77\x77\x77\x77\x77", 20});
  many_packets.insert(many_packets.begin() + static_cast<std::ptrdiff_t>(style) - 2, fine.begin(),
                      fine.end());
  const struct {
    const char* name;
    FileContent file;
    ErrorCode code;
    const char* message;
  } kCases[] = {
      {"16,384 components", with_big(stream, 40, 16'384, 2), ErrorCode::kUnsupported,
       "16384 components"},
      {"38 bits", with_big(stream, 42, 37, 1), ErrorCode::kUnsupported, "38 bits a sample"},
      {"tiles of a pixel", with_big(large(5'000), 24, 1, 4), ErrorCode::kUnsupported, "tiles"},
      {"tiles of no pixels", with_big(stream, 24, 0, 4), ErrorCode::kCorruption, "without a size"},
      {"small blocks", with_big(large(8'000), style + 8, 0, 2), ErrorCode::kUnsupported,
       "code-blocks"},
      {"layers", many_packets, ErrorCode::kUnsupported, "packets"},
      {"33 levels", with_big(stream, style + 7, 33, 1), ErrorCode::kCorruption, "damaged header"},
      {"no last tile", without_last, ErrorCode::kCorruption, "ends early"},
      {"a tile beyond the last", with_big(stream_of_tiles, last_tile + 4, 4, 2),
       ErrorCode::kCorruption, "damaged header"},
      {"CMYK", with_big(tiles, colours, 12, 4), ErrorCode::kUnsupported, "CMYK colours"},
      {"200 columns", with_big(palette, find_text(palette, "pclr") + 6, 200, 1),
       ErrorCode::kUnsupported, "palette of 200 columns"},
  };
  for (const auto& c : kCases) {
    const auto info = probe(media_item(Modality::kImage, c.file));
    ASSERT_FALSE(info.has_value()) << c.name;
    EXPECT_EQ(info.error().code, c.code) << c.name << ": " << info.error().message;
    EXPECT_THAT(info.error().message, HasSubstr(c.message)) << c.name;
  }
}

TEST(Stills, TheFirstPictureOfAnAnimatedAvifIsTheImage) {
  EXPECT_LE(furthest(decoded(seed("avif_animated")).value(), make_picture(21, 18)), 60);
  const auto as_video =
      decode_video(media_item(Modality::kVideo, seed("avif_animated"), "wave.avif"));
  ASSERT_FALSE(as_video.has_value());
  EXPECT_THAT(as_video.error().message, HasSubstr("an AVIF file, given as a video"));
}

TEST(Stills, ATruncatedFileIsAnErrorOrComplete) {
  for (const std::string& name : kAllStills) {
    const FileContent file = seed(name);
    const Image whole = decoded(file).value();
    for (std::size_t size = 12; size < file.size(); ++size) {
      const auto cut = decoded(cut_to(file, size));
      if (cut.has_value()) {
        EXPECT_EQ(cut->rgb, whole.rgb) << name << " cut to " << size;
        EXPECT_LE(file.size() - size, 16U) << name << ": more than a trailer is missing";
      } else {
        EXPECT_NE(cut.error().code, ErrorCode::kLimitExceeded)
            << name << " cut to " << size << ": " << cut.error().message;
      }
    }
  }
}

TEST(StillsProperty, FlippedBitsNeverCrashOrExceedTheLimits) {
  std::map<std::string, FileContent> seeds;
  for (const std::string& name : kAllStills) seeds[name] = seed(name);
  const MediaLimits limits{.max_side = 128, .max_pixels = 16'384};
  for_each_seed(1'500, [&](Rng& rng) {
    const std::string& name = kAllStills[rng.below(kAllStills.size())];
    FileContent file = seeds[name];
    for (std::uint64_t flips = 1 + rng.below(6); flips > 0; --flips) {
      // Half of them where the headers are.
      const std::size_t most =
          rng.below(2) == 0 ? std::min<std::size_t>(file.size(), 400) : file.size();
      file[rng.below(most)] ^= std::byte{1} << static_cast<int>(rng.below(8));
    }
    if (const auto image = decoded(file, limits)) {
      ASSERT_LE(std::max(image->width, image->height), 128U) << name;
      ASSERT_EQ(image->rgb.size(), 3U * image->width * image->height) << name;
    }
  });
}

/// A file that claims many pixels and has few bytes.
TEST(Stills, BombsAreRefusedByTheirHeaders) {
  const FileContent tiff = seed("tiff");
  const FileContent heic = seed("heic");
  const FileContent grid = seed("heic_grid");
  const std::size_t width_in_tiff = find_text(tiff, {"\0\1\4\0\1\0\0\0", 8});
  const std::size_t ispe = find_text(heic, "ispe") + 8;
  const std::size_t grid_tile = find_text(grid, {"ispe\0\0\0\0\0\0\0\x40", 12}) + 8;
  const FileContent stream = seed("jpeg2000_stream");
  const struct {
    const char* name;
    FileContent file;
  } kCases[] = {
      {"BMP", with_little(seed("bmp"), 18, 60'000, 4)},
      {"BMP of runs", with_little(with_little(seed("bmp_runs"), 18, 16'000, 4), 22, 16'000, 4)},
      {"BMP from above", with_little(seed("bmp"), 22, 0x8000'0000, 4)},
      {"ICO", with_little(seed("ico_mask"), 22 + 4, 60'000, 4)},
      {"TIFF", with_little(tiff, width_in_tiff + 8, 60'000, 4)},
      {"HEIC", with_big(heic, ispe, 60'000, 4)},
      {"HEIC of 2^32 - 1", with_big(with_big(heic, ispe, UINT32_MAX, 4), ispe + 4, UINT32_MAX, 4)},
      {"a tile that is far larger than the picture", with_big(grid, grid_tile, 100'000, 4)},
      {"JPEG 2000", with_big(with_big(stream, 8, 60'000, 4), 24, 60'000, 4)},
  };
  for (const auto& c : kCases) {
    const auto info = probe(media_item(Modality::kImage, c.file));
    ASSERT_FALSE(info.has_value()) << c.name;
    const bool is_refused = info.error().code == ErrorCode::kLimitExceeded ||
                            info.error().message.contains("a grid of another size");
    EXPECT_TRUE(is_refused) << c.name << ": " << info.error().message;
  }
}

// Decoders go by what is coded, not by what the container says of it.
TEST(Stills, WhatIsCodedMustHaveTheSizeThatTheFileDeclares) {
  for (const char* const name : {"heic", "avif"}) {
    const FileContent file = seed(name);
    const std::size_t ispe = find_text(file, "ispe") + 8;
    const auto smaller = decoded(with_big(file, ispe, 8, 4));
    ASSERT_FALSE(smaller.has_value()) << name;
    EXPECT_EQ(smaller.error().code, ErrorCode::kCorruption) << smaller.error().message;
  }
}

TEST(Stills, WhatIsNotReadSaysWhatToDo) {
  FileContent tiff = seed("tiff_lzw");
  const std::size_t compression = find_text(tiff, {"\3\1\3\0\1\0\0\0\5\0", 10});
  const auto other = decoded(with_little(tiff, compression + 8, 50'000, 2));
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(other.error().message, HasSubstr("a TIFF compressed in the way 50000 (Zstandard)"));
  EXPECT_THAT(other.error().message, HasSubstr("convert it to PNG or JPEG"));
}

TEST(Stills, TheDecoderIsNamed) {
  EXPECT_THAT(picture_decoder(),
              ::testing::MatchesRegex("lavc [0-9]+, lsws [0-9]+(, openjpeg [0-9]+.*)?"));
}

}  // namespace
}  // namespace afterimage
