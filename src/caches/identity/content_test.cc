// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "afterimage/identity.h"

namespace afterimage {
namespace {

FileBytes file(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
}

std::vector<std::byte> filled(std::size_t size, unsigned value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

TEST(ContentDigest, IsPlainSha256OfTheFile) {
  // From FIPS 180-2; `sha256sum` prints the same.
  EXPECT_EQ(content_digest({.files = {file("abc")}}).hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(content_digest({.files = {file("")}}).hex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(ContentDigest, DoesNotDependOnTheFileName) {
  EXPECT_EQ(content_digest({.files = {file("abc")}, .name = "a.png"}),
            content_digest({.files = {file("abc")}, .name = "b.png"}));
}

TEST(ContentDigest, AFolderOfFramesMatchesItsGoldenDigest) {
  const MediaItem video{
      .modality = Modality::kVideo, .files = {file("abc"), file("")}, .frame_rate_mhz = 2000};
  EXPECT_EQ(content_digest(video).hex(),
            "cbacddc7525ef580b56c232726fb6c1d73b952ff3954e92cc9b1dee5a7c375ef");
}

TEST(ContentDigest, DependsOnFrameOrderBordersAndRate) {
  const auto video = [](std::vector<FileBytes> files, std::uint32_t rate) {
    return content_digest({.modality = Modality::kVideo, .files = files, .frame_rate_mhz = rate});
  };
  const ContentDigest base = video({file("ab"), file("c")}, 1000);
  EXPECT_NE(base, video({file("c"), file("ab")}, 1000)) << "order";
  EXPECT_NE(base, video({file("a"), file("bc")}, 1000)) << "borders";
  EXPECT_NE(base, video({file("ab"), file("c")}, 2000)) << "frame rate";
  EXPECT_NE(base, video({file("ab"), file("c"), file("")}, 1000)) << "count";
}

TEST(DecodedDigest, MatchesItsGoldenVectors) {
  const auto white = filled(6, 0xFF);
  EXPECT_EQ(decoded_digest(Pixels{.width = 2, .height = 1, .format = "rgb", .data = white}).hex(),
            "3f672dba24a45ae501a33442777fa952f8edb92757a156f59ac3a554aa68e743");
  const auto silence = filled(8, 0);
  EXPECT_EQ(decoded_digest(AudioSamples{.sample_rate_hz = 16'000, .data = silence}).hex(),
            "2fc37565835a06ba94a79dbdb109d58c399dd5ef53d65a546a8900dd899f2655");
}

// Seed 004 B13 and others hashed the data alone. Each row is a pair of different images that then
// collide.
TEST(DecodedDigest, CoversShapeFormatAndPalette) {
  const auto white = filled(24, 0xFF);
  const auto black_white = std::vector{std::byte{0}, std::byte{255}};
  const auto white_black = std::vector{std::byte{255}, std::byte{0}};
  const Pixels base{.width = 4, .height = 2, .format = "rgb", .data = white};
  const struct {
    const char* name;
    Pixels other;
  } kCases[] = {
      {"transposed white image", {.width = 2, .height = 4, .format = "rgb", .data = white}},
      {"alpha", {.width = 3, .height = 2, .format = "rgba", .data = white}},
      {"channel order", {.width = 4, .height = 2, .format = "bgr", .data = white}},
      {"dtype", {.width = 4, .height = 2, .format = "rgb", .dtype = DType::kI8, .data = white}},
  };
  for (const auto& c : kCases) EXPECT_NE(decoded_digest(base), decoded_digest(c.other)) << c.name;

  const auto indices = filled(4, 1);
  Pixels indexed{.width = 2, .height = 2, .format = "palette", .data = indices};
  indexed.palette = black_white;
  const DecodedDigest before = decoded_digest(indexed);
  indexed.palette = white_black;
  EXPECT_NE(decoded_digest(indexed), before) << "palette swap";
}

TEST(DecodedDigest, CoversSampleRateAndChannels) {
  const auto data = filled(16, 1);
  const DecodedDigest base = decoded_digest(AudioSamples{.sample_rate_hz = 16'000, .data = data});
  EXPECT_NE(base, decoded_digest(AudioSamples{.sample_rate_hz = 8'000, .data = data}));
  EXPECT_NE(base,
            decoded_digest(AudioSamples{.sample_rate_hz = 16'000, .channels = 2, .data = data}));
}

}  // namespace
}  // namespace afterimage
