// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "caches/answers/testing/questions.h"
#include "caches/similarity/hashed_ngrams.h"
#include "caches/similarity/similarity.h"

/// What a verifier, and words that may differ, change in a look-up.
namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::answer;
using ::testing::ElementsAre;
using testing::scope;

constexpr std::size_t kDimensions = 256;
constexpr const char* kAsked = "What is the color of the car?";
constexpr const char* kOther = "What is the color of the car there?";
constexpr const char* kNew = "What color is the car?";

/// Scores as a test says.
class TestVerifier final : public Verifier {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Result<std::vector<float>> score(
      std::string_view question, std::span<const std::string_view> candidates) override {
    ++asked;
    last_question = question;
    last_candidates.assign(candidates.begin(), candidates.end());
    clock.advance(takes);
    if (!works) return fail(ErrorCode::kUnavailable, "it is down");
    std::vector<float> scores;
    for (const std::string_view one : candidates) scores.push_back(score_of[std::string(one)]);
    scores.resize(scores.size() - static_cast<std::size_t>(keeps_back));
    return scores;
  }

  explicit TestVerifier(ManualClock& on) : clock(on) {}
  ManualClock& clock;
  std::map<std::string, float> score_of;
  bool works = true;
  int keeps_back = 0;
  Duration takes{0};
  int asked = 0;
  std::string last_question;
  std::vector<std::string> last_candidates;

 private:
  std::string name_ = "test";
};

class Verified : public ::testing::Test {
 protected:
  void open(SimilarityMode mode, bool overrules_vetoes = false, const WordSet& may_differ = {}) {
    SimilarityOptions options;
    options.layers = {{.name = "text", .dimensions = kDimensions, .threshold = 0.5F}};
    options.mode = mode;
    options.acceptance.error_budget = 0.3;
    options.explore = 0.0;
    options.verifier = &verifier;
    options.verifier_threshold = 0.75F;
    options.verifier_overrules_vetoes = overrules_vetoes;
    options.may_differ = may_differ;
    level = SimilarityLevel::create(std::move(options), *cache, budget, clock).value();
  }
  std::vector<Vector> vectors(const std::string& text) {
    return {embedder.embed_one(std::string_view(text)).value()};
  }
  void put(const std::string& text, const std::string& said) {
    Question question(scope(1), text);
    ASSERT_TRUE(cache->insert(question, answer(said), {.cost = 1s}).has_value());
    ASSERT_TRUE(level->insert(question, vectors(text)).has_value());
  }
  SimilarityLookup find(const std::string& text) {
    return level->find(Question(scope(1), text), vectors(text)).value();
  }

  MemoryBudget budget{16_MiB};
  ManualClock clock;
  TestVerifier verifier{clock};
  std::unique_ptr<AnswerCache> cache = AnswerCache::create({}, budget, clock).value();
  HashedNgrams embedder = HashedNgrams::create(kDimensions).value();
  std::unique_ptr<SimilarityLevel> level;
};

TEST_F(Verified, TheThresholdItselfIsAccepted) {
  open(SimilarityMode::kThreshold);
  put(kAsked, "red");
  verifier.score_of[kAsked] = 0.75F;
  verifier.takes = 7ms;
  const SimilarityLookup found = find(kNew);
  EXPECT_EQ(found.answer->text, "red");
  EXPECT_EQ(found.verification, Verification::kAccepted);
  EXPECT_EQ(found.proposals[*found.judged].score, 0.75F);
  EXPECT_EQ(found.verified_in, 7ms);
  EXPECT_EQ(verifier.last_question, kNew);
  EXPECT_THAT(verifier.last_candidates, ElementsAre(kAsked));
  EXPECT_EQ(level->stats().verified, 1U);
}

TEST_F(Verified, WhatIsRefusedIsNotServedAndIsNoEvidence) {
  open(SimilarityMode::kThreshold);
  put(kAsked, "red");
  verifier.score_of[kAsked] = 0.74F;
  const SimilarityLookup found = find(kNew);
  EXPECT_EQ(found.verdict, Verdict::kMissed);
  EXPECT_EQ(found.verification, Verification::kRefused);
  EXPECT_FALSE(found.judged.has_value());
  EXPECT_FALSE(found.given.has_value());
  EXPECT_EQ(found.proposals[0].score, 0.74F);
  EXPECT_EQ(level->learn(Question(scope(1), kNew), found, answer("red")), std::nullopt);
  EXPECT_EQ(level->stats().learned, Evidence{});
  EXPECT_EQ(level->stats().refused, 1U);
  EXPECT_EQ(level->stats().missed, 1U);
}

