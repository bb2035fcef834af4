// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/vision_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engines/reference/kernel.h"
#include "engines/reference/testing/same_bits.h"

namespace afterimage {
namespace {

constexpr std::size_t kVisionWidth = 32;

VisionEncoder vision(std::uint32_t planes, const Kernels& kernels = *supported_kernels().front()) {
  VisionOptions options = ReferenceOptions::tiny().vision;
  options.stack.layers = 4;
  options.deepstack_planes = planes;
  return {options, kVisionWidth, kernels, Rng(1)};
}

Image noise(std::uint32_t width, std::uint32_t height) {
  Image image{
      .width = width, .height = height, .rgb = std::vector<std::uint8_t>(3ULL * width * height)};
  Rng rng(9);
  for (auto& byte : image.rgb) byte = static_cast<std::uint8_t>(rng.below(256));
  return image;
}

TEST(VisionEncoder, ReturnsOneRowPerCellAndOneMatrixPerPlane) {
  for (const std::uint32_t planes : {0U, 1U, 3U}) {
    const VisionEncoder encoder = vision(planes);
    const CellGrid grid{.columns = 4, .rows = 3};
    const auto result = encoder.encode(noise(encoder.pixels(4), encoder.pixels(3)), grid);
    ASSERT_EQ(result.size(), 1 + planes);
    for (const Matrix& matrix : result) {
      EXPECT_EQ(matrix.rows(), 12U);
      EXPECT_EQ(matrix.columns(), kVisionWidth);
    }
    for (std::size_t i = 1; i < result.size(); ++i) {
      EXPECT_FALSE(same_bits(result[0], result[i])) << i;
    }
  }
}

TEST(VisionEncoder, EveryPixelMatters) {
  const VisionEncoder encoder = vision(0);
  const CellGrid grid{.columns = 2, .rows = 1};
  const Image plain = noise(encoder.pixels(2), encoder.pixels(1));
  const auto expected = encoder.encode(plain, grid);
  EXPECT_TRUE(same_bits(expected[0], encoder.encode(plain, grid)[0])) << "the same image twice";
  for (std::size_t at = 0; at < plain.rgb.size(); at += 7) {
    Image changed = plain;
    changed.rgb[at] ^= 0x80U;
    ASSERT_FALSE(same_bits(expected[0], encoder.encode(changed, grid)[0])) << "byte " << at;
  }
}

TEST(VisionEncoder, EveryPixelOfBothFramesOfASliceMatters) {
  const VisionEncoder encoder = vision(1);
  const CellGrid grid{.columns = 2, .rows = 1};
  const Image both = noise(encoder.pixels(2), 2 * encoder.pixels(1));
  const auto expected = encoder.encode_slice(both, grid);
  ASSERT_EQ(expected.size(), 2U);
  EXPECT_EQ(expected[0].rows(), 2U) << "two frames become one grid";
  for (std::size_t at = 0; at < both.rgb.size(); at += 7) {
    Image changed = both;
    changed.rgb[at] ^= 0x80U;
    ASSERT_FALSE(same_bits(expected[0], encoder.encode_slice(changed, grid)[0])) << "byte " << at;
  }
  Image swapped = both;
  std::rotate(swapped.rgb.begin(), swapped.rgb.begin() + std::ssize(swapped.rgb) / 2,
              swapped.rgb.end());
  EXPECT_FALSE(same_bits(expected[0], encoder.encode_slice(swapped, grid)[0])) << "frame order";
}

TEST(VisionEncoder, PatchPositionsMatter) {
  const VisionEncoder encoder = vision(0);
  const std::uint32_t side = encoder.pixels(1);
  Image image{
      .width = 2 * side, .height = side, .rgb = std::vector<std::uint8_t>(6ULL * side * side)};
  const auto black = encoder.encode(image, {.columns = 2, .rows = 1});
  EXPECT_FALSE(std::equal(black[0].row(0), black[0].row(1), black[0].row(1)));
  std::swap(image.width, image.height);
  const auto turned = encoder.encode(image, {.columns = 1, .rows = 2});
  EXPECT_FALSE(same_bits(black[0], turned[0])) << "same bytes, other shape";
}

TEST(VisionEncoder, AllFusedKernelsGiveTheSameBits) {
  std::vector<Matrix> results;
  for (const Kernels* kernels : supported_kernels()) {
    if (!kernels->fused) continue;
    const VisionEncoder encoder = vision(0, *kernels);
    const Image image = noise(encoder.pixels(4), encoder.pixels(4));
    results.push_back(encoder.encode(image, {.columns = 4, .rows = 4})[0]);
    EXPECT_TRUE(same_bits(results.front(), results.back())) << kernels->name;
  }
}

}  // namespace
}  // namespace afterimage
