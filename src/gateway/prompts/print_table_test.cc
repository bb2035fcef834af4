// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/print_table.h"

#include <gtest/gtest.h>

#include <map>

#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::for_each_seed;

TEST(PrintTable, HasWhatWasSetLast) {
  PrintTable table(/*secret=*/1);
  EXPECT_EQ(table.find(5), 0U);
  table.set(5, 1);
  table.set(0, 2);
  table.set(5, 3);
  EXPECT_EQ(table.find(5), 3U);
  EXPECT_EQ(table.find(0), 2U);
  EXPECT_EQ(table.size(), 2U);
}

TEST(PrintTable, ANumberThatAnotherTookThePlaceOfIsNotErased) {
  PrintTable table(/*secret=*/1);
  table.set(5, 1);
  table.set(5, 2);
  table.erase(5, 1);
  EXPECT_EQ(table.find(5), 2U);
  table.erase(5, 2);
  EXPECT_FALSE(table.contains(5));
}

/// Few prints, and a factor that gives many of them one home.
TEST(PrintTableProperty, AgreesWithAMap) {
  for_each_seed(100, [](Rng& rng) {
    PrintTable table(rng.chance(0.5) ? 1 : rng.next());
    std::map<std::uint64_t, std::uint64_t> model;
    const std::uint64_t prints = 1 + rng.below(300);
    for (int step = 0; step < 2000; ++step) {
      const std::uint64_t print = rng.below(prints) << (rng.chance(0.5) ? 0U : 58U);
      const std::uint64_t number = 1 + rng.below(3);
      if (rng.chance(step % 1000 < 500 ? 0.8 : 0.2)) {
        table.set(print, number);
        model[print] = number;
      } else {
        table.erase(print, number);
        if (model.contains(print) && model[print] == number) model.erase(print);
      }
      ASSERT_EQ(table.size(), model.size());
      if (step % 100 == 0) table.check_invariants();
    }
    for (const auto& [print, number] : model) ASSERT_EQ(table.find(print), number);
    table.for_each(
        [&](std::uint64_t print, std::uint64_t number) { ASSERT_EQ(model.at(print), number); });
  });
}

}  // namespace
}  // namespace afterimage
