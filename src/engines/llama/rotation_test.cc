// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/rotation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include "runtime/engine_api/key_rotation.h"
#include "testing/written_sequence.h"

namespace afterimage {
namespace {

using Kind = RotaryFacts::Kind;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::WrittenMemory;
using testing::WrittenSequence;

/// Two layers with one and two heads of 32 numbers, f16.
WrittenMemory memory() {
  return {.pictures = true,
          .transposed = true,
          .key_rows = {64, 128},
          .value_rows = {64, 128},
          .positions = testing::positions_from(0, 3)};
}

SequenceRows rows_of(const WrittenMemory& of) {
  return SequenceRows::learn(WrittenSequence({of}).bytes(), TokenCount(3), testing::kinds_of({of}),
                             {.tokens = TokenCount(of.kind == KvKind::kSliding ? 5 : 0)})
      .value();
}

RotaryFacts facts(Kind kind) {
  return {.kind = kind,
          .head_size = 32,
          .turned = 32,
          .base = 10'000,
          .sections = {6, 5, 5, 0},
          .unsupported = ""};
}

TEST(LlamaRotation, TurnsPairsAsTheFileSays) {
  RotaryFacts given = facts(Kind::kNeighbours);
  given.turned = 8;
  given.scale = 0.5F;
  const KeyRotation found = rotation_of(given, rows_of(memory())).value();
  EXPECT_EQ(found.dtype, DType::kF16);
  EXPECT_EQ(found.pairs, KeyRotation::Pairs::kNeighbours);
  EXPECT_EQ(found.head_size, 32U);
  ASSERT_EQ(found.radians.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(found.radians[i],
                    static_cast<float>(0.5 * std::pow(10.0, -static_cast<double>(i))));
  }
  EXPECT_THAT(found.axes, Each(0));
  // A row: the position after it, the cell's position, column, row and token, then keys.
  ASSERT_EQ(found.keys.size(), 2U);
  EXPECT_EQ(found.keys[0].at, 20U);
  EXPECT_EQ(found.keys[0].heads, 1U);
  EXPECT_EQ(found.keys[1].at, 84U);
  EXPECT_EQ(found.keys[1].heads, 2U);
  EXPECT_EQ(rotation_of(facts(Kind::kHalves), rows_of(memory()))->pairs,
            KeyRotation::Pairs::kHalves);
}

TEST(LlamaRotation, PairsBelongToAxesInSectionsOrInTurn) {
  EXPECT_THAT(rotation_of(facts(Kind::kSections), rows_of(memory()))->axes,
              ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2));
  EXPECT_THAT(rotation_of(facts(Kind::kInterleaved), rows_of(memory()))->axes,
              ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0));
  // Pairs of the fourth axis do not turn: no token has a place on it.
  RotaryFacts four = facts(Kind::kSections);
  four.sections = {4, 4, 4, 4};
  const KeyRotation found = rotation_of(four, rows_of(memory())).value();
  for (std::size_t i = 12; i < 16; ++i) EXPECT_EQ(found.radians[i], 0.0F) << i;
  EXPECT_GT(found.radians[11], 0.0F);
}

TEST(LlamaRotation, SaysWhyItIsNotKnown) {
  const struct {
    const char* why;
    std::function<void(RotaryFacts&, WrittenMemory&)> change;
  } kCases[] = {
      {"scaled in the way", [](auto& f, auto&) { f.unsupported = "it is scaled in the way 'x'"; }},
      {"does not describe", [](auto& f, auto&) { f.turned = 34; }},
      {"does not describe", [](auto& f, auto&) { f.turned = 7; }},
      {"does not describe", [](auto& f, auto&) { f.base = 0; }},
      {"does not describe", [](auto& f, auto&) { f.sections = {}; }},
      {"not whole heads", [](auto& f, auto&) { f.head_size = 48; }},
      {"sliding", [](auto&, auto& m) { m.kind = KvKind::kSliding; }},
  };
  for (const auto& c : kCases) {
    RotaryFacts given = facts(Kind::kInterleaved);
    WrittenMemory of = memory();
    c.change(given, of);
    const auto found = rotation_of(given, rows_of(of));
    ASSERT_FALSE(found.has_value()) << c.why;
    EXPECT_EQ(found.error().code, ErrorCode::kUnsupported) << found.error().message;
    EXPECT_THAT(found.error().message, HasSubstr(c.why));
  }
}

