// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/decoder_state.h"

#include <gtest/gtest.h>

#include "engines/reference/testing/same_bits.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::for_each_seed;

TEST(KvRowsProperty, ReturnWhatWasAppended) {
  for_each_seed(20, [](Rng& rng) {
    const std::size_t heads = 1 + rng.below(3);
    LayerRows rows(heads, 32);
    std::vector<float> expected;
    const std::size_t count = 1 + rng.below(150);
    for (std::size_t i = 0; i < count; ++i) {
      const Floats both = random_floats(2 * rows.row_size(), -1, 1, rng);
      rows.append(std::span(both).first(rows.row_size()), std::span(both).last(rows.row_size()));
      expected.insert(expected.end(), both.begin(), both.end());
      if (rng.chance(0.05)) rows.drop_before(rng.below(i + 2));
    }
    ASSERT_EQ(rows.end(), count);
    ASSERT_EQ(rows.begin() % kPanelColumns, 0U);
    const std::size_t from = rows.begin() + rng.below(count - rows.begin() + 1);
    ASSERT_TRUE(
        same_bits(rows.rows(from, count), std::span(expected).subspan(from * 2 * rows.row_size())));
  });
}

TEST(LayerRows, DropsWholeBlocksOnly) {
  LayerRows rows(1, 32);
  const std::vector<float> row(32);
  for (int i = 0; i < 70; ++i) rows.append(row, row);
  const struct {
    std::size_t before, begin;
  } kCases[] = {{0, 0}, {31, 0}, {32, 32}, {10, 32}, {63, 32}, {70, 64}, {1000, 64}};
  for (const auto& c : kCases) {
    rows.drop_before(c.before);
    EXPECT_EQ(rows.begin(), c.begin) << c.before;
    EXPECT_EQ(rows.end(), 70U);
  }
}

TEST(LayerRows, MayStartAnywhere) {
  for (const std::size_t position : {0U, 1U, 31U, 32U, 33U, 70U}) {
    LayerRows rows(1, 32);
    rows.start_at(position);
    EXPECT_EQ(rows.end(), position);
    EXPECT_EQ(rows.begin(), position / 32 * 32);
    const std::vector<float> key(32, 1.0F);
    const std::vector<float> value(32, 2.0F);
    rows.append(key, value);
    std::vector<float> both = key;
    both.insert(both.end(), value.begin(), value.end());
    EXPECT_EQ(rows.rows(position, position + 1), both);
    EXPECT_DEATH(rows.start_at(position), "broken invariant");
  }
}

TEST(LayerRows, ReadingRowsThatAreNotHeldAborts) {
  LayerRows rows(1, 32);
  const std::vector<float> row(32);
  for (int i = 0; i < 40; ++i) rows.append(row, row);
  rows.drop_before(32);
  EXPECT_DEATH(static_cast<void>(rows.rows(31, 40)), "broken invariant");
  EXPECT_DEATH(static_cast<void>(rows.rows(32, 41)), "broken invariant");
  EXPECT_DEATH(static_cast<void>(rows.keys(0, 0)), "broken invariant");
  EXPECT_DEATH(rows.append(std::span(row).first(31), row), "broken invariant");
}

}  // namespace
}  // namespace afterimage
