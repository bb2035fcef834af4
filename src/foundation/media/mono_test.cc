// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/mono.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace afterimage {
namespace {

constexpr std::size_t kSamples = 37;  // no multiple of what a vector holds

/// Of some channels: the same samples side by side, and channel by channel.
struct Sound {
  explicit Sound(std::size_t channels) : planes(channels, std::vector<float>(kSamples)) {
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t i = 0; i < kSamples; ++i) {
        planes[c][i] = std::sin(static_cast<float>(7 * i + 3 * c)) * 1.2F;  // some beyond 1
      }
    }
  }
  [[nodiscard]] std::vector<float> interleaved() const {
    std::vector<float> all;
    for (std::size_t i = 0; i < kSamples; ++i) {
      for (const auto& plane : planes) all.push_back(plane[i]);
    }
    return all;
  }
  [[nodiscard]] std::vector<const float*> channels() const {
    std::vector<const float*> all;
    for (const auto& plane : planes) all.push_back(plane.data());
    return all;
  }
  /// Clamped, and added in double.
  [[nodiscard]] std::vector<float> means() const {
    std::vector<float> all;
    for (std::size_t i = 0; i < kSamples; ++i) {
      double sum = 0;
      for (const auto& plane : planes) sum += std::clamp(plane[i], -1.0F, 1.0F);
      all.push_back(static_cast<float>(sum / static_cast<double>(planes.size())));
    }
    return all;
  }

  std::vector<std::vector<float>> planes;
};

class Mono : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Channels, Mono, ::testing::Values(1, 2, 3, 9));

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST_P(Mono, IsTheMeanOfTheChannelsHoweverTheyLie) {
  const Sound sound(GetParam());
  std::vector<float> side_by_side{5};
  ASSERT_TRUE(append_mono(sound.interleaved(), GetParam(), side_by_side));
  std::vector<float> by_channel{5};
  ASSERT_TRUE(append_mono(sound.channels(), 0, kSamples, by_channel));
  EXPECT_EQ(side_by_side.front(), 5) << "appended";
  EXPECT_TRUE(same_bits(std::span(side_by_side).subspan(1), sound.means()));
  EXPECT_TRUE(same_bits(side_by_side, by_channel));
}

TEST_P(Mono, OfAPartIsThatPart) {
  const Sound sound(GetParam());
  std::vector<float> part;
  ASSERT_TRUE(append_mono(sound.channels(), 5, 0, part));
  EXPECT_TRUE(part.empty());
  ASSERT_TRUE(append_mono(sound.channels(), 5, 17, part));
  EXPECT_TRUE(same_bits(part, std::span<const float>(sound.means()).subspan(5, 17)));
}

TEST_P(Mono, RefusesWhatIsNoNumberWhereverItIs) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (std::size_t c = 0; c < GetParam(); ++c) {
      for (std::size_t i = 0; i < kSamples; ++i) {
        Sound sound(GetParam());
        sound.planes[c][i] = bad;
        std::vector<float> mono;
        EXPECT_FALSE(append_mono(sound.interleaved(), GetParam(), mono)) << c << " " << i;
        EXPECT_FALSE(append_mono(sound.channels(), 0, kSamples, mono)) << c << " " << i;
        EXPECT_TRUE(append_mono(sound.channels(), i + 1, kSamples - i - 1, mono)) << c << " " << i;
      }
    }
  }
}

TEST_P(Mono, ZerosHaveNoSign) {
  Sound sound(GetParam());
  for (auto& plane : sound.planes) std::ranges::fill(plane, -0.0F);
  std::vector<float> mono;
  ASSERT_TRUE(append_mono(sound.channels(), 0, kSamples, mono));
  ASSERT_TRUE(append_mono(sound.interleaved(), GetParam(), mono));
  EXPECT_TRUE(std::ranges::none_of(mono, [](float x) { return std::signbit(x); }));
}

}  // namespace
}  // namespace afterimage
