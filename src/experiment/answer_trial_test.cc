// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/experiment/answer_trial.h"

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

std::uint64_t served_at(const TrialReport& report, TextRung rung) {
  return report.rungs[static_cast<std::size_t>(rung)].served;
}

// Shows 1 of the answer cache; the program asks 12,000 of them.
TEST(AnswerTrial, NoTrapIsServedAndNothingServedIsWrong) {
  const TrialReport report = trial({});
  EXPECT_EQ(report.unsafe, 0U);
  for (std::size_t i = 1; i < kTraps; ++i) {
    EXPECT_GE(report.traps[i].asked, 5U) << to_string(static_cast<Trap>(i));
    EXPECT_EQ(report.traps[i].served, 0U) << to_string(static_cast<Trap>(i));
  }
  for (const WrongReuse& wrong : report.wrong) ADD_FAILURE() << wrong.asked << wrong.candidate;
}

TEST(AnswerTrial, EachRungServesWhatItIsFor) {
  const TrialReport report = trial({});
  EXPECT_GT(served_at(report, TextRung::kExact), 200U);
  EXPECT_GT(served_at(report, TextRung::kCanonical), 30U);
  EXPECT_GT(served_at(report, TextRung::kNear), 10U);
  const auto wording = [&](Wording w) { return report.wordings[static_cast<std::size_t>(w)]; };
  EXPECT_EQ(wording(Wording::kFirst).served, 0U);
  EXPECT_GT(wording(Wording::kTyped).served, wording(Wording::kTyped).asked * 8 / 10);
  EXPECT_LT(wording(Wording::kRephrased).served, wording(Wording::kRephrased).asked);
  std::uint64_t served = 0;
  for (const RungTally& rung : report.rungs) served += rung.served;
  EXPECT_EQ(report.engine_calls + served, report.questions);
}

TEST(AnswerTrial, StricterRulesServeLess) {
  const TrialReport exact = trial({.text = {.serve = TextRung::kExact}});
  EXPECT_EQ(served_at(exact, TextRung::kCanonical) + served_at(exact, TextRung::kNear), 0U);
  EXPECT_GT(exact.engine_calls, trial({}).engine_calls);
}

// A looser budget, so that a small set has evidence enough.
TEST(AnswerTrial, NeighboursAreServedOnceTheyAreKnownToBeRightAndStayInTheirBudget) {
  const TrialReport learned = trial({.acceptance = {.error_budget = 0.2}});
  ASSERT_TRUE(learned.likeness.has_value());
  EXPECT_GT(learned.likeness->served, 10U);
  EXPECT_TRUE(learned.likeness->in_budget());
  EXPECT_EQ(learned.likeness->unsafe, 0U);
  EXPECT_GT(learned.likeness->learned.wrong, 100U);  // of opposites and the like, there are many
  EXPECT_EQ(learned.unsafe, 0U);
  const TrialReport without = trial({.likeness = std::nullopt});
  EXPECT_FALSE(without.likeness.has_value());
  EXPECT_GT(without.engine_calls, learned.engine_calls);
}

TEST(AnswerTrial, AFixedThresholdIsSeenToBeWrong) {
  const TrialReport fixed = trial({.likeness = LikenessMode::kThreshold});
  EXPECT_GT(fixed.likeness->unsafe, 100U);
  EXPECT_FALSE(fixed.likeness->in_budget());
  EXPECT_GT(fixed.likeness->traps_served, 5U);
  EXPECT_EQ(fixed.unsafe, 0U);  // the rungs of text are not to blame
  // Of another picture: never, however low the threshold.
  EXPECT_EQ(fixed.traps[static_cast<std::size_t>(Trap::kOtherScene)].served, 0U);
}

TEST(AnswerTrial, TheReportForProgramsHasTheAgreedNames) {
  const auto json = nlohmann::json::parse(to_json(trial({})));
  EXPECT_EQ(json["questions"], 3000);
  EXPECT_EQ(json["unsafe"], 0);
  EXPECT_EQ(json["rungs"][1]["rung"], "text:canonical");
  EXPECT_EQ(json["rungs"][1]["wrong"], 0);
  EXPECT_GT(json["rungs"][1]["wrong_95"][1], 0.0) << "of few not much is known";
  EXPECT_EQ(json["likeness"]["mode"], "learned");
  EXPECT_EQ(json["likeness"]["in_budget"], true);
  EXPECT_EQ(json["traps"].size(), kTraps - 1);
}

