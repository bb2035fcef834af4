// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/engine_api/key_rotation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "afterimage/engine.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::for_each_seed;

constexpr std::size_t kHead = 8;  // numbers; two heads, then as many values

KvLayout one_group(KvKind kind = KvKind::kFull) {
  LayerGroup group{.kind = kind, .row_bytes = Bytes(4 * kHead * sizeof(float))};
  if (kind == KvKind::kSliding) group.window = TokenCount(4);
  return {.groups = {group}};
}

KeyRotation rotation() {
  return {.head_size = kHead,
          .radians = {1.0F, 0.5F, 0.1F, 0.01F},
          .axes = {0, 1, 2, 2},
          .keys = {{.group = 0, .at = 0, .heads = 2}}};
}

std::vector<float> row_of(Rng& rng) {
  std::vector<float> row(4 * kHead);
  for (float& number : row) number = static_cast<float>(rng.uniform() * 2 - 1);
  return row;
}

std::vector<float> turned(std::vector<float> row, const TokenPlace& steps,
                          const KeyRotation& by = rotation()) {
  rotate_keys(by, 0, steps, std::as_writable_bytes(std::span(row)));
  return row;
}

TEST(KeyRotation, TurnsEachPairByItsAxisAndNothingElse) {
  for_each_seed(20, [](Rng& rng) {
    const std::vector<float> row = row_of(rng);
    const TokenPlace steps{3, -7, 20};
    const std::vector<float> after = turned(row, steps);
    const KeyRotation by = rotation();
    for (std::size_t head = 0; head < 2; ++head) {
      for (std::size_t i = 0; i < 4; ++i) {
        const double angle = static_cast<double>(steps[by.axes[i]]) * by.radians[i];
        const double low = row[head * kHead + i];
        const double high = row[head * kHead + i + 4];
        EXPECT_NEAR(after[head * kHead + i], low * std::cos(angle) - high * std::sin(angle), 1e-6);
        EXPECT_NEAR(after[head * kHead + i + 4], low * std::sin(angle) + high * std::cos(angle),
                    1e-6);
      }
    }
    for (std::size_t i = 2 * kHead; i < 4 * kHead; ++i) EXPECT_EQ(after[i], row[i]) << "a value";
  });
}

TEST(KeyRotation, NoStepsChangeNothingAndStepsAddUp) {
  Rng rng(3);
  const std::vector<float> row = row_of(rng);
  EXPECT_EQ(turned(row, {0, 0, 0}), row);
  const std::vector<float> there_and_back = turned(turned(row, {100, 50, 9}), {-100, -50, -9});
  const std::vector<float> twice = turned(turned(row, {1, 2, 3}), {4, 5, 6});
  const std::vector<float> once = turned(row, {5, 7, 9});
  for (std::size_t i = 0; i < row.size(); ++i) {
    EXPECT_NEAR(there_and_back[i], row[i], 1e-6);
    EXPECT_NEAR(twice[i], once[i], 1e-6);
  }
}

TEST(KeyRotation, NeighboursArePairsToo) {
  KeyRotation by = rotation();
  by.pairs = KeyRotation::Pairs::kNeighbours;
  std::vector<float> row(4 * kHead, 0.0F);
  row[2] = 1.0F;  // of pair 1, with row[3]
  const std::vector<float> after = turned(row, {0, 2, 0}, by);
  EXPECT_NEAR(after[2], std::cos(1.0), 1e-6);
  EXPECT_NEAR(after[3], std::sin(1.0), 1e-6);
}

TEST(KeyRotation, HalfPrecisionKeysAreRoundedToNearest) {
  const KeyRotation by{.dtype = DType::kF16,
                       .head_size = 2,
                       .radians = {1.0F},
                       .axes = {0},
                       .keys = {{.group = 0, .at = 0, .heads = 1}}};
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    if ((bits & 0x7C00U) == 0x7C00U) continue;  // infinite, or not a number
    const std::array<std::uint16_t, 2> before{static_cast<std::uint16_t>(bits), 0};
    std::array<std::uint16_t, 2> row = before;
    rotate_keys(by, 0, {0, 0, 0}, std::as_writable_bytes(std::span(row)));
    ASSERT_EQ(row[0] & 0x7FFFU, before[0] & 0x7FFFU) << bits;
    row = before;
    rotate_keys(by, 0, {1, 0, 0}, std::as_writable_bytes(std::span(row)));
#ifdef __FLT16_MANT_DIG__
    const auto number = static_cast<float>(std::bit_cast<_Float16>(before[0]));
    const auto low = static_cast<_Float16>(number * static_cast<float>(std::cos(1.0)));
    const auto high = static_cast<_Float16>(number * static_cast<float>(std::sin(1.0)));
    ASSERT_EQ(row[0] & 0x7FFFU, std::bit_cast<std::uint16_t>(low) & 0x7FFFU) << bits;
    ASSERT_EQ(row[1] & 0x7FFFU, std::bit_cast<std::uint16_t>(high) & 0x7FFFU) << bits;
#endif
  }
}

