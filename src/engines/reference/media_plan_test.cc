// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/media_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "engines/reference/testing/tiny_options.h"
#include "runtime/reuse/plan.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::for_each_seed;

TEST(CellGrid, KeepsTheAspectRatioToTheNearestCell) {
  const struct {
    const char* name;
    std::uint32_t width, height;
    CellGrid expected;
  } kCases[] = {
      {"one pixel", 1, 1, {1, 1}},
      {"one cell", 28, 28, {1, 1}},
      {"one pixel more than a cell", 29, 28, {2, 2}},
      {"square", 1000, 1000, {12, 12}},
      {"4:3", 1152, 864, {12, 9}},
      {"3:4", 864, 1152, {9, 12}},
      {"a line", 16'384, 1, {12, 1}},
      {"a column", 1, 16'384, {1, 12}},
      {"below the full grid", 280, 140, {10, 5}},
      {"half a cell rounds up", 1200, 1150, {12, 12}},
  };
  for (const auto& c : kCases)
    EXPECT_EQ(cell_grid(c.width, c.height, 28, 12), c.expected) << c.name;
}

TEST(CellGridProperty, StaysInBoundsAndTurnsWithTheImage) {
  for_each_seed(500, [](Rng& rng) {
    const auto side = [&rng] {
      return static_cast<std::uint32_t>(1 + rng.below(1U << rng.below(32)));
    };
    const std::uint32_t width = side();
    const std::uint32_t height = side();
    const CellGrid grid = cell_grid(width, height, 28, 12);
    ASSERT_GE(std::min(grid.columns, grid.rows), 1U);
    ASSERT_LE(std::max(grid.columns, grid.rows), 12U);
    const CellGrid turned = cell_grid(height, width, 28, 12);
    ASSERT_EQ(grid, (CellGrid{.columns = turned.rows, .rows = turned.columns}));
  });
}

TEST(TileGrid, HasTheAspectRatioThatIsNearest) {
  const struct {
    const char* name;
    std::uint32_t width, height, max_tiles;
    TileGrid expected;
  } kCases[] = {
      {"one pixel", 1, 1, 12, {1, 1}},
      {"small and square", 100, 100, 12, {1, 1}},
      {"square", 1000, 1000, 12, {3, 3}},
      {"square, of half the pixels of 2 x 2", 317, 317, 12, {2, 2}},
      {"square, of less", 316, 316, 12, {1, 1}},
      {"3:2", 672, 448, 12, {3, 2}},
      {"2:3", 448, 672, 12, {2, 3}},
      {"4:3", 896, 672, 12, {4, 3}},
      {"a line", 16'384, 1, 12, {12, 1}},
      {"a column", 1, 16'384, 12, {1, 12}},
      {"one tile at most", 4000, 1000, 1, {1, 1}},
      {"few tiles at most", 896, 672, 6, {3, 2}},
  };
  for (const auto& c : kCases) {
    const TileGrid grid = tile_grid(c.width, c.height, 224, c.max_tiles);
    EXPECT_EQ(grid, c.expected) << c.name << ": " << grid.columns << " x " << grid.rows;
  }
}

TEST(TileGridProperty, NoOtherGridIsNearer) {
  for_each_seed(500, [](Rng& rng) {
    const auto side = [&rng] {
      return static_cast<std::uint32_t>(1 + rng.below(1U << rng.below(32)));
    };
    const std::uint32_t width = side();
    const std::uint32_t height = side();
    const auto most = static_cast<std::uint32_t>(1 + rng.below(16));
    const TileGrid grid = tile_grid(width, height, 28, most);
    ASSERT_GE(grid.columns * grid.rows, 1U);
    ASSERT_LE(grid.columns * grid.rows, most);
    const long double ratio = static_cast<long double>(width) / height;
    const auto distance = [&](std::uint32_t columns, std::uint32_t rows) {
      return std::abs(ratio - static_cast<long double>(columns) / rows);
    };
    for (std::uint32_t columns = 1; columns <= most; ++columns) {
      for (std::uint32_t rows = 1; rows * columns <= most; ++rows) {
        ASSERT_LE(distance(grid.columns, grid.rows), distance(columns, rows) * (1 + 1e-12L))
            << width << " x " << height << ": " << columns << " x " << rows;
      }
    }
  });
}

TEST(MediaPlan, OfTilesCountsTheWholeOnceMore) {
  const ReferenceOptions tiled = testing::tiny_tiled();  // 16 pixels, four embeddings
  const auto embeddings = [&](std::uint32_t width, std::uint32_t height) {
    return plan_media(Modality::kImage, {.width = width, .height = height, .frames = 1}, tiled)
        ->embeddings.value();
  };
  EXPECT_EQ(embeddings(16, 16), 4U) << "one tile is the whole";
  EXPECT_EQ(embeddings(48, 16), 4U * 4);
  EXPECT_EQ(embeddings(32, 32), 5U * 4);
}

MediaInfo video_of(std::uint32_t frames, double seconds = 0) {
  return {.frames = frames, .length = Duration(static_cast<std::int64_t>(seconds * 1e9))};
}

TEST(SampledFrames, AreEvenAndWithoutRepeats) {
  const auto sampled = [](std::uint32_t frames, std::uint32_t most) {
    return sampled_frames(video_of(frames), 0, most);
  };
  EXPECT_EQ(sampled(1, 8), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(sampled(3, 8), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(sampled(8, 8), (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(sampled(9, 3), (std::vector<std::uint32_t>{1, 4, 7}));
  EXPECT_EQ(sampled(100, 1), (std::vector<std::uint32_t>{50}));
}

TEST(SampledFrames, AtARateAreThoseShownAtItsPeriods) {
  // 30 frames a second, two of which are sampled.
  EXPECT_EQ(sampled_frames(video_of(90, 3), 2'000, 8),
            (std::vector<std::uint32_t>{0, 15, 30, 45, 60, 75}));
  EXPECT_EQ(sampled_frames(video_of(91, 91.0 / 30), 2'000, 8),
            (std::vector<std::uint32_t>{0, 15, 30, 45, 60, 75, 90}));
  EXPECT_EQ(sampled_frames(video_of(3, 3), 2'000, 8), (std::vector<std::uint32_t>{0, 1, 2}))
      << "fewer frames than periods";
  EXPECT_EQ(sampled_frames(video_of(900, 30), 2'000, 3),
            (std::vector<std::uint32_t>{150, 450, 750}))
      << "more than are allowed";
  EXPECT_EQ(sampled_frames(video_of(5, 0), 2'000, 8).size(), 5U) << "no length";
}

TEST(SampledFramesProperty, AreIncreasingAndInside) {
  for_each_seed(500, [](Rng& rng) {
    const auto any = [&rng] {
      return static_cast<std::uint32_t>(1 + rng.below(1ULL << (1 + rng.below(31))));
    };
    MediaInfo info{.frames = any()};
    info.length = Duration(static_cast<std::int64_t>(rng.below(1ULL << rng.below(63))));
    const std::uint32_t most = 1 + static_cast<std::uint32_t>(rng.below(64));
    const auto frames = sampled_frames(info, any(), most);
    ASSERT_GE(frames.size(), 1U);
    ASSERT_LE(frames.size(), most);
    ASSERT_LT(frames.back(), info.frames);
    ASSERT_TRUE(std::ranges::adjacent_find(frames, std::ranges::greater_equal()) == frames.end());
  });
}

TEST(MediaPlan, CountsEmbeddings) {
  const ReferenceOptions tiny = ReferenceOptions::tiny();
  const struct {
    const char* name;
    Modality modality;
    MediaInfo info;
    std::uint32_t expected;
  } kCases[] = {
      {"image", Modality::kImage, {.width = 64, .height = 32, .frames = 1}, 4 * 2},
      {"one frame", Modality::kVideo, {.width = 64, .height = 64, .frames = 1}, 4},
      {"two frames", Modality::kVideo, {.width = 64, .height = 64, .frames = 2}, 4},
      {"three frames", Modality::kVideo, {.width = 64, .height = 64, .frames = 3}, 2 * 4},
      {"longer video", Modality::kVideo, {.width = 64, .height = 32, .frames = 90}, 2 * 2},
      {"one sample", Modality::kAudio, {.sample_rate_hz = 48'000, .samples = 1}, 1},
      {"80 ms", Modality::kAudio, {.sample_rate_hz = 48'000, .samples = 3840}, 1},
      {"a little more", Modality::kAudio, {.sample_rate_hz = 48'000, .samples = 3843}, 2},
      {"an hour", Modality::kAudio, {.sample_rate_hz = 8'000, .samples = 28'800'000}, 16},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(plan_media(c.modality, c.info, tiny)->embeddings.value(), c.expected) << c.name;
  }
}

TEST(MediaPlan, RefusesItemsWithoutContent) {
  const ReferenceOptions tiny = ReferenceOptions::tiny();
  for (const Modality modality : {Modality::kImage, Modality::kVideo, Modality::kAudio}) {
    EXPECT_EQ(plan_media(modality, MediaInfo{}, tiny).error().code, ErrorCode::kCorruption);
  }
}

}  // namespace
}  // namespace afterimage