TEST(QuestionSet, IsTheSameForItsSeedAndOtherwiseAnother) {
  const QuestionSet again =
      make_question_set({.questions = 3000, .scenes = 100, .traps = 0.25, .seed = 3});
  ASSERT_EQ(again.questions.size(), 3000U);
  for (std::size_t i = 0; i < 3000; ++i) {
    ASSERT_EQ(again.questions[i].text, questions().questions[i].text);
    ASSERT_EQ(again.truth(again.questions[i]), questions().truth(questions().questions[i]));
  }
  const QuestionSet other = make_question_set({.questions = 10, .scenes = 10, .seed = 4});
  EXPECT_NE(other.questions[0].text, questions().questions[0].text);
}

TEST(QuestionSet, ATrapIsAskedRightBehindAQuestionThatItIsNot) {
  for (std::size_t i = 0; i < questions().questions.size(); ++i) {
    const SetQuestion& trap = questions().questions[i];
    if (trap.trap == Trap::kNone) continue;
    const SetQuestion& twin = questions().questions[i - 1];
    EXPECT_FALSE(trap.scene == twin.scene && trap.program == twin.program &&
                 trap.setting == twin.setting);
    if (trap.trap >= Trap::kReencoded || trap.trap == Trap::kOtherScene) {
      EXPECT_EQ(trap.text, twin.text);
    } else {
      EXPECT_NE(trap.text, twin.text);
    }
  }
}

TEST(QuestionSet, EverySettingChangesTheAnswer) {
  for (SetQuestion question : questions().questions) {
    std::set<std::string> truths;
    for (const Setting setting : {Setting::kPlain, Setting::kHistory, Setting::kTools}) {
      question.setting = setting;
      truths.insert(questions().truth(question));
    }
    ASSERT_EQ(truths.size(), 3U) << question.text;
  }
}

TEST(Scenes, ADrawingIsAPictureAndTheSamePixelsMakeAnotherFile) {
  Rng rng(1);
  const Scene scene = make_scene(0, rng);
  const Scene other = make_scene(1, rng);
  const auto plain = drawn(scene).value();
  const auto opaque = drawn(scene, /*opaque=*/true).value();
  EXPECT_NE(plain, opaque);
  EXPECT_NE(plain, drawn(other).value());
  EXPECT_EQ(plain, drawn(scene).value());
}

TEST(Scenes, TheOracleLooksAtTheGraph) {
  Rng rng(1);
  Scene scene = make_scene(0, rng);
  scene.things = {
      {.name = "lamp", .color = "red", .material = "clay", .count = 3, .size = 2, .place = 0},
      {.name = "kettle", .color = "blue", .material = "ivory", .count = 1, .size = 5, .place = 1}};
  const auto ask = [&](SceneQuery query, std::string a = "", std::string b = "", unsigned n = 0) {
    return true_answer(scene, {.query = query, .a = std::move(a), .b = std::move(b), .number = n});
  };
  EXPECT_EQ(ask(SceneQuery::kColor, "lamp"), "red");
  EXPECT_EQ(ask(SceneQuery::kMaterial, "kettle"), "ivory");
  EXPECT_EQ(ask(SceneQuery::kCount, "lamp"), "3");
  EXPECT_EQ(ask(SceneQuery::kIsCount, "lamp", "", 3), "yes");
  EXPECT_EQ(ask(SceneQuery::kIsCount, "lamp", "", 2), "no");
  EXPECT_EQ(ask(SceneQuery::kLeftOf, "lamp", "kettle"), "yes");
  EXPECT_EQ(ask(SceneQuery::kLeftOf, "kettle", "lamp"), "no");
  EXPECT_EQ(ask(SceneQuery::kRightOf, "kettle", "lamp"), "yes");
  EXPECT_EQ(ask(SceneQuery::kBiggest), "the kettle");
  EXPECT_EQ(ask(SceneQuery::kSmallest), "the lamp");
  EXPECT_EQ(ask(SceneQuery::kIs, "red"), "the lamp");
  EXPECT_EQ(ask(SceneQuery::kIsNot, "red"), "the kettle");
  EXPECT_EQ(ask(SceneQuery::kIs, "green"), "nothing");
  EXPECT_NE(ask(SceneQuery::kHeldByHim), ask(SceneQuery::kHeldByHer));
  EXPECT_NE(ask(SceneQuery::kYearOf, "C"), ask(SceneQuery::kYearOf, "C++"));
  EXPECT_NE(ask(SceneQuery::kYearOf, "C++"), ask(SceneQuery::kYearOf, "C#"));
  EXPECT_NE(ask(SceneQuery::kKindCount, "cats"), ask(SceneQuery::kKindCount, "dogs"));
}

}  // namespace
}  // namespace afterimage
