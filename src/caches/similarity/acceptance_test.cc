// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/acceptance.h"

#include <gtest/gtest.h>

#include "testing/seeds.h"

namespace afterimage {
namespace {

constexpr SimilarityKind kAlike{.change = WordChange::kNone, .similarity = 0.97F};
constexpr AcceptanceOptions kOptions;  // error budget 1 %

EvidenceTable table(const SimilarityKind& kind, Evidence evidence) {
  EvidenceTable filled;
  for (std::uint32_t i = 0; i < evidence.right; ++i) filled.add(kind, true);
  for (std::uint32_t i = 0; i < evidence.wrong; ++i) filled.add(kind, false);
  return filled;
}

TEST(Bounds, NoEvidenceGivesTheWidestBounds) {
  EXPECT_EQ(at_least({}, 0.05), 0.0);
  EXPECT_EQ(at_most({}, 0.05), 1.0);
  EXPECT_EQ(at_least({.right = 0, .wrong = 9}, 0.05), 0.0);
}

TEST(Bounds, ConvergeOnTheObservedRate) {
  double before = 0.0;
  for (const std::uint32_t n : {1U, 10U, 100U, 1000U, 10'000U}) {
    const Evidence mostly{.right = 9 * n, .wrong = n};
    EXPECT_GT(at_least(mostly, 0.05), before);
    EXPECT_LT(at_least(mostly, 0.05), 0.9);
    EXPECT_GT(at_most(mostly, 0.05), 0.9);
    before = at_least(mostly, 0.05);
  }
  EXPECT_GT(before, 0.89);
  // Budget 1 %: the number of right answers in a row that it takes.
  EXPECT_LT(at_least({.right = 320}, 0.05), 0.99);
  EXPECT_GT(at_least({.right = 370}, 0.05), 0.99);
  EXPECT_LT(at_least({.right = 370, .wrong = 1}, 0.05), 0.985);
  EXPECT_LT(at_least({.right = 790, .wrong = 1}, 0.05), 0.99);  // with one wrong answer
  EXPECT_GT(at_least({.right = 840, .wrong = 1}, 0.05), 0.99);
  EXPECT_GT(at_least({.right = 4'000'000'000}, 0.05), 0.99999);  // and does not overflow
}

// The guarantee: checked after every single draw, the bound exceeds the truth in at most one run in
// twenty.
TEST(BoundsProperty, HoldAtEveryMoment) {
  int broken = 0;
  testing::for_each_seed(200, [&](Rng& rng) {
    constexpr double kTruth = 0.95;
    Evidence evidence;
    bool above = false;
    for (int i = 0; i < 400; ++i) {
      ++(rng.chance(kTruth) ? evidence.right : evidence.wrong);
      above = above || at_least(evidence, 0.05) > kTruth;
    }
    broken += above ? 1 : 0;
  });
  EXPECT_LE(broken, 18);  // at most 10 expected; 18 or more has probability 1 %
}

TEST(WordChange, Cases) {
  using enum WordChange;
  const struct {
    const char* a;
    const char* b;
    WordChange expected;
  } kCases[] = {
      {"", "", kNone},
      {"What is the color of the car?", "what color is the car", kNone},
      {"Please tell me what color the cars have.", "What color is the car?", kNone},
      {"What's in this picture?", "What is in the picture?", kNone},
      {"How many cups do you see?", "How many cups are there?", kNone},
      {"What does the sign say?", "What did the sign say?", kNone},
      {"Where do you see cups?", "Where do I see cups?", kAdded},
      {"Does the dog bite the man?", "Does the man bite the dog?", kReordered},
      {"What color is the car?", "What color is the old car?", kAdded},
      {"What color is the car?", "What color is the bus?", kReplaced},
      {"learn C", "learn C++", kReplaced},
      {"猫はどこ", "犬はどこ", kReplaced},
      {"What does he hold?", "What does she hold?", kReplaced},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(word_change(c.a, c.b), c.expected) << c.a << " | " << c.b;
    EXPECT_EQ(word_change(c.b, c.a), c.expected) << c.b << " | " << c.a;
  }
}

TEST(EvidenceTable, SeparatesKinds) {
  const SimilarityKind other[] = {
      {.change = WordChange::kAdded, .similarity = 0.97F},
      {.change = WordChange::kNone, .about_media = true, .similarity = 0.97F},
      {.change = WordChange::kNone, .similarity = 0.93F},
      {.change = WordChange::kNone, .similarity = 0.2F},
      {.change = WordChange::kNone, .similarity = -1.0F}};
  const EvidenceTable filled = table(kAlike, {.right = 3, .wrong = 1});
  EXPECT_EQ(filled.at(kAlike), (Evidence{.right = 3, .wrong = 1}));
  for (const SimilarityKind& kind : other) EXPECT_EQ(filled.at(kind), Evidence{});
  // Evidence below all ranges never leads to a hit.
  const SimilarityKind far{.change = WordChange::kNone, .similarity = 0.49F};
  EXPECT_EQ(table(far, {.right = 2000}).at(far), Evidence{});
}

TEST(Judge, ServesNothingWithoutEvidence) {
  const Judgement judged = judge(kOptions, kAlike, {}, {}, {});
  EXPECT_FALSE(judged.serve);
  EXPECT_EQ(judged.basis, Basis::kNothing);
}

TEST(Judge, UsesGlobalEvidenceUntilThereIsCloser) {
  const EvidenceTable sure = table(kAlike, {.right = 2000});
  EXPECT_TRUE(judge(kOptions, kAlike, {}, {}, sure).serve);
  EXPECT_EQ(judge(kOptions, kAlike, {}, {}, sure).basis, Basis::kEverything);
  EXPECT_TRUE(judge(kOptions, kAlike, {.right = 3}, {}, sure).serve);
  // Enough evidence of its own.
  EXPECT_EQ(judge(kOptions, kAlike, {.right = 2000}, {}, {}).basis, Basis::kEntry);
  EXPECT_EQ(judge(kOptions, kAlike, {}, sure, {}).basis, Basis::kScope);
  // No evidence of another kind.
  SimilarityKind other = kAlike;
  other.change = WordChange::kReordered;
  EXPECT_FALSE(judge(kOptions, other, {}, {}, sure).serve);
}

// Less similar neighbours are no likelier to be right, so their evidence bounds closer ones; not
// the other way round.
TEST(Judge, EvidenceOfLessSimilarNeighboursBoundsCloserOnes) {
  SimilarityKind farther = kAlike;
  farther.similarity = 0.75F;
  const EvidenceTable sure = table(farther, {.right = 2000});
  EXPECT_TRUE(judge(kOptions, kAlike, {}, {}, sure).serve);
  EXPECT_FALSE(judge(kOptions, farther, {}, {}, table(kAlike, {.right = 2000})).serve);
  // Errors at low similarity do not count against evidence at high similarity.
  EvidenceTable mixed = table(kAlike, {.right = 2000});
  for (int i = 0; i < 500; ++i) mixed.add(farther, false);
  EXPECT_TRUE(judge(kOptions, kAlike, {}, {}, mixed).serve);
}

// What a verifier accepted is of one kind, however the words differ.
TEST(Judge, KindsTogetherShareTheirEvidence) {
  const AcceptanceOptions together{.kinds_together = true};
  EvidenceTable spread;
  for (const WordChange change : {WordChange::kNone, WordChange::kAdded, WordChange::kReplaced}) {
    for (const float similarity : {0.65F, 0.85F, 0.97F}) {
      for (int i = 0; i < 50; ++i)
        spread.add({.change = change, .about_media = true, .similarity = similarity}, true);
    }
  }
  const SimilarityKind asked{
      .change = WordChange::kReplaced, .about_media = true, .similarity = 0.85F};
  EXPECT_FALSE(judge(kOptions, asked, {}, {}, spread).serve) << "fifty are not enough";
  EXPECT_TRUE(judge(together, asked, {}, {}, spread).serve);
  SimilarityKind elsewhere = asked;
  elsewhere.about_media = false;
  EXPECT_FALSE(judge(together, elsewhere, {}, {}, spread).serve) << "of questions without media";
  for (int i = 0; i < 5; ++i) spread.add(asked, false);
  for (int i = 0; i < 4000; ++i) spread.add({.about_media = true, .similarity = 0.97F}, true);
  EXPECT_FALSE(judge(together, asked, {}, {}, spread).serve) << "this kind is wrong too often";
}

TEST(Judge, AnEntryThatWasWrongIsJudgedByItsOwnEvidence) {
  const EvidenceTable sure = table(kAlike, {.right = 2000});
  const Judgement judged = judge(kOptions, kAlike, {.right = 5, .wrong = 1}, sure, sure);
  EXPECT_FALSE(judged.serve);
  EXPECT_EQ(judged.basis, Basis::kEntry);
}

TEST(Judge, AScopeThatIsWrongTooOftenServesNothing) {
  const EvidenceTable sure = table(kAlike, {.right = 2000});
  const EvidenceTable bad = table(kAlike, {.right = 20, .wrong = 8});
  const Judgement judged = judge(kOptions, kAlike, {}, bad, sure);
  EXPECT_FALSE(judged.serve);
  EXPECT_EQ(judged.basis, Basis::kScope);
  // One error is little evidence yet.
  EXPECT_TRUE(judge(kOptions, kAlike, {}, table(kAlike, {.right = 20, .wrong = 1}), sure).serve);
}

TEST(Judge, ATighterErrorBudgetTakesMoreEvidence) {
  const EvidenceTable sure = table(kAlike, {.right = 2000});
  EXPECT_FALSE(judge({.error_budget = 0.001}, kAlike, {}, {}, sure).serve);
  EXPECT_TRUE(judge({.error_budget = 0.1}, kAlike, {}, {}, table(kAlike, {.right = 100})).serve);
}

}  // namespace
}  // namespace afterimage