TEST(LlamaRotation, OtherTypesOfKeysAreRefused) {
  const WrittenMemory of = memory();
  auto written = WrittenSequence({of}).bytes();
  // The first layer's type follows the header, the cells, whether values are transposed and the
  // number of layers.
  const std::size_t at = 4 + 4 + 4 + 4 + 3 * (4 + 4 + 12 + 4) + 4 + 4;
  const std::int32_t q8_0 = 8;
  std::memcpy(written.data() + at, &q8_0, sizeof q8_0);
  const auto rows = SequenceRows::learn(written, TokenCount(3), testing::kinds_of({of}), {});
  ASSERT_TRUE(rows.has_value());
  const auto found = rotation_of(facts(Kind::kInterleaved), *rows);
  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().message, HasSubstr("f16 or f32"));
}

TEST(LlamaRotation, MovingARowChangesItsPlacesOnly) {
  const SequenceRows kv = rows_of(memory());
  std::vector<std::byte> row(kv.layout().groups[0].row_bytes.value(), std::byte{7});
  const auto number = [&](std::size_t i) {
    std::int32_t found = 0;
    std::memcpy(&found, row.data() + 4 * i, sizeof found);
    return found;
  };
  const std::int32_t places[] = {30, 20, 25, 23, -1};  // after, position, column, row, token
  std::memcpy(row.data(), places, sizeof places);
  const std::vector<std::byte> before = row;
  kv.move(0, -8, row);
  EXPECT_EQ(SequenceRows::position(row), 12);
  EXPECT_EQ(number(0), 22);
  EXPECT_EQ(number(2), 17);
  EXPECT_EQ(number(3), 15);
  EXPECT_EQ(number(4), -1);
  EXPECT_TRUE(std::equal(row.begin() + sizeof places, row.end(), before.begin() + sizeof places));
}

TEST(LlamaRotation, PlacesFollowTheMediaBefore) {
  Sequence prompt{.tokens = std::vector<TokenId>(24), .spans = {}};
  prompt.spans.push_back(
      {.offset = TokenCount(2), .length = TokenCount(6), .columns = 3, .positions = 3});
  prompt.spans.push_back({.offset = TokenCount(9), .length = TokenCount(8), .positions = 5});
  prompt.spans.push_back({.offset = TokenCount(18), .length = TokenCount(4)});
  const auto at = [&](std::uint32_t token) { return place_in(prompt, TokenCount(token)); };
  EXPECT_EQ(at(0), (TokenPlace{0, 0, 0}));
  EXPECT_EQ(at(1), (TokenPlace{1, 1, 1}));
  EXPECT_EQ(at(2), (TokenPlace{2, 2, 2}));
  EXPECT_EQ(at(4), (TokenPlace{2, 2, 4}));
  EXPECT_EQ(at(7), (TokenPlace{2, 3, 4}));
  EXPECT_EQ(at(8), (TokenPlace{5, 5, 5}));
  EXPECT_EQ(at(9), (TokenPlace{6, 6, 6}));
  EXPECT_EQ(at(17), (TokenPlace{11, 11, 11}));
  EXPECT_EQ(at(18), (TokenPlace{12, 12, 12}));
  EXPECT_EQ(at(20), (TokenPlace{14, 14, 14}));
  EXPECT_EQ(at(22), (TokenPlace{16, 16, 16}));
  EXPECT_EQ(at(24), (TokenPlace{18, 18, 18}));
}

}  // namespace
}  // namespace afterimage
