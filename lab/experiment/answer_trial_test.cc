// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/answer_trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace afterimage {
namespace {

const QuestionSet& questions() {
  static const QuestionSet set =
      make_question_set({.questions = 3000, .scenes = 100, .traps = 0.25, .seed = 3});
  return set;
}

TrialReport trial(const TrialRules& rules) {
  const ManualClock clock;
  return run_trial(questions(), rules, clock).value();
}

std::uint64_t served_at(const TrialReport& report, MatchLevel level) {
  return report.levels[static_cast<std::size_t>(level)].served;
}

// Shows 1 of the answer cache; the program uses 12,000 questions.
TEST(AnswerTrial, NoTrapIsServedAndNothingServedIsWrong) {
  const TrialReport report = trial({});
  EXPECT_EQ(report.unsafe, 0U);
  for (std::size_t i = 1; i < kTraps; ++i) {
    EXPECT_GE(report.traps[i].asked, 5U) << to_string(static_cast<Trap>(i));
    EXPECT_EQ(report.traps[i].served, 0U) << to_string(static_cast<Trap>(i));
  }
  for (const WrongReuse& wrong : report.wrong) ADD_FAILURE() << wrong.asked << wrong.candidate;
}

TEST(AnswerTrial, EachLevelServesItsKindOfRewording) {
  const TrialReport report = trial({});
  EXPECT_GT(served_at(report, MatchLevel::kExact), 200U);
  EXPECT_GT(served_at(report, MatchLevel::kCanonical), 30U);
  EXPECT_GT(served_at(report, MatchLevel::kNear), 10U);
  const auto wording = [&](Wording w) { return report.wordings[static_cast<std::size_t>(w)]; };
  EXPECT_EQ(wording(Wording::kFirst).served, 0U);
  EXPECT_GT(wording(Wording::kTyped).served, wording(Wording::kTyped).asked * 8 / 10);
  EXPECT_LT(wording(Wording::kRephrased).served, wording(Wording::kRephrased).asked);
  std::uint64_t served = 0;
  for (const LevelTally& level : report.levels) served += level.served;
  EXPECT_EQ(report.engine_calls + served, report.questions);
}

TEST(AnswerTrial, StricterRulesServeLess) {
  const TrialReport exact = trial({.text = {.serve = MatchLevel::kExact}});
  EXPECT_EQ(served_at(exact, MatchLevel::kCanonical) + served_at(exact, MatchLevel::kNear), 0U);
  EXPECT_GT(exact.engine_calls, trial({}).engine_calls);
}

// A looser budget, so that a small set provides enough evidence.
TEST(AnswerTrial, ServesNeighboursAfterEvidenceAndWithinTheBudget) {
  const TrialReport learned = trial({.acceptance = {.error_budget = 0.2}});
  ASSERT_TRUE(learned.similarity.has_value());
  EXPECT_GT(learned.similarity->served, 10U);
  EXPECT_TRUE(learned.similarity->in_budget());
  EXPECT_EQ(learned.similarity->unsafe, 0U);
  EXPECT_GT(learned.similarity->learned.wrong, 100U);  // many are opposites and similar
  EXPECT_EQ(learned.unsafe, 0U);
  const TrialReport without = trial({.similarity = std::nullopt});
  EXPECT_FALSE(without.similarity.has_value());
  EXPECT_GT(without.engine_calls, learned.engine_calls);
}

TEST(AnswerTrial, AFixedThresholdServesWrongAnswers) {
  const TrialReport fixed = trial({.similarity = SimilarityMode::kThreshold});
  EXPECT_GT(fixed.similarity->unsafe, 100U);
  EXPECT_FALSE(fixed.similarity->in_budget());
  EXPECT_GT(fixed.similarity->traps_served, 5U);
  EXPECT_EQ(fixed.unsafe, 0U);  // the text levels are not the cause
  // Never the answer about another image, however low the threshold.
  EXPECT_EQ(fixed.traps[static_cast<std::size_t>(Trap::kOtherScene)].served, 0U);
}

TEST(AnswerTrial, JsonHasTheDocumentedNames) {
  const auto json = nlohmann::json::parse(to_json(trial({})));
  EXPECT_EQ(json["questions"], 3000);
  EXPECT_EQ(json["unsafe"], 0);
  EXPECT_EQ(json["match_levels"][1]["match_level"], "text:canonical");
  EXPECT_EQ(json["match_levels"][1]["wrong"], 0);
  EXPECT_GT(json["match_levels"][1]["wrong_95"][1], 0.0) << "a small sample has a wide interval";
  EXPECT_EQ(json["similarity"]["mode"], "learned");
  EXPECT_EQ(json["similarity"]["in_budget"], true);
  EXPECT_EQ(json["traps"].size(), kTraps - 1);
}

}  // namespace
}  // namespace afterimage