TEST_F(Verified, TheSurestIsJudgedNotTheMostSimilar) {
  open(SimilarityMode::kThreshold);
  put(kAsked, "red");
  put(kOther, "blue");
  const std::string nearest = find(kNew).proposals[0].candidate;
  const std::string next = nearest == kAsked ? kOther : kAsked;
  verifier.score_of[nearest] = 0.8F;
  verifier.score_of[next] = 0.9F;
  const SimilarityLookup found = find(kNew);
  EXPECT_EQ(found.proposals[*found.judged].candidate, next);
  EXPECT_EQ(found.answer->text, next == kAsked ? "red" : "blue");
  EXPECT_EQ(verifier.asked, 2) << "one call for all neighbours";
  verifier.score_of[next] = 0.8F;
  EXPECT_EQ(find(kNew).judged, 0U) << "of equally sure ones the most similar";
}

TEST_F(Verified, AVetoIsNotOverruledUnlessItMayBe) {
  open(SimilarityMode::kThreshold);
  put("How do I turn on dark mode?", "like so");
  verifier.score_of["How do I turn on dark mode?"] = 1.0F;
  const SimilarityLookup found = find("How do I turn off dark mode?");
  EXPECT_EQ(found.verdict, Verdict::kMissed);
  EXPECT_THAT(found.proposals[0].vetoes, ElementsAre(Veto::kAntonym));
  EXPECT_EQ(found.verification, Verification::kNone);
  EXPECT_EQ(verifier.asked, 0);
  EXPECT_EQ(level->stats().vetoed[static_cast<std::size_t>(Veto::kAntonym)], 1U);
}

TEST_F(Verified, AVetoMayBeOverruled) {
  open(SimilarityMode::kThreshold, /*overrules_vetoes=*/true);
  put("How do I turn on dark mode?", "like so");
  EXPECT_EQ(find("How do I turn off dark mode?").verification, Verification::kRefused);
  verifier.score_of["How do I turn on dark mode?"] = 1.0F;
  const SimilarityLookup found = find("How do I turn off dark mode?");
  EXPECT_EQ(found.answer->text, "like so");
  EXPECT_THAT(found.proposals[*found.judged].vetoes, ElementsAre(Veto::kAntonym));
  EXPECT_EQ(level->stats().vetoed[static_cast<std::size_t>(Veto::kAntonym)], 0U);
  EXPECT_EQ(level->verified_by(), "test at 0.75, overrules vetoes") << "evidence of its own";
  const std::string asked = "How do I turn off dark mode?";
  const auto suspects = level->suspect(Question(scope(1), asked), vectors(asked)).value();
  EXPECT_EQ(suspects.size(), 1U) << "what can be served can be suspected";
}

TEST_F(Verified, ItDoesNotOverruleACaseOrAnAccentThatItMayNotRead) {
  open(SimilarityMode::kThreshold, /*overrules_vetoes=*/true);
  put("Is it hard to learn Polish?", "red");
  verifier.score_of["Is it hard to learn Polish?"] = 1.0F;
  EXPECT_TRUE(find("Is it not hard to learn Polish?").answer.has_value());
  EXPECT_FALSE(find("Is it hard to learn polish?").answer.has_value());
  put("Wie kann ich zahlen?", "mit Karte");
  verifier.score_of["Wie kann ich zahlen?"] = 1.0F;
  EXPECT_FALSE(find("Wie kann ich zählen?").answer.has_value());
}

TEST_F(Verified, ItDoesNotOverruleAWordThatMayNotDiffer) {
  open(SimilarityMode::kThreshold, /*overrules_vetoes=*/true,
       {"where", "is", "the", "does", "lie"});
  put("Where is the cap?", "here");
  verifier.score_of["Where is the cap?"] = 1.0F;
  const SimilarityLookup found = find("Where is the cup?");
  EXPECT_EQ(found.verdict, Verdict::kMissed);
  EXPECT_THAT(found.proposals[0].vetoes, ElementsAre(Veto::kWord));
  EXPECT_EQ(verifier.asked, 0) << "it need not read it";
  EXPECT_EQ(level->stats().vetoed[static_cast<std::size_t>(Veto::kWord)], 1U);
  EXPECT_TRUE(find("Where does the cap lie?").answer.has_value());
  const std::string asked = "Where is the cup?";
  const auto suspects = level->suspect(Question(scope(1), asked), vectors(asked)).value();
  EXPECT_TRUE(suspects.empty()) << "what cannot be served is not suspected";
}

TEST_F(Verified, OtherThingsInTheSamePhraseDoNotCrowdOutTheSameThing) {
  open(SimilarityMode::kThreshold, /*overrules_vetoes=*/true,
       {"where", "is", "the", "do", "you", "see"});
  put("Do you see where the x0 is?", "here");
  for (int i = 1; i < 20; ++i) put(fmt::format("Where is the x{}?", i), "there");
  verifier.score_of["Do you see where the x0 is?"] = 1.0F;
  const SimilarityLookup found = find("Where is the x0?");
  EXPECT_EQ(found.answer->text, "here");
  EXPECT_EQ(found.proposals.size(), SimilarityOptions().nearest);
}

