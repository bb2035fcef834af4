// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/config/budget_setting.h"

#include <gtest/gtest.h>

#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::for_each_seed;

TEST(BudgetSetting, ReadsEveryKindAndWindow) {
  EXPECT_EQ(parse_budget("1000 requests/day").value(),
            (Budget{.kind = BudgetKind::kRequests, .window = BudgetWindow::kDay, .limit = 1000}));
  EXPECT_EQ(parse_budget(" 0  tokens/minute ").value(),
            (Budget{.kind = BudgetKind::kTokens, .window = BudgetWindow::kMinute, .limit = 0}));
  EXPECT_EQ(parse_budget("19.5 money/month").value(),
            (Budget{.kind = BudgetKind::kMoney, .window = BudgetWindow::kMonth, .limit = 19.5}));
}

TEST(BudgetSetting, RefusesEverythingElse) {
  for (const char* text :
       {"", "requests/day", "5", "5 requests", "5 requests/", "5 requests/week", "5 words/day",
        "-1 requests/day", "1.5 requests/day", "nan money/day", "inf money/day", "1e16 tokens/day",
        "1e10 money/day", "5 requests/day now", "5requests/day", "-0 money/day",
        "0x5 tokens/day"}) {
    EXPECT_FALSE(parse_budget(text).has_value()) << text;
  }
}

TEST(BudgetSettingProperty, RoundTrips) {
  for_each_seed(300, [](Rng& rng) {
    Budget budget{.kind = static_cast<BudgetKind>(rng.below(kBudgetKinds)),
                  .window = static_cast<BudgetWindow>(rng.below(kBudgetWindows))};
    budget.limit = budget.kind == BudgetKind::kMoney ? rng.uniform() * 1e6
                                                     : static_cast<double>(rng.below(1ULL << 49U));
    ASSERT_EQ(parse_budget(to_text(budget)).value(), budget) << to_text(budget);
  });
}

TEST(BudgetSetting, ReadsPrices) {
  EXPECT_EQ(parse_price("qwen* prompt=0.15 output=0.6").value(),
            (ModelPrice{.model = "qwen*", .prompt = 0.15, .output = 0.6}));
  EXPECT_EQ(parse_price("m output=2 prompt=0").value(),
            (ModelPrice{.model = "m", .prompt = 0, .output = 2}));
  for (const char* text :
       {"", "m", "m prompt=1", "prompt=1 output=2", "m prompt=1 output=2 prompt=3",
        "m prompt=a output=1", "m prompt=-1 output=1", "m prompt=1 output=2 hit=3",
        "m prompt=1 output", "m prompt=1e7 output=1", "m prompt=nan output=1"}) {
    EXPECT_FALSE(parse_price(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace afterimage
