// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/identity.h"
#include "foundation/media/decode.h"
#include "foundation/media/probe.h"
#include "testing/media_files.h"

// Images that other systems confused, as real files: by their bytes (content digest) and, where an
// engine sees only pixels, by their decoded content (decoded digest).
namespace afterimage {
namespace {

using testing::FileContent;
using testing::media_item;

const ModelIdentity kModel{
    .model = "m", .weights_epoch = "1", .encoder = "e", .adapter = "", .chat_template = "t"};
constexpr Secret kRoot{std::byte{1}, std::byte{2}};

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
  EXPECT_EQ(info.width, 16U) << "an image rotated by 90 degrees is as wide as it was high";
}

TEST(IdentityTraps, SamePixelsInTwoFormatsShareTheDecodedDigestOnly) {
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
  EXPECT_NE(digest(slow), digest(fast)) << "the same samples at another speed";
}

// With 16-bit identities, about 170 pairs of 5,000 images collide; with 64-bit ones, none do. Each
// 64-bit part of our 256-bit keys is compared here.
TEST(IdentityTraps, FiveThousandImagesHaveDistinctKeyParts) {
  const Namespace space = Namespace::of(kModel, TenantId("a"), kRoot).value();
  std::array<std::set<std::uint64_t>, 4> parts;
  std::set<std::uint16_t> sixteen;
  constexpr std::size_t kPictures = 5'000;
  for (std::size_t i = 0; i < kPictures; ++i) {
    Image picture = testing::make_plain(2, 2, 0, 0, 0);
    picture.rgb[0] = static_cast<std::uint8_t>(i);
    picture.rgb[1] = static_cast<std::uint8_t>(i >> 8U);
    const MediaItem item = media_item(Modality::kImage, testing::make_png(picture));
    const EncoderKey key = space.encoder_key(item, content_digest(item), {});
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::uint64_t word = 0;
      std::memcpy(&word, key.bytes.data() + 8 * part, sizeof word);
      parts[part].insert(word);
    }
    std::uint16_t half = 0;
    std::memcpy(&half, key.bytes.data(), sizeof half);
    sixteen.insert(half);
  }
  for (const auto& part : parts) EXPECT_EQ(part.size(), kPictures);
  EXPECT_LT(sixteen.size(), kPictures - 50) << "16 bits would not have been enough";
}

// CVE-2025-46722: hashing only the bytes of the pixels, without shape, format or dtype.
TEST(IdentityTraps, SameBytesWithAnotherShapeFormatOrTypeDiffer) {
  const std::vector<std::byte> data(3 * 30 * 100, std::byte{7});
  const Pixels one{.width = 30, .height = 100, .format = "rgb", .data = data};
  std::set<DecodedDigest> all{decoded_digest(one)};
  const auto add = [&](auto change) {
    Pixels other = one;
    change(other);
    all.insert(decoded_digest(other));
  };
  add([](Pixels& p) { std::swap(p.width, p.height); });
  add([](Pixels& p) { p.width = 3'000, p.height = 1; });
  add([](Pixels& p) { p.format = "bgr"; });
  add([](Pixels& p) { p.dtype = DType::kI8; });
  add([](Pixels& p) { p.dtype = DType::kF16, p.width = 15; });
  add([&](Pixels& p) { p.palette = std::span(data).first(3); });
  EXPECT_EQ(all.size(), 7U);
}

// Hashing only the first 64 KiB, or the first thousand characters, of a file.
TEST(IdentityTraps, FilesWithACommonPrefixDiffer) {
  for (const std::size_t same : {1'000U, 65'536U, 1'048'576U}) {
    std::vector<std::byte> one(same + 1, std::byte{1});
    std::vector<std::byte> other = one;
    other.back() = std::byte{2};
    const auto item = [](std::vector<std::byte> bytes) {
      return MediaItem{.modality = Modality::kImage,
                       .files = {std::make_shared<const std::vector<std::byte>>(std::move(bytes))}};
    };
    EXPECT_NE(content_digest(item(one)), content_digest(item(other))) << same;
  }
}

TEST(IdentityTraps, KeysDifferByModelAdapterTenantAndInstallation) {
  const MediaItem item =
      media_item(Modality::kImage, testing::make_png(testing::make_plain(8, 8, 1, 2, 3)));
  const ContentDigest digest = content_digest(item);
  std::set<EncoderKey> keys;
  std::size_t spaces = 0;
  const auto add = [&](const ModelIdentity& model, const std::string& tenant, const Secret& root) {
    keys.insert(Namespace::of(model, TenantId(tenant), root)
                    .value()
                    .encoder_key(item, digest, PreprocessRecipe()));
    ++spaces;
  };
  add(kModel, "a", kRoot);
  add(kModel, "b", kRoot);
  add(kModel, "", kRoot);
  ModelIdentity other = kModel;
  other.model = "another model of the same width";
  add(other, "a", kRoot);
  other = kModel;
  other.adapter = "an adapter";
  add(other, "a", kRoot);
  other = kModel;
  other.weights_epoch = "after a training step";
  add(other, "a", kRoot);
  Secret root = kRoot;
  root[31] ^= std::byte{1};
  add(kModel, "a", root);
  EXPECT_EQ(keys.size(), spaces);
}

}  // namespace
}  // namespace afterimage
