// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/counts.h"

#include <gtest/gtest.h>

#include "gateway/proxy/decisions.h"
#include "gateway/proxy/durations.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

TEST(Spread, QuantilesAreRightToAFifth) {
  Spread spread;
  EXPECT_EQ(spread.quantile(0.5), Duration(0));
  for (int i = 1; i <= 1000; ++i) spread.add(i * 1ms);
  EXPECT_EQ(spread.count(), 1000U);
  for (const double share : {0.01, 0.5, 0.99}) {
    EXPECT_NEAR(seconds(spread.quantile(share)), share, share / 5) << share;
  }
}

TEST(Spread, OneDurationIsRightToAnEighth) {
  for (Duration took = 1025ns; took < 100h; took += took / 97) {
    Spread spread;
    spread.add(took);
    EXPECT_NEAR(seconds(spread.quantile(0.5)), seconds(took), seconds(took) / 8) << took;
  }
}

TEST(Spread, CountsDurationsBeyondItsEnds) {
  Spread spread;
  spread.add(Duration(0));
  spread.add(1h * 24 * 365 * 100);
  EXPECT_EQ(spread.count(), 2U);
  EXPECT_LT(spread.quantile(0), 2us);
}

TEST(Decisions, KeepsTheNewestAndFindsThemById) {
  Decisions decisions(3);
  EXPECT_TRUE(decisions.list(0, 10).empty());
  EXPECT_EQ(decisions.last(), 0U);
  for (int i = 0; i < 5; ++i) decisions.add({.question = std::to_string(i)});
  EXPECT_EQ(decisions.last(), 5U);
  EXPECT_EQ(decisions.find(2), std::nullopt);
  EXPECT_EQ(decisions.find(3)->question, "2");
  EXPECT_EQ(decisions.find(5)->question, "4");
  EXPECT_EQ(decisions.find(6), std::nullopt);
}

TEST(Decisions, TextsOfWhatWasAnsweredAreBounded) {
  Decisions decisions(4, 100);
  const auto add = [&](std::size_t bytes, std::optional<std::string> stored_as = std::nullopt) {
    Answered answered{.asked = Question(ScopeId(), std::string(bytes, 'x')),
                      .stored_as = std::move(stored_as)};
    decisions.add({.answered = std::make_shared<const Answered>(std::move(answered))});
  };
  const auto kept = [&] {
    std::vector<std::uint64_t> ids;
    for (const Decision& decision : decisions.list(0, 10)) {
      if (decision.answered != nullptr) ids.push_back(decision.id);
    }
    return ids;
  };
  add(40);
  add(30, std::string(30, 'y'));
  EXPECT_EQ(kept(), (std::vector<std::uint64_t>{1, 2})) << "100 bytes";
  add(1);
  EXPECT_EQ(kept(), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_FALSE(decisions.take_answered(1));
  EXPECT_TRUE(decisions.take_answered(2));
  add(99);
  EXPECT_EQ(kept(), (std::vector<std::uint64_t>{3, 4})) << "what was reported does not count";
  add(101);
  EXPECT_TRUE(kept().empty()) << "too long alone";
  for (int i = 0; i < 5; ++i) add(25);
  EXPECT_EQ(kept(), (std::vector<std::uint64_t>{7, 8, 9, 10})) << "one left with its decision";
}

TEST(Decisions, AListEndsWithTheNewest) {
  Decisions decisions(3);
  for (int i = 0; i < 5; ++i) decisions.add({});
  const auto ids = [&](std::uint64_t after, std::size_t limit) {
    std::vector<std::uint64_t> all;
    for (const Decision& decision : decisions.list(after, limit)) all.push_back(decision.id);
    return all;
  };
  EXPECT_EQ(ids(0, 10), (std::vector<std::uint64_t>{3, 4, 5}));
  EXPECT_EQ(ids(0, 2), (std::vector<std::uint64_t>{4, 5}));
  EXPECT_EQ(ids(4, 10), (std::vector<std::uint64_t>{5}));
  EXPECT_TRUE(ids(5, 10).empty());
  EXPECT_TRUE(ids(900, 10).empty());
}

}  // namespace
}  // namespace afterimage