TEST_F(Verified, WordsThatMayDifferSayWhatEvidenceIsAbout) {
  open(SimilarityMode::kWatch, false, {"is", "the"});
  const std::string name = level->verified_by();
  EXPECT_TRUE(name.starts_with("test at 0.75, differs in ")) << name;
  open(SimilarityMode::kWatch, false, {"is", "a"});
  EXPECT_NE(level->verified_by(), name);
}

TEST_F(Verified, WithoutAVerifierNothingOverrulesAVeto) {
  SimilarityOptions options;
  options.layers = {{.name = "text", .dimensions = kDimensions, .threshold = 0.5F}};
  options.mode = SimilarityMode::kThreshold;
  options.verifier_overrules_vetoes = true;
  level = SimilarityLevel::create(std::move(options), *cache, budget, clock).value();
  put("How do I turn on dark mode?", "like so");
  EXPECT_EQ(find("How do I turn off dark mode?").verdict, Verdict::kMissed);
  EXPECT_EQ(level->verified_by(), "");
}

TEST_F(Verified, WithoutANeighbourItIsNotAsked) {
  open(SimilarityMode::kThreshold);
  EXPECT_EQ(find(kNew).verification, Verification::kNone);
  EXPECT_EQ(verifier.asked, 0);
}

TEST_F(Verified, IfItFailsNothingIsServed) {
  open(SimilarityMode::kThreshold);
  put(kAsked, "red");
  verifier.score_of[kAsked] = 1.0F;
  const auto refuses = [&](const char* why) {
    const SimilarityLookup found = find(kNew);
    EXPECT_FALSE(found.answer.has_value()) << why;
    EXPECT_FALSE(found.judged.has_value()) << why;
    return found;
  };
  verifier.works = false;
  const SimilarityLookup down = refuses("down");
  EXPECT_EQ(down.verification, Verification::kUnavailable);
  EXPECT_EQ(down.verifier_error, "it is down");
  verifier.works = true;
  verifier.keeps_back = 1;
  EXPECT_EQ(refuses("a score too few").verification, Verification::kUnavailable);
  verifier.keeps_back = 0;
  verifier.score_of[kAsked] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refuses("not a number").verification, Verification::kRefused);
  EXPECT_EQ(level->stats().not_verified, 2U);
  verifier.score_of[kAsked] = 1.0F;
  EXPECT_TRUE(find(kNew).answer.has_value());
}

TEST_F(Verified, EvidenceStillDecides) {
  open(SimilarityMode::kLearned);
  put(kAsked, "red");
  verifier.score_of[kAsked] = 1.0F;
  EXPECT_EQ(find(kNew).verdict, Verdict::kInsufficientEvidence) << "sure is not right";
  for (int i = 0; i < 12; ++i) {
    const SimilarityLookup found = find(kNew);
    level->learn(Question(scope(1), kNew), found, answer("red"));
  }
  EXPECT_EQ(find(kNew).verdict, Verdict::kServed);
  verifier.score_of[kAsked] = 0.1F;
  EXPECT_EQ(find(kNew).verdict, Verdict::kMissed) << "evidence does not overrule it";
}

TEST_F(Verified, EvidenceOfOtherWordingsCounts) {
  open(SimilarityMode::kLearned);
  put(kAsked, "red");
  verifier.score_of[kAsked] = 1.0F;
  const auto change_of = [](const SimilarityLookup& found) {
    return found.proposals[*found.judged].change;
  };
  const SimilarityLookup same_words = find(kNew);
  for (int i = 0; i < 20; ++i) {
    level->learn(Question(scope(1), kNew), same_words, answer("red"));
  }
  put("What is the color of the lamp?", "blue");
  verifier.score_of["What is the color of the lamp?"] = 1.0F;
  verifier.score_of[kAsked] = 0.0F;
  const SimilarityLookup found = find("What is the color of the old lamp?");
  EXPECT_NE(change_of(found), change_of(same_words));
  EXPECT_EQ(found.verdict, Verdict::kServed) << "of a candidate without evidence of its own";
}

TEST_F(Verified, InWatchModeAcceptedMatchesAreEvidence) {
  open(SimilarityMode::kWatch);
  put(kAsked, "red");
  verifier.score_of[kAsked] = 1.0F;
  const SimilarityLookup found = find(kNew);
  EXPECT_EQ(found.verdict, Verdict::kNotAllowed);
  EXPECT_EQ(found.verification, Verification::kAccepted);
  EXPECT_EQ(level->learn(Question(scope(1), kNew), found, answer("blue")), false);
}