TEST(KeyRotation, RefusesLayoutsThatNoRotationMoves) {
  EXPECT_TRUE(check_rotation(rotation(), one_group()).has_value());
  for (const KvKind kind : {KvKind::kSliding, KvKind::kRecurrent}) {
    const auto checked = check_rotation(rotation(), one_group(kind));
    ASSERT_FALSE(checked.has_value());
    EXPECT_EQ(checked.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(checked.error().message.find(to_string(kind)), std::string::npos);
  }
}

TEST(KeyRotation, RefusesWhatDoesNotFitTheRows) {
  const std::vector<std::function<void(KeyRotation&)>> kFaults{
      [](KeyRotation& r) { r.keys.clear(); },
      [](KeyRotation& r) { r.keys[0].group = 1; },
      [](KeyRotation& r) { r.keys[0].heads = 0; },
      [](KeyRotation& r) { r.keys[0].heads = 5; },
      [](KeyRotation& r) { r.keys[0].at = 4 * kHead * sizeof(float) - 4; },
      [](KeyRotation& r) { r.keys[0].at = std::numeric_limits<std::uint64_t>::max(); },
      [](KeyRotation& r) { r.axes[3] = 3; },
      [](KeyRotation& r) { r.axes.pop_back(); },
      [](KeyRotation& r) { r.radians.clear(), r.axes.clear(); },
      [](KeyRotation& r) { r.head_size = 6; },
      [](KeyRotation& r) { r.dtype = DType::kU8; },
  };
  for (std::size_t i = 0; i < kFaults.size(); ++i) {
    KeyRotation faulty = rotation();
    kFaults[i](faulty);
    EXPECT_FALSE(check_rotation(faulty, one_group()).has_value()) << i;
  }
}

// The rules of a run with moved KV.

struct MovedRun {
  Sequence prompt{.tokens = std::vector<TokenId>(10, TokenId(1)),
                  .spans = {{.offset = TokenCount(2), .length = TokenCount(3)},
                            {.offset = TokenCount(6), .length = TokenCount(2)}}};
  std::vector<std::byte> bytes = std::vector<std::byte>(3 * 4 * kHead * sizeof(float));
  std::vector<MovedMedia> moved;
  KvUse use;

  MovedRun() {
    for (std::size_t i = 0; i < 2; ++i) {
      const TokenCount length = prompt.spans[i].length;
      const std::uint64_t size = length.value() * 4 * kHead * sizeof(float);
      moved.push_back({.span = i,
                       .recomputed = TokenCount(1),
                       .rows = {{{.count = length, .bytes = std::span(bytes).first(size)}}}});
    }
    use.wanted.rows_to = TokenCount(3);
  }
  Result<void> check(TokenCount resumed_from = TokenCount(0)) {
    use.moved = moved;
    return check_moved(use, one_group(), prompt, resumed_from);
  }
};

TEST(MovedMedia, NothingAfterTheFirstMovedRowIsCaptured) {
  MovedRun run;
  EXPECT_TRUE(run.check().has_value());
  run.use.wanted.rows_to = TokenCount(4);
  EXPECT_FALSE(run.check().has_value());
  run.use.wanted.rows_to = kEndOfRun;
  EXPECT_FALSE(run.check().has_value());
  run.use.wanted.rows_to = TokenCount(3);
  run.use.wanted.snapshots = {TokenCount(3)};
  EXPECT_TRUE(run.check().has_value());
  run.use.wanted.snapshots = {TokenCount(4)};
  EXPECT_FALSE(run.check().has_value());
  run.use.wanted.snapshots = {kEndOfRun};
  EXPECT_FALSE(run.check().has_value());
  run.use.wanted.snapshots = {};
  run.use.on_end = [](KvSlice, std::span<const TokenId>) {};
  EXPECT_FALSE(run.check().has_value());
}

TEST(MovedMedia, ItemsAreWholeInOrderAndAfterTheResumePoint) {
  const std::vector<std::function<void(MovedRun&)>> kFaults{
      [](MovedRun& r) { std::swap(r.moved[0], r.moved[1]); },
      [](MovedRun& r) { r.moved[1].span = 0; },
      [](MovedRun& r) { r.moved[1].span = 2; },
      [](MovedRun& r) { r.moved[0].recomputed = TokenCount(3); },
      [](MovedRun& r) { r.moved[0].rows.clear(); },
      [](MovedRun& r) { r.moved[0].rows[0].clear(); },
      [](MovedRun& r) { r.moved[0].rows[0][0].first = TokenCount(1); },
      [](MovedRun& r) { r.moved[0].rows[0][0].count = TokenCount(2); },
      [](MovedRun& r) { r.moved[0].rows[0][0].bytes = std::span(r.bytes).first(5); },
      [](MovedRun& r) { r.prompt.tokens.resize(8); },
  };
  for (std::size_t i = 0; i < kFaults.size(); ++i) {
    MovedRun run;
    kFaults[i](run);
    EXPECT_FALSE(run.check().has_value()) << i;
  }
  EXPECT_TRUE(MovedRun().check(TokenCount(2)).has_value());
  EXPECT_TRUE(MovedRun().check(TokenCount(3)).has_value()) << "its first token is restored";
  EXPECT_FALSE(MovedRun().check(TokenCount(4)).has_value());
}

TEST(MovedMedia, RowsOfAnItemCountFromItsFirstToken) {
  const MovedRun run;
  const std::size_t row = 4 * kHead * sizeof(float);
  const std::vector<std::byte> bytes(10 * row);
  const KvSlice slice{.end = TokenCount(10),
                      .rows = {{{.count = TokenCount(3), .bytes = std::span(bytes).first(3 * row)},
                                {.first = TokenCount(3),
                                 .count = TokenCount(7),
                                 .bytes = std::span(bytes).subspan(3 * row)}}}};
  const auto rows = rows_of(run.prompt.spans[0], slice);
  ASSERT_EQ(rows.size(), 1U);
  ASSERT_EQ(rows[0].size(), 2U);
  EXPECT_EQ(rows[0][0].first, TokenCount(0));
  EXPECT_EQ(rows[0][1].first, TokenCount(1));
  EXPECT_EQ(rows[0][1].count, TokenCount(2));
  EXPECT_EQ(rows[0][0].bytes.data(), bytes.data() + 2 * row);
}

}  // namespace
}  // namespace afterimage
