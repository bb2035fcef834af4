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

// 0 black, 1 red, 2 green, 3 blue; frames below are spelled in these, '.' is white.
const std::vector<std::uint8_t> kPalette = {0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255};

std::string spell(const Image& image) {
  std::string text;
  for (std::size_t i = 0; i + 3 <= image.rgb.size(); i += 3) {
    const std::uint32_t rgb = image.rgb[i] * 65'536U + image.rgb[i + 1] * 256U + image.rgb[i + 2];
    text += rgb == 0          ? '0'
            : rgb == 0xFF0000 ? '1'
            : rgb == 0x00FF00 ? '2'
            : rgb == 0x0000FF ? '3'
            : rgb == 0xFFFFFF ? '.'
                              : '?';
  }
  return text;
}

Result<std::vector<Frame>> play(const std::vector<GifFrame>& frames, std::uint32_t width = 4,
                                std::uint32_t height = 2) {
  return decode_video(media_item(Modality::kVideo, make_gif(width, height, kPalette, frames)));
}

std::vector<std::string> spell(const Result<std::vector<Frame>>& frames) {
  if (!frames) return {to_string(frames.error())};
  std::vector<std::string> texts;
  for (const Frame& frame : *frames) texts.push_back(spell(frame.image));
  return texts;
}

const GifFrame kWholeRed{.width = 4, .height = 2, .indices = {1, 1, 1, 1, 1, 1, 1, 1}};

GifFrame small(std::uint8_t index, int disposal, std::uint32_t left = 1) {
  return {.left = left,
          .top = 0,
          .width = 2,
          .height = 1,
          .indices = {index, index},
          .disposal = disposal};
}

TEST(Gif, FramesAreComposedAsAPlayerShowsThem) {
  using Texts = std::vector<std::string>;
  GifFrame veil = small(2, 0);
  veil.indices = {2, 3};
  veil.transparent = 3;
  const struct {
    const char* name;
    std::vector<GifFrame> frames;
    Texts expected;
  } kCases[] = {
      {"one frame", {kWholeRed}, {"11111111"}},
      {"a small first frame leaves the rest white", {small(2, 0)}, {".22....."}},
      {"a small frame is laid over the one before",
       {kWholeRed, small(2, 0)},
       {"11111111", "12211111"}},
      {"transparent pixels let it through", {kWholeRed, veil}, {"11111111", "12111111"}},
      {"keep", {kWholeRed, small(2, 1), small(3, 1, 2)}, {"11111111", "12211111", "12331111"}},
      {"clear", {kWholeRed, small(2, 2), small(3, 1, 2)}, {"11111111", "12211111", "1.331111"}},
      {"as before", {kWholeRed, small(2, 3), small(3, 1, 2)}, {"11111111", "12211111", "11331111"}},
      {"as before, first of all", {small(2, 3), small(3, 1, 2)}, {".22.....", "..33...."}},
  };
  for (const auto& c : kCases) EXPECT_EQ(spell(play(c.frames)), c.expected) << c.name;
}

TEST(Gif, InterlacedRowsAreReordered) {
  for (std::uint32_t height = 1; height <= 17; ++height) {
    GifFrame frame{.width = 1, .height = height};
    for (std::uint32_t y = 0; y < height; ++y) {
      frame.indices.push_back(static_cast<std::uint8_t>(y % 4));
    }
    const auto plain = spell(play({frame}, 1, height));
    frame.interlaced = true;
    EXPECT_EQ(spell(play({frame}, 1, height)), plain) << height;
  }
}

TEST(Gif, FramesAppearWhenThoseBeforeHaveBeenShown) {
  GifFrame slow = kWholeRed;
  slow.delay_cs = 25;
  GifFrame hasty = kWholeRed;
  hasty.delay_cs = 0;  // as browsers: a tenth of a second
  const auto frames = play({slow, hasty, slow, slow});
  ASSERT_TRUE(frames.has_value());
  const std::vector<Duration> expected = {0ms, 250ms, 350ms, 600ms};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ((*frames)[i].at, expected[i]) << i;
}

TEST(Gif, AStillIsAnImage) {
  const Image picture = make_picture(9, 5);
  const auto image = decode_image(media_item(Modality::kImage, make_gif({picture}, 10)));
  ASSERT_TRUE(image.has_value()) << to_string(image.error());
  EXPECT_EQ(image->rgb, picture.rgb);
}

TEST(Gif, AColourOutsideThePaletteIsCorruption) {
  // Four colours need two bits; the header is then changed to promise only two colours.
  FileContent file = make_gif(4, 2, kPalette, {small(3, 0)});
  constexpr std::size_t kFlags = 10;
  constexpr std::size_t kColours = 13;
  file = with_little(std::move(file), kFlags, 0x80, 1);
  file.erase(file.begin() + kColours + 6, file.begin() + kColours + 12);
  const auto frames = decode_video(media_item(Modality::kVideo, file));
  ASSERT_FALSE(frames.has_value());
  EXPECT_EQ(frames.error().code, ErrorCode::kCorruption) << frames.error().message;
}

}  // namespace
}  // namespace afterimage
