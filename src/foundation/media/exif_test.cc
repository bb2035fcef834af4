// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "foundation/media/decode.h"
#include "foundation/media/formats.h"
#include "foundation/media/testing/lies.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using namespace testing;

/// An image with one grey level per letter.
Image picture_of(std::uint32_t width, std::uint32_t height, std::string_view letters) {
  Image image{.width = width, .height = height, .rgb = {}};
  for (const char c : letters) {
    const auto level = static_cast<std::uint8_t>(40 * (c - 'a'));
    image.rgb.insert(image.rgb.end(), {level, level, level});
  }
  return image;
}

// Stored as
//   a b c
//   d e f
constexpr struct {
  std::uint32_t orientation;
  std::uint32_t width, height;
  std::string_view upright;
} kTurns[] = {
    {1, 3, 2, "abcdef"}, {2, 3, 2, "cbafed"}, {3, 3, 2, "fedcba"}, {4, 3, 2, "defabc"},
    {5, 2, 3, "adbecf"}, {6, 2, 3, "daebfc"}, {7, 2, 3, "fcebda"}, {8, 2, 3, "cfbead"},
};

TEST(Exif, AllEightOrientationsAreTurnedUpright) {
  const Image stored = picture_of(3, 2, "abcdef");
  for (const auto& turn : kTurns) {
    const Image expected = picture_of(turn.width, turn.height, turn.upright);
    const FileContent kFiles[] = {
        make_png({.width = 3,
                  .height = 2,
                  .rows = stored.rgb,
                  .exif = make_exif(turn.orientation, /*big_endian=*/true)}),
        make_webp_exif(stored, turn.orientation),
    };
    for (const FileContent& file : kFiles) {
      const auto image = decode_image(media_item(Modality::kImage, file));
      ASSERT_TRUE(image.has_value()) << to_string(image.error());
      EXPECT_EQ(image->width, expected.width) << turn.orientation;
      EXPECT_EQ(image->height, expected.height) << turn.orientation;
      EXPECT_EQ(image->rgb, expected.rgb) << turn.orientation;
    }
  }
}

TEST(Exif, AJpegsPixelsAreRotatedAndNotOnlyItsSize) {
  // Blocks of 16 pixels, so that compression preserves each letter's level.
  const Image stored = resize(picture_of(3, 2, "abcdef"), 48, 32);
  for (const auto& turn : kTurns) {
    const auto plain = decode_image(media_item(Modality::kImage, make_jpeg(stored, 90, 0)));
    const auto turned =
        decode_image(media_item(Modality::kImage, make_jpeg(stored, 90, turn.orientation)));
    ASSERT_TRUE(plain.has_value() && turned.has_value());
    EXPECT_EQ(turned->rgb, turn_upright(*plain, static_cast<Orientation>(turn.orientation)).rgb)
        << turn.orientation;
  }
}

TEST(Exif, BrokenMetadataIsIgnored) {
  const FileContent good = make_exif(6);
  const auto kWhole = static_cast<std::uint32_t>(good.size());
  constexpr std::size_t kDirectory = 4;
  constexpr std::size_t kCount = 8;
  constexpr std::size_t kType = 12;
  constexpr std::size_t kValue = 18;
  const struct {
    const char* name;
    FileContent tiff;
    Orientation expected;
  } kCases[] = {
      {"nothing", {}, Orientation::kUpright},
      {"not TIFF", text_file("XX*\0\0\0\0\0"), Orientation::kUpright},
      {"whole", good, Orientation::kTurnClockwise},
      {"big-endian", make_exif(6, true), Orientation::kTurnClockwise},
      {"many entries promised", with_little(good, kCount, 0xFFFF, 2), Orientation::kTurnClockwise},
      {"no entries", with_little(good, kCount, 0, 2), Orientation::kUpright},
      {"directory beyond the end", with_little(good, kDirectory, 0xFFFF'FFFF, 4),
       Orientation::kUpright},
      {"directory at the end", with_little(good, kDirectory, kWhole, 4), Orientation::kUpright},
      {"wrong type", with_little(good, kType, 4, 2), Orientation::kUpright},
      {"orientation 0", with_little(good, kValue, 0, 2), Orientation::kUpright},
      {"orientation 9", with_little(good, kValue, 9, 2), Orientation::kUpright},
  };
  for (const auto& c : kCases) EXPECT_EQ(exif_orientation(c.tiff), c.expected) << c.name;
  for (std::size_t size = 0; size < kValue + 4; ++size) {
    EXPECT_EQ(exif_orientation(cut_to(good, size)), Orientation::kUpright) << size;
  }
}

}  // namespace
}  // namespace afterimage
