// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "foundation/media/decode.h"
#include "foundation/media/testing/lies.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using namespace testing;
using ::testing::HasSubstr;

Result<Image> decode_picture(FileContent file) {
  return decode_image(media_item(Modality::kImage, std::move(file), "photo"));
}

/// Expects an image of one colour, within rounding.
void expect_plain(const Image& image, std::vector<int> rgb, const char* name) {
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    ASSERT_LE(std::abs(image.rgb[i] - rgb[i % 3]), 3) << name << " at " << i;
  }
}

std::vector<std::uint8_t> repeated(std::vector<std::uint8_t> pixel, std::size_t count) {
  std::vector<std::uint8_t> all;
  for (std::size_t i = 0; i < count; ++i) all.insert(all.end(), pixel.begin(), pixel.end());
  return all;
}

TEST(Jpeg, DecodesEveryVariantToTheSameColour) {
  const auto content = [](int channels, std::vector<std::uint8_t> pixel) {
    return JpegContent{.width = 19,
                       .height = 11,
                       .channels = channels,
                       .samples = repeated(std::move(pixel), 19 * 11)};
  };
  JpegContent progressive = content(3, {200, 30, 90});
  progressive.progressive = true;
  JpegContent arithmetic = content(3, {200, 30, 90});
  arithmetic.arithmetic = true;
  JpegContent restarts = content(3, {200, 30, 90});
  restarts.restart_rows = 1;
  const struct {
    const char* name;
    JpegContent content;
    std::vector<int> expected;
  } kCases[] = {
      {"colour", content(3, {200, 30, 90}), {200, 30, 90}},
      {"grey", content(1, {77}), {77, 77, 77}},
      {"progressive", progressive, {200, 30, 90}},
      {"arithmetic", arithmetic, {200, 30, 90}},
      {"restart markers", restarts, {200, 30, 90}},
      // Inks inverted as Adobe stores them: 255 is none, black 255 is none.
      {"CMYK red", content(4, {255, 0, 0, 255}), {255, 0, 0}},
      {"CMYK half black", content(4, {255, 255, 255, 128}), {128, 128, 128}},
      {"CMYK teal at half black", content(4, {0, 200, 100, 128}), {0, 100, 50}},
  };
  for (const auto& c : kCases) {
    const auto image = decode_picture(make_jpeg(c.content));
    ASSERT_TRUE(image.has_value()) << c.name << ": " << to_string(image.error());
    EXPECT_EQ(image->width, 19U) << c.name;
    EXPECT_EQ(image->height, 11U) << c.name;
    expect_plain(*image, c.expected, c.name);
  }
}

TEST(Jpeg, TheSameFileGivesTheSamePixels) {
  const FileContent file = make_jpeg(make_picture(33, 17), 75);
  EXPECT_EQ(decode_picture(file)->rgb, decode_picture(file)->rgb);
}

TEST(Jpeg, ABodyTooSmallForItsSizeIsCorruptionAndNotAHalfGreyPicture) {
  for (const FileContent& file : {jpeg_claiming(16, 32), jpeg_claiming(16'384, 3'900)}) {
    const auto image = decode_picture(file);
    ASSERT_FALSE(image.has_value());
    EXPECT_EQ(image.error().code, ErrorCode::kCorruption) << image.error().message;
    EXPECT_THAT(image.error().message, HasSubstr("photo: row "));
  }
}

/// The offsets of a JPEG's scans.
std::vector<std::size_t> scans_of(const FileContent& file) {
  std::vector<std::size_t> scans;
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] == std::byte{0xFF} && file[i + 1] == std::byte{0xDA}) scans.push_back(i);
  }
  return scans;
}

TEST(Jpeg, AFileThatEndsBetweenScansIsCorruptionAndNotABlurredOrGreyPicture) {
  const Image picture = make_picture(32, 32);
  JpegContent progressive{.width = 32, .height = 32, .samples = picture.rgb, .progressive = true};
  JpegContent separate{.width = 32, .height = 32, .samples = picture.rgb, .separate_scans = true};
  for (const FileContent& file : {make_jpeg(progressive), make_jpeg(separate)}) {
    ASSERT_TRUE(decode_picture(file).has_value());
    const std::vector<std::size_t> scans = scans_of(file);
    ASSERT_GE(scans.size(), 3U);
    for (const std::size_t scan : scans) {
      EXPECT_EQ(decode_picture(cut_to(file, scan)).error().code, ErrorCode::kCorruption) << scan;
    }
  }
}

TEST(Jpeg, RefusesThousandsOfScans) {
  const Image picture = make_picture(16, 16);
  const FileContent file =
      make_jpeg({.width = 16, .height = 16, .samples = picture.rgb, .separate_scans = true});
  const auto last = static_cast<std::ptrdiff_t>(scans_of(file).back());
  FileContent endless = cut_to(file, file.size() - 2);
  for (int i = 0; i < 5000; ++i) endless.insert(endless.end(), file.begin() + last, file.end() - 2);
  const auto image = decode_picture(endless);
  ASSERT_FALSE(image.has_value());
  EXPECT_EQ(image.error().message, "photo: more than 200 scans");
}

TEST(Jpeg, BytesBetweenSegmentsAreHarmless) {
  const FileContent file = make_jpeg(make_picture(16, 16));
  const auto tables = static_cast<std::ptrdiff_t>(find_text(file, "\xFF\xDB"));
  const FileContent stray = text_file("abc");
  FileContent padded(file.begin(), file.begin() + tables);
  padded.insert(padded.end(), stray.begin(), stray.end());
  padded.insert(padded.end(), file.begin() + tables, file.end());
  ASSERT_TRUE(decode_picture(padded).has_value());
  EXPECT_EQ(decode_picture(padded)->rgb, decode_picture(file)->rgb);
}

}  // namespace
}  // namespace afterimage
