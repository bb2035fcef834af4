// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "afterimage/identity/content.h"
#include "afterimage/media/decode.h"
#include "afterimage/media/probe.h"
#include "afterimage/testing/media_files.h"

// Pictures that other systems took for one another, as real files: by their bytes (content digest)
// and, where an engine only ever sees pixels, by what was decoded (decoded digest).
namespace afterimage {
namespace {

using testing::FileContent;
using testing::media_item;

ContentDigest content(const FileContent& file, Modality modality = Modality::kImage) {
  return content_digest(media_item(modality, file));
}

DecodedDigest decoded(const FileContent& file) {
  const Image image = decode_image(media_item(Modality::kImage, file)).value();
  return decoded_digest(Pixels{.width = image.width,
                               .height = image.height,
                               .format = "rgb",
                               .data = std::as_bytes(std::span(image.rgb))});
}

void expect_different(const FileContent& a, const FileContent& b) {
  EXPECT_NE(content(a), content(b));
  EXPECT_NE(decoded(a), decoded(b));
}

TEST(IdentityTraps, TransposedWhiteImages) {
  expect_different(testing::make_png(testing::make_plain(40, 20, 255, 255, 255)),
                   testing::make_png(testing::make_plain(20, 40, 255, 255, 255)));
}

TEST(IdentityTraps, PaletteSwap) {
  const std::vector<std::uint8_t> indices = {0, 1, 1, 0};
  expect_different(testing::make_png_palette(2, 2, indices, {255, 0, 0, 0, 0, 255}),
                   testing::make_png_palette(2, 2, indices, {0, 0, 255, 255, 0, 0}));
}

TEST(IdentityTraps, Alpha) {
  const std::vector<std::uint8_t> opaque = {10, 20, 30, 255, 10, 20, 30, 255};
  const std::vector<std::uint8_t> clear = {10, 20, 30, 0, 10, 20, 30, 0};
  expect_different(testing::make_png_rgba(2, 1, opaque), testing::make_png_rgba(2, 1, clear));
}

TEST(IdentityTraps, ExifOrientation) {
  const Image picture = testing::make_picture(24, 16);
  const FileContent upright = testing::make_jpeg(picture, 90, 1);
  const FileContent turned = testing::make_jpeg(picture, 90, 6);
  expect_different(upright, turned);
  const MediaInfo info = probe(media_item(Modality::kImage, turned)).value();
  EXPECT_EQ(info.width, 16U) << "a picture turned by a quarter is as wide as it was high";
}

TEST(IdentityTraps, V15_TheSamePixelsInTwoFilesHaveTwoContentDigestsAndOneDecodedDigest) {
  const Image picture = testing::make_picture(24, 16);
  const FileContent jpeg = testing::make_jpeg(picture, 90);
  const Image as_decoded = decode_image(media_item(Modality::kImage, jpeg)).value();
  const FileContent png = testing::make_png(as_decoded);
  EXPECT_NE(content(jpeg), content(png));
  EXPECT_EQ(decoded(jpeg), decoded(png));
}

TEST(IdentityTraps, FrameRate) {
  const std::vector<Image> frames = {testing::make_plain(8, 8, 255, 0, 0),
                                     testing::make_plain(8, 8, 0, 255, 0)};
  const FileContent file = testing::make_png(frames[0]);
  EXPECT_NE(content_digest(testing::folder_item({file, file}, 1'000)),
            content_digest(testing::folder_item({file, file}, 2'000)));
}

TEST(IdentityTraps, SampleRate) {
  const std::vector<float> tone(400, 0.25F);
  const FileContent slow = testing::make_wav(tone, 8'000);
  const FileContent fast = testing::make_wav(tone, 16'000);
  EXPECT_NE(content(slow, Modality::kAudio), content(fast, Modality::kAudio));
  const auto digest = [](const FileContent& file) {
    const Samples samples = decode_audio(media_item(Modality::kAudio, file)).value();
    return decoded_digest(AudioSamples{.sample_rate_hz = samples.sample_rate_hz,
                                       .data = std::as_bytes(std::span(samples.mono))});
  };
  EXPECT_NE(digest(slow), digest(fast)) << "the same samples, played at another speed";
}

}  // namespace
}  // namespace afterimage
