// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "foundation/media/decode.h"
#include "testing/media_files.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace testing;
using Levels = std::vector<int>;

Image grey(std::uint32_t width, std::uint32_t height, const Levels& levels) {
  Image image{.width = width, .height = height, .rgb = {}};
  for (const int level : levels) {
    image.rgb.insert(image.rgb.end(), 3, static_cast<std::uint8_t>(level));
  }
  return image;
}

Levels levels_of(const Image& image) {
  Levels levels;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) levels.push_back(image.rgb[i]);
  return levels;
}

// 49 times the nearest double to 1/49 is less than 1.
TEST(Resize, AQuotientThatIsNearlyWholeIsWhole) {
  Levels levels(49, 0);
  std::fill_n(levels.begin(), 25, 1);
  EXPECT_EQ(levels_of(resize(grey(7, 7, levels), 1, 1)), Levels{1});
}

TEST(Resize, AveragesTheCoveredAreaDownAndInterpolatesUp) {
  const struct {
    const char* name;
    Image from;
    std::uint32_t width, height;
    Levels expected;
  } kCases[] = {
      {"same size", grey(2, 2, {1, 2, 3, 4}), 2, 2, {1, 2, 3, 4}},
      {"one pixel up", grey(1, 1, {9}), 3, 2, {9, 9, 9, 9, 9, 9}},
      {"all into one", grey(2, 2, {0, 100, 100, 200}), 1, 1, {100}},
      {"halves round up", grey(2, 1, {0, 255}), 1, 1, {128}},
      {"three into two share the middle", grey(3, 1, {0, 90, 240}), 2, 1, {30, 190}},
      {"two into four", grey(2, 1, {0, 255}), 4, 1, {0, 64, 191, 255}},
      {"down across, up along", grey(2, 2, {0, 20, 100, 140}), 1, 4, {10, 38, 93, 120}},
  };
  for (const auto& c : kCases) {
    const Image image = resize(c.from, c.width, c.height);
    EXPECT_EQ(image.width, c.width) << c.name;
    EXPECT_EQ(image.height, c.height) << c.name;
    EXPECT_EQ(levels_of(image), c.expected) << c.name;
  }
}

TEST(Resize, ToZeroSizeIsABrokenInvariant) {
  EXPECT_DEATH(resize(grey(1, 1, {0}), 0, 1), "broken invariant");
}

/// Weight of stored pixel `j` in new pixel `i`, computed from the definition.
double weight(std::uint32_t i, std::uint32_t j, double from, double to) {
  if (to < from) {
    const double covered =
        std::min((i + 1) * from / to, j + 1.0) - std::max(i * from / to, static_cast<double>(j));
    return std::max(0.0, covered) * to / from;
  }
  const double centre = std::clamp((i + 0.5) * from / to - 0.5, 0.0, from - 1);
  return std::max(0.0, 1 - std::abs(centre - j));
}

TEST(ResizeProperty, AgreesWithItsDefinition) {
  for_each_seed(60, [](Rng& rng) {
    const auto side = [&rng] { return static_cast<std::uint32_t>(1 + rng.below(12)); };
    const Image from = make_picture(side(), side(), static_cast<std::uint32_t>(rng.below(99)));
    const Image to = resize(from, side(), side());
    for (std::uint32_t y = 0; y < to.height; ++y) {
      for (std::uint32_t x = 0; x < to.width; ++x) {
        double sum = 0;
        for (std::uint32_t j = 0; j < from.height; ++j) {
          for (std::uint32_t i = 0; i < from.width; ++i) {
            sum += weight(x, i, from.width, to.width) * weight(y, j, from.height, to.height) *
                   from.rgb[3 * (j * from.width + i)];
          }
        }
        ASSERT_NEAR(to.rgb[3 * (y * to.width + x)], sum, 0.5 + 1e-9);
      }
    }
  });
}

// Rounding happens once, and exactly, however large the weights are.
TEST(ResizeProperty, AnImageOfOneColourKeepsIt) {
  for_each_seed(40, [](Rng& rng) {
    const auto side = [&rng] { return static_cast<std::uint32_t>(1 + rng.below(3000)); };
    const std::uint32_t thin = 1 + static_cast<std::uint32_t>(rng.below(3));
    const int level = static_cast<int>(rng.below(256));
    const std::uint32_t width = side();
    const Image from = grey(width, thin, Levels(std::size_t{width} * thin, level));
    const Image to = resize(from, side(), thin + 1);
    ASSERT_EQ(levels_of(to), Levels(to.rgb.size() / 3, level));
  });
}

}  // namespace
}  // namespace afterimage
