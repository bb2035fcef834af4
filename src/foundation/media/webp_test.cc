// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "foundation/media/decode.h"
#include "foundation/media/testing/lies.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using namespace testing;
using namespace std::chrono_literals;

Result<Image> decode(FileContent file) {
  return decode_image(media_item(Modality::kImage, std::move(file)));
}
Result<std::vector<Frame>> play(FileContent file) {
  return decode_video(media_item(Modality::kVideo, std::move(file)));
}

TEST(Webp, LosslessGivesBackThePixels) {
  for (const std::uint32_t side : {1U, 2U, 17U}) {
    const Image picture = make_picture(side, side + 1);
    const auto image = decode(make_webp(picture));
    ASSERT_TRUE(image.has_value()) << to_string(image.error());
    EXPECT_EQ(image->width, side);
    EXPECT_EQ(image->height, side + 1);
    EXPECT_EQ(image->rgb, picture.rgb);
  }
}

TEST(Webp, LossyGivesBackAPlainColour) {
  const auto image = decode(make_webp_lossy(make_plain(20, 10, 120, 120, 120), 90));
  ASSERT_TRUE(image.has_value());
  ASSERT_EQ(image->rgb.size(), 3U * 20 * 10);
  for (const std::uint8_t level : image->rgb) ASSERT_NEAR(level, 120, 3);
}

TEST(Webp, AlphaIsCompositedOverWhite) {
  const auto image = decode(make_webp_rgba(3, 1, {0, 100, 200, 255, 0, 100, 200, 51, 0, 0, 0, 0}));
  ASSERT_TRUE(image.has_value());
  EXPECT_EQ(image->rgb, (std::vector<std::uint8_t>{0, 100, 200, 204, 224, 244, 255, 255, 255}));
}

TEST(Webp, DecodesAnAnimationsFramesAndTimes) {
  const std::vector<Image> pictures = {make_picture(6, 4, 1), make_picture(6, 4, 2),
                                       make_picture(6, 4, 3)};
  const auto frames = play(make_webp_animation(pictures, 40));
  ASSERT_TRUE(frames.has_value()) << to_string(frames.error());
  ASSERT_EQ(frames->size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*frames)[i].image.rgb, pictures[i].rgb) << i;
    EXPECT_EQ((*frames)[i].at, i * 40ms) << i;
  }
}

TEST(Webp, AnAnimationOfOneFrameIsAlsoAnImage) {
  const Image picture = make_picture(6, 4);
  const FileContent file = make_webp_animation({picture}, 40);
  ASSERT_TRUE(decode(file).has_value());
  EXPECT_EQ(decode(file)->rgb, picture.rgb);
  EXPECT_EQ(play(file)->at(0).image.rgb, picture.rgb);
}

TEST(Webp, AStillIsAlsoAVideoOfOneFrame) {
  const Image picture = make_picture(6, 4);
  const auto frames = play(make_webp(picture));
  ASSERT_TRUE(frames.has_value());
  ASSERT_EQ(frames->size(), 1U);
  EXPECT_EQ(frames->at(0).image.rgb, picture.rgb);
}

TEST(Webp, DamagedPixelsAreCorruption) {
  FileContent file = make_webp(make_picture(40, 40));
  for (std::size_t i = file.size() / 2; i < file.size(); ++i) file[i] = std::byte{0};
  EXPECT_EQ(decode(file).error().code, ErrorCode::kCorruption);
}

}  // namespace
}  // namespace afterimage
