// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "foundation/media/decode.h"
#include "foundation/media/testing/lies.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using namespace testing;
using Pixels = std::vector<std::uint8_t>;

Result<Image> decode(FileContent file) {
  return decode_image(media_item(Modality::kImage, std::move(file)));
}

TEST(Png, ConvertsEverySampleFormatToRgb) {
  const Pixels kPalette = {10, 20, 30, 200, 100, 50, 0, 0, 0, 255, 255, 255};
  const struct {
    const char* name;
    PngContent content;
    Pixels expected;
  } kCases[] = {
      {"RGB", {.width = 2, .height = 1, .rows = {1, 2, 3, 4, 5, 6}}, {1, 2, 3, 4, 5, 6}},
      {"one pixel", {.width = 1, .height = 1, .rows = {7, 8, 9}}, {7, 8, 9}},
      {"grey", {.width = 2, .height = 1, .color_type = 0, .rows = {0, 77}}, {0, 0, 0, 77, 77, 77}},
      {"grey of 1 bit",
       {.width = 2, .height = 1, .color_type = 0, .bit_depth = 1, .rows = {0x40}},
       {0, 0, 0, 255, 255, 255}},
      {"grey of 2 bits",
       {.width = 2, .height = 1, .color_type = 0, .bit_depth = 2, .rows = {0x60}},
       {85, 85, 85, 170, 170, 170}},
      {"grey of 16 bits, rounded and not cut",
       {.width = 3,
        .height = 1,
        .color_type = 0,
        .bit_depth = 16,
        .rows = {0x00, 0xFF, 0x80, 0x80, 0xFF, 0xFF}},
       {1, 1, 1, 128, 128, 128, 255, 255, 255}},
      {"grey and alpha",
       {.width = 3, .height = 1, .color_type = 4, .rows = {100, 255, 100, 128, 100, 0}},
       {100, 100, 100, 177, 177, 177, 255, 255, 255}},
      {"RGBA",
       {.width = 3,
        .height = 1,
        .color_type = 6,
        .rows = {0, 100, 200, 255, 0, 100, 200, 51, 0, 100, 200, 0}},
       {0, 100, 200, 204, 224, 244, 255, 255, 255}},
      {"RGBA of 16 bits",
       {.width = 1,
        .height = 1,
        .color_type = 6,
        .bit_depth = 16,
        .rows = {0, 0, 0x64, 0x64, 0xC8, 0xC8, 0x33, 0x33}},
       {204, 224, 244}},
      {"palette",
       {.width = 2, .height = 1, .color_type = 3, .rows = {1, 0}, .palette = kPalette},
       {200, 100, 50, 10, 20, 30}},
      {"palette of 2 bits",
       {.width = 3,
        .height = 1,
        .color_type = 3,
        .bit_depth = 2,
        .rows = {0x4C},
        .palette = kPalette},
       {200, 100, 50, 10, 20, 30, 255, 255, 255}},
      {"palette with transparency",
       {.width = 3,
        .height = 1,
        .color_type = 3,
        .rows = {0, 1, 2},
        .palette = kPalette,
        .palette_alpha = {0, 51}},
       {255, 255, 255, 244, 224, 214, 0, 0, 0}},
  };
  for (const auto& c : kCases) {
    const auto image = decode(make_png(c.content));
    ASSERT_TRUE(image.has_value()) << c.name << ": " << to_string(image.error());
    EXPECT_EQ(image->width, c.content.width) << c.name;
    EXPECT_EQ(image->height, c.content.height) << c.name;
    EXPECT_EQ(image->rgb, c.expected) << c.name;
  }
}

TEST(Png, InterlacedImagesEqualPlainOnes) {
  for (std::uint32_t width = 1; width <= 9; ++width) {
    for (std::uint32_t height = 1; height <= 9; ++height) {
      const Image picture = make_picture(width, height);
      const auto image = decode(
          make_png({.width = width, .height = height, .interlaced = true, .rows = picture.rgb}));
      ASSERT_TRUE(image.has_value()) << width << "x" << height;
      EXPECT_EQ(image->rgb, picture.rgb) << width << "x" << height;
    }
  }
}

TEST(Png, FewerPixelsThanPromisedIsCorruption) {
  const FileContent tall = png_claiming(4, 5);
  const FileContent wide = png_claiming(5, 4);
  for (const FileContent& file : {tall, wide, png_claiming(16'384, 3'900)}) {
    const auto image = decode(file);
    ASSERT_FALSE(image.has_value());
    EXPECT_EQ(image.error().code, ErrorCode::kCorruption) << image.error().message;
  }
}

TEST(Png, ADamagedChecksumIsCorruption) {
  FileContent file = make_png(make_picture(8, 8));
  const std::size_t idat = find_text(file, "IDAT");
  file[idat + 12] ^= std::byte{1};
  EXPECT_EQ(decode(file).error().code, ErrorCode::kCorruption);
}

TEST(Png, DamagedExifIsCorruptionSinceItCouldTurnThePicture) {
  const Image picture = make_picture(3, 2);
  FileContent file = make_png({.width = 3, .height = 2, .rows = picture.rgb, .exif = make_exif(6)});
  file[find_text(file, "eXIf") + 4 + 18] ^= std::byte{1};
  EXPECT_EQ(decode(file).error().code, ErrorCode::kCorruption);
}

}  // namespace
}  // namespace afterimage
