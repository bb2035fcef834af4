// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/frame_size.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

TEST(FrameSizes, LargeFramesAreReducedAsByTheModelsOwnProcessor) {
  const FrameSize kFull{.width = 1920, .height = 1080};
  const struct {
    const char* name;
    FrameSize stored;
    std::size_t frames;
    bool is_qwen3;
    FrameSize expected;
  } kCases[] = {
      {"a minute of 1080p", kFull, 120, true, {608, 320}},
      {"six seconds of it", kFull, 12, true, kFull},
      {"Qwen2-VL", kFull, 4, false, {1008, 560}},
      {"Qwen2-VL, of any length", kFull, 768, false, {1008, 560}},
      {"small", {.width = 320, .height = 240}, 120, true, {320, 240}},
      {"a line", {.width = 16'000, .height = 20}, 768, true, {5'120, 20}},
  };
  for (const auto& c : kCases) {
    const FrameSize seen = seen_size(c.stored, c.frames, c.is_qwen3);
    EXPECT_EQ(seen, c.expected) << c.name << ": " << seen.width << "x" << seen.height;
  }
}

}  // namespace
}  // namespace afterimage
