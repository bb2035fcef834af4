// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/ppm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "foundation/media/decode.h"
#include "foundation/media/probe.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using namespace testing;
using ::testing::ElementsAre;

FileContent bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
MediaItem ppm(const std::string& text) { return media_item(Modality::kImage, bytes_of(text)); }

TEST(Ppm, GivesBackThePixelsItWasMadeOf) {
  const std::vector<std::uint8_t> rgbx = {1, 2, 3, 99, 4, 5, 6, 99};
  const MediaItem item = media_item(Modality::kImage, ppm_of_rgbx(rgbx, 2, 1));
  EXPECT_EQ(sniff(*item.files[0]), FileFormat::kPpm);
  const Image image = decode_image(item).value();
  EXPECT_EQ(image.width, 2U);
  EXPECT_EQ(image.height, 1U);
  EXPECT_THAT(image.rgb, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Ppm, ACommentChangesTheFileAndNoPixel) {
  const std::vector<std::uint8_t> rgbx = {1, 2, 3, 99};
  const MediaItem plain = media_item(Modality::kImage, ppm_of_rgbx(rgbx, 1, 1));
  const MediaItem said = media_item(Modality::kImage, ppm_of_rgbx(rgbx, 1, 1, "page 2 of a file"));
  EXPECT_NE(*plain.files[0], *said.files[0]);
  EXPECT_EQ(decode_image(plain).value().rgb, decode_image(said).value().rgb);
  EXPECT_EQ(*said.files[0], bytes_of("P6\n# page 2 of a file\n1 1\n255\n\1\2\3"));
}

TEST(Ppm, EveryWhiteSpaceSeparatesAndNothingElse) {
  EXPECT_TRUE(decode_image(ppm("P6 1\t1\r255 abc")).has_value());
  const struct {
    const char* name;
    std::string file;
    ErrorCode code;
  } kCases[] = {
      {"no sizes", "P6\n", ErrorCode::kCorruption},
      {"one size", "P6\n1 ", ErrorCode::kCorruption},
      {"two comments", "P6\n# made by\n# us\n1 1\n255\nabc", ErrorCode::kCorruption},
      {"a comment without an end", "P6\n# made by", ErrorCode::kCorruption},
      {"a comment between numbers", "P6\n1 # made by\n1\n255\nabc", ErrorCode::kCorruption},
      {"a sign", "P6\n-1 1\n255\nabc", ErrorCode::kCorruption},
      {"two spaces", "P6\n1  1\n255\nabc", ErrorCode::kCorruption},
      {"16 bits", "P6\n1 1\n65535\nabcdef", ErrorCode::kCorruption},
      {"no end of the header", "P6\n1 1\n255", ErrorCode::kCorruption},
      {"a size beyond 32 bits", "P6\n4294967296 1\n255\nabc", ErrorCode::kCorruption},
      {"no pixels", "P6\n0 1\n255\n", ErrorCode::kCorruption},
      {"a byte missing", "P6\n1 1\n255\nab", ErrorCode::kCorruption},
      {"a byte more", "P6\n1 1\n255\nabcd", ErrorCode::kCorruption},
      {"a size of nothing that fits", "P6\n60000 60000\n255\nabc", ErrorCode::kLimitExceeded},
      {"many pixels in a few bytes", "P6\n8000 8000\n255\nabc", ErrorCode::kCorruption},
  };
  for (const auto& c : kCases) {
    const auto image = decode_image(ppm(c.file));
    ASSERT_FALSE(image.has_value()) << c.name;
    EXPECT_EQ(image.error().code, c.code) << c.name << ": " << to_string(image.error());
  }
}

}  // namespace
}  // namespace afterimage