TEST_F(Verified, APeekAsksItAndCountsNothing) {
  open(SimilarityMode::kThreshold);
  put(kAsked, "red");
  const Question question(scope(1), kNew);
  EXPECT_EQ(level->peek(question, vectors(kNew)).value().verification, Verification::kRefused);
  verifier.score_of[kAsked] = 1.0F;
  EXPECT_EQ(level->peek(question, vectors(kNew)).value().answer->text, "red");
  EXPECT_EQ(level->stats().refused + level->stats().verified, 0U);
}

TEST_F(Verified, ItsNameAndThresholdSayWhatEvidenceIsAbout) {
  open(SimilarityMode::kWatch);
  EXPECT_EQ(level->verified_by(), "test at 0.75");
  SimilarityOptions without;
  without.layers = {{.name = "text", .dimensions = kDimensions}};
  EXPECT_EQ(
      SimilarityLevel::create(std::move(without), *cache, budget, clock).value()->verified_by(),
      "");
}

/// Words that may differ, and no verifier.
class ListedWords : public Verified {
 protected:
  void open_listed(SimilarityMode mode, float threshold = 0.1F,
                   std::size_t dimensions = kDimensions) {
    SimilarityOptions options;
    options.layers = {{.name = "text", .dimensions = dimensions, .threshold = threshold}};
    options.mode = mode;
    options.acceptance.error_budget = 0.3;
    options.explore = 0.0;
    options.may_differ = {"a",    "big", "has",   "how",  "is",   "shape",
                          "size", "the", "there", "what", "which"};
    level = SimilarityLevel::create(std::move(options), *cache, budget, clock).value();
  }
};

TEST_F(ListedWords, AQuestionWordOfTheListIsNoVeto) {
  open_listed(SimilarityMode::kThreshold);
  put("What size is the cup?", "big");
  EXPECT_TRUE(find("How big is the cup?").answer.has_value());
  EXPECT_FALSE(find("Who is the cup?").answer.has_value());
  EXPECT_FALSE(find("How big is the cap?").answer.has_value());
  EXPECT_FALSE(find("Isn't the size of the cup big?").answer.has_value());
}

TEST_F(ListedWords, AQuestionWordAloneIsWhatIsAsked) {
  open_listed(SimilarityMode::kThreshold);
  put("How is the shape?", "fine");
  EXPECT_FALSE(find("What is the shape?").answer.has_value());
  EXPECT_FALSE(find("Is there a shape?").answer.has_value());
  put("Which shape is there?", "a ring");
  EXPECT_EQ(find("What is the shape?").answer->text, "a ring");
}

TEST_F(ListedWords, TheMostSimilarIsJudgedWhateverItsWords) {
  open_listed(SimilarityMode::kThreshold, 0.5F, 2);
  const auto put_at = [&](const char* text, const char* said, const Vector& vector) {
    Question question(scope(1), text);
    ASSERT_TRUE(cache->insert(question, answer(said), {.cost = 1s}).has_value());
    ASSERT_TRUE(level->insert(question, std::vector<Vector>{vector}).has_value());
  };
  put_at("What has the cup?", "a handle", {0.6F, 0.8F});
  put_at("What shape is the cup?", "round", {0.8F, 0.6F});
  const auto found =
      level->find(Question(scope(1), "What is the cup?"), std::vector<Vector>{{1.0F, 0.0F}});
  EXPECT_EQ(found.value().answer->text, "round") << "\"has\" says something here";
}

TEST_F(ListedWords, EvidenceOfAllWordingsCountsTogether) {
  open_listed(SimilarityMode::kLearned);
  put("What size is the cup?", "big");
  const SimilarityLookup other_words = find("How big is the cup?");
  const SimilarityLookup more_words = find("What is the size the cup is?");
  ASSERT_TRUE(other_words.judged.has_value() && more_words.judged.has_value());
  EXPECT_NE(other_words.proposals[*other_words.judged].change,
            more_words.proposals[*more_words.judged].change);
  for (int i = 0; i < 20; ++i) {
    level->learn(Question(scope(1), "How big is the cup?"), other_words, true);
  }
  put("What size is the lamp?", "small");
  EXPECT_EQ(find("What is the size the lamp is?").verdict, Verdict::kServed);
}

TEST_F(ListedWords, EvidenceIsAboutTheThreshold) {
  open_listed(SimilarityMode::kWatch, 0.75F);
  const std::string name = level->verified_by();
  EXPECT_TRUE(name.ends_with(" from 0.75")) << name;
  open_listed(SimilarityMode::kWatch, 0.5F);
  EXPECT_NE(level->verified_by(), name) << "less similar ones may be wrong more often";
}

}  // namespace
}  // namespace afterimage
