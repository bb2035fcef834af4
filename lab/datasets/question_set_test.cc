// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/datasets/question_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace afterimage {
namespace {

const QuestionSet& questions() {
  static const QuestionSet set =
      make_question_set({.questions = 3000, .scenes = 100, .traps = 0.25, .seed = 3});
  return set;
}

TEST(QuestionSet, IsDeterministicForItsSeed) {
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

TEST(QuestionSet, TrapsFollowTheQuestionTheyResemble) {
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

// A scene told in text has no image file to re-encode; such a trap would be the unchanged request.
TEST(QuestionSet, OnlyDrawnScenesAreReencoded) {
  std::size_t other_files = 0;
  for (const SetQuestion& question : questions().questions) {
    if (question.setting != Setting::kReencoded) continue;
    ++other_files;
    EXPECT_TRUE(questions().scenes[question.scene].drawn) << question.text;
  }
  EXPECT_GT(other_files, 20U);
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

TEST(Scenes, DrawsAnImageAndTheSamePixelsInAnotherFile) {
  Rng rng(1);
  const Scene scene = make_scene(0, rng);
  const Scene other = make_scene(1, rng);
  const auto plain = draw_scene(scene).value();
  const auto opaque = draw_scene(scene, /*opaque=*/true).value();
  EXPECT_NE(plain, opaque);
  EXPECT_NE(plain, draw_scene(other).value());
  EXPECT_EQ(plain, draw_scene(scene).value());
}

TEST(Scenes, TheOracleAnswersFromTheGraph) {
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
