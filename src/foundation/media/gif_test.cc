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
const std::vector<std::uint8_t> kFourColours = {0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255};

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
  return decode_video(media_item(Modality::kVideo, make_gif(width, height, kFourColours, frames)));
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

// A cut between two frames cannot be told from it, so that it is no animation.
TEST(Gif, AFileWithoutATrailerIsAnImage) {
  const FileContent whole = make_gif({make_picture(4, 3, 1), make_picture(4, 3, 2)}, 10);
  const FileContent file = cut_to(whole, whole.size() - 1);
  const auto image = decode_image(media_item(Modality::kImage, file));
  ASSERT_TRUE(image.has_value()) << to_string(image.error());
  EXPECT_EQ(image->rgb, make_picture(4, 3, 1).rgb);
  const auto frames = decode_video(media_item(Modality::kVideo, file, "wave.gif"));
  ASSERT_FALSE(frames.has_value());
  EXPECT_EQ(frames.error().message, "wave.gif: a GIF that ends before its trailer");
}

// The sizes are those that Pillow and Chromium give. What no frame covers is white, as in browsers: Pillow gives
// it the first colour of the palette.
TEST(Gif, AFirstFrameBeyondTheScreenEnlargesIt) {
  const struct {
    const char* name;
    std::uint32_t screen_width, screen_height, left;
    std::uint32_t width, height;
    const char* expected;
  } kCases[] = {
      {"wider", 3, 2, 0, 4, 2, "11111111"},
      {"lower", 4, 1, 0, 4, 2, "11111111"},
      {"beside", 4, 3, 2, 6, 3, "..1111..1111......"},
      {"no screen", 0, 0, 0, 4, 2, "11111111"},
      {"no width", 0, 2, 0, 4, 2, "11111111"},
  };
  for (const auto& c : kCases) {
    FileContent file = make_gif(4, 2, kFourColours, {kWholeRed});
    file = with_little(std::move(file), 6, c.screen_width, 2);
    file = with_little(std::move(file), 8, c.screen_height, 2);
    const std::size_t frame = find_text(file, std::string_view(",\0\0\0\0", 5));
    file = with_little(std::move(file), frame + 1, c.left, 2);
    const auto image = decode_image(media_item(Modality::kImage, file));
    ASSERT_TRUE(image.has_value()) << c.name << ": " << to_string(image.error());
    EXPECT_EQ(image->width, c.width) << c.name;
    EXPECT_EQ(image->height, c.height) << c.name;
    EXPECT_EQ(spell(*image), c.expected) << c.name;
    EXPECT_EQ(spell(decode_video(media_item(Modality::kVideo, file))),
              (std::vector<std::string>{c.expected}))
        << c.name;
  }
}

// Players clip it, Pillow enlarges the picture from there on.
TEST(Gif, ALaterFrameBeyondTheScreenIsNoAnimation) {
  FileContent file = make_gif(4, 2, kFourColours, {small(2, 0), kWholeRed});
  file = with_little(std::move(file), 6, 3, 2);
  const auto image = decode_image(media_item(Modality::kImage, file));
  ASSERT_TRUE(image.has_value()) << to_string(image.error());
  EXPECT_EQ(spell(*image), ".22...");
  const auto frames = decode_video(media_item(Modality::kVideo, file, "wave.gif"));
  ASSERT_FALSE(frames.has_value());
  EXPECT_EQ(frames.error().message, "wave.gif: frame 2 exceeds the screen of 3x2 pixels");
}

TEST(Gif, AColourOutsideThePaletteIsCorruption) {
  // Four colours need two bits; the header is then changed to promise only two colours.
  FileContent file = make_gif(4, 2, kFourColours, {small(3, 0)});
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
