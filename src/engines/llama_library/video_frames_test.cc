// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/video_frames.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace afterimage {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<std::uint32_t> indices(std::uint32_t frames, Duration length) {
  std::vector<std::uint32_t> found;
  for (const FramePair& pair : frame_pairs(frames, length)) {
    found.push_back(pair.first);
    found.push_back(pair.second);
  }
  return found;
}

TEST(VideoFrames, AreTwoASecondFromTheFirstToTheLast) {
  using List = std::vector<std::uint32_t>;
  EXPECT_EQ(indices(60, seconds(3)), (List{0, 12, 24, 35, 47, 59}));
  EXPECT_EQ(indices(60, milliseconds(200)), (List{0, 20, 39, 59})) << "at least four";
  EXPECT_EQ(indices(3, seconds(9)), (List{0, 2})) << "whole pairs";
  EXPECT_EQ(indices(1, seconds(1)), (List{0, 0}));
  EXPECT_EQ(indices(100'000, seconds(3600)).size(), 768U);
}

TEST(VideoFrames, AreInOrderAndInTheClip) {
  for (std::uint32_t frames = 1; frames < 300; ++frames) {
    for (const int length : {0, 100, 1'900, 7'777, 400'000}) {
      const auto found = indices(frames, milliseconds(length));
      ASSERT_GE(found.size(), 2U);
      ASSERT_EQ(found.size() % 2, 0U);
      ASSERT_TRUE(std::ranges::is_sorted(found));
      ASSERT_EQ(found.front(), 0U);
      ASSERT_EQ(found.back(), frames - 1);
    }
  }
}

TEST(VideoFrames, APairIsShownBetweenItsFrames) {
  const auto pairs = frame_pairs(60, seconds(3));
  EXPECT_EQ(timestamp_of(pairs[0]), "<0.3 seconds>");
  EXPECT_EQ(timestamp_of(pairs[2]), "<2.6 seconds>");
}

}  // namespace
}  // namespace afterimage
