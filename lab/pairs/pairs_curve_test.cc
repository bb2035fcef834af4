// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/pairs/pairs_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "caches/similarity/hashed_ngrams.h"

namespace afterimage {
namespace {

const std::vector<QuestionPair> kPairs{
    // Matched by text:exact.
    {"What is the capital of France?", "What is the capital of France?", true},
    {"What color is the car?", "What is the color of the car there?", true},
    {"How do I turn on dark mode?", "How do I turn off dark mode?", false},
    {"What color is the car?", "What color is the bus?", false},
    {"Who wrote it?", "Where can I find green tea in Lisbon?", false}};

const CurvePoint& at(const PairsCurve& curve, MatchCondition judge, float threshold) {
  for (const CurvePoint& point : curve.points[static_cast<std::size_t>(judge)]) {
    if (point.threshold == threshold) return point;
  }
  ADD_FAILURE() << "no such threshold";
  return curve.points[0][0];
}

TEST(PairsCurve, EachConditionIsStricterAndTextMatchesAreExcluded) {
  auto embedder = HashedNgrams::create().value();
  const PairsCurve curve = trace_curve(kPairs, embedder).value();
  EXPECT_EQ(curve.pairs, kPairs.size());
  EXPECT_EQ(at(curve, MatchCondition::kVectors, 0.5F).matched, 3U);
  EXPECT_EQ(at(curve, MatchCondition::kVectors, 0.5F).duplicates, 1U);
  EXPECT_EQ(at(curve, MatchCondition::kNoVeto, 0.5F).matched, 2U);
  EXPECT_EQ(at(curve, MatchCondition::kSameWords, 0.5F).matched, 1U);
  EXPECT_EQ(at(curve, MatchCondition::kSameWords, 0.5F).duplicates, 1U);
  EXPECT_EQ(at(curve, MatchCondition::kVectors, 0.99F).matched, 0U);
  EXPECT_THAT(to_table(curve), ::testing::HasSubstr("100.0 %"));
  const PairsReport report = judge_pairs(kPairs);
  EXPECT_THAT(to_html(std::span(&curve, 1), report), ::testing::HasSubstr(embedder.name()));
}

TEST(PairsCurve, LearnsFromLabelsWhatItMayServe) {
  std::vector<QuestionPair> pairs;
  for (int i = 0; i < 600; ++i) {
    const std::string town = "town" + std::string(1, static_cast<char>('a' + i % 26));
    pairs.push_back({"Where is " + town + "?", "Where is the " + town + " there?", true});
    pairs.push_back(
        {"What is " + town + " like?", "What is it like around " + town + "?", i % 2 == 0});
  }
  auto embedder = HashedNgrams::create().value();
  const PairsCurve curve = trace_curve(pairs, embedder).value();
  std::uint64_t before = 0;
  for (const LearnedPoint& point : curve.learned) {
    EXPECT_GE(point.matched, before) << "a larger budget serves no less";
    before = point.matched;
    EXPECT_GE(static_cast<double>(point.duplicates),
              (1 - point.error_budget) * static_cast<double>(point.matched));
  }
  EXPECT_GT(curve.learned.front().matched, 100U);
  EXPECT_LT(curve.learned.front().matched, 600U) << "first comes evidence";
}

TEST(PairsCurve, ComparesAllLevelsWithVectorsAlone) {
  // 100 pairs: 10 of the same text, 30 that differ by fillers, 60 opposites, which are more similar.
  std::vector<QuestionPair> pairs;
  for (int i = 0; i < 100; ++i) {
    const std::string town = "town" + std::string(1, static_cast<char>('a' + i % 26));
    const std::string where = " mode in the settings of the old phone?";
    const std::string asked = "How do I turn on " + town + where;
    const std::string fillers = "How there do I turn on the " + town +
                                " mode here in the settings there of this old phone?";
    const std::string opposite = "How do I turn off " + town + where;
    const std::string other = i < 10 ? asked : i < 40 ? fillers : opposite;
    pairs.push_back({asked, other, i < 40});
  }
  auto embedder = HashedNgrams::create().value();
  const PairsCurve curve = trace_curve(pairs, embedder).value();
  ASSERT_EQ(curve.together.front().coverage, 0.01);
  // The ten of the same text are equally similar, so all of them count.
  EXPECT_EQ(curve.together.front().levels.matched, 10U);
  EXPECT_EQ(curve.together.front().levels.duplicates, 10U);
  ASSERT_EQ(curve.together.back().coverage, 0.4);
  EXPECT_EQ(curve.together.back().levels.matched, 40U);
  EXPECT_EQ(curve.together.back().levels.duplicates, 40U);
  EXPECT_GE(curve.together.back().gptcache.matched, 40U);
  EXPECT_LT(curve.together.back().gptcache.duplicates, 40U)
      << "vectors cannot tell opposites apart";
  EXPECT_GT(curve.gptcache.matched, 60U);
  EXPECT_EQ(curve.gptcache.threshold, kGptCacheThreshold);
  EXPECT_THAT(to_table(curve), ::testing::HasSubstr("GPTCache's way"));
}

TEST(PairsCurve, WhatIsVetoedIsNeverAMatch) {
  auto embedder = HashedNgrams::create().value();
  const std::vector<QuestionPair> opposites(
      50, {"How do I turn on dark mode?", "How do I turn off dark mode?", false});
  const PairsCurve curve = trace_curve(opposites, embedder).value();
  for (const CoveragePoint& point : curve.together) EXPECT_EQ(point.levels.matched, 0U);
  EXPECT_EQ(curve.gptcache.matched, 50U);
}

/// Sure of questions about the same town, and of opposites.
class TownVerifier final : public Verifier {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Result<std::vector<float>> score(
      std::string_view question, std::span<const std::string_view> candidates) override {
    ++asked;
    if (fails) return fail(ErrorCode::kUnavailable, "it is down");
    const auto town = [](std::string_view words) { return words.substr(words.find("town"), 5); };
    const bool same = town(question) == town(candidates.front());
    return std::vector<float>{same ? 3.0F : -3.0F};
  }
  int asked = 0;
  bool fails = false;

 private:
  std::string name_ = "towns";
};

/// Of each ten pairs: one of the same text, two worded otherwise, one of opposites, six about other
/// towns, worded the same.
std::vector<QuestionPair> pairs_about_towns() {
  std::vector<QuestionPair> pairs;
  for (int i = 0; i < 1000; ++i) {
    const std::string town = "town" + std::string(1, static_cast<char>('a' + i % 25));
    const std::string next = "town" + std::string(1, static_cast<char>('a' + (i + 1) % 25));
    const std::string asked = "How do I turn on the lamps of " + town + "?";
    const int kind = i % 10;
    if (kind == 0) pairs.push_back({asked, asked, true});
    if (kind == 1) pairs.push_back({asked, "How do I turn off the lamps of " + town + "?", false});
    if (kind == 2 || kind == 3) {
      pairs.push_back({asked, "How can I turn on lamps there of " + town + " now?", true});
    }
    if (kind > 3) pairs.push_back({asked, "How do I turn on the lamps of " + next + "?", false});
  }
  return pairs;
}

TEST(PairsCurve, AVerifierThatOverrulesVetoesReadsWhatTheyForbid) {
  auto embedder = HashedNgrams::create().value();
  TownVerifier verifier;
  const auto pairs = pairs_about_towns();
  const PairsCurve curve =
      trace_curve(pairs, embedder,
                  {.verifier = &verifier, .threshold = 0.0F, .overrules_vetoes = true})
          .value();
  EXPECT_EQ(verifier.asked, 900) << "all but those of the same text";
  const auto fifth = std::ranges::find(curve.together, 0.2, &CoveragePoint::coverage);
  ASSERT_NE(fifth, curve.together.end());
  EXPECT_EQ(fifth->verified->matched, 400U);
  EXPECT_EQ(fifth->verified->duplicates, 300U) << "it cannot tell opposites apart";
  EXPECT_EQ(curve.verified->matched, 400U);
  EXPECT_EQ(curve.verified->duplicates, 300U);
}

TEST(PairsCurve, TheSurestPairsOfTheVerifierComeAfterTheTextLevels) {
  auto embedder = HashedNgrams::create().value();
  TownVerifier verifier;
  const auto pairs = pairs_about_towns();
  const PairsCurve curve =
      trace_curve(pairs, embedder, {.verifier = &verifier, .threshold = 0.0F}).value();
  EXPECT_EQ(verifier.asked, 800) << "not about the same text, and not about opposites";
  const CoveragePoint& first = curve.together.front();
  EXPECT_EQ(first.verified->matched, 100U) << "the same text";
  EXPECT_EQ(curve.together.back().coverage, 0.4);
  const auto fifth = std::ranges::find(curve.together, 0.2, &CoveragePoint::coverage);
  ASSERT_NE(fifth, curve.together.end());
  EXPECT_EQ(fifth->verified->matched, 300U);
  EXPECT_EQ(fifth->verified->duplicates, 300U);
  EXPECT_EQ(fifth->verified->threshold, 3.0F);
  EXPECT_LT(fifth->levels.duplicates, fifth->levels.matched) << "vectors prefer another town";
  EXPECT_EQ(curve.verified->matched, 300U);
  EXPECT_EQ(curve.verified->duplicates, 300U);
  EXPECT_GT(curve.verified_learned.back().matched, 50U);
  EXPECT_LE(curve.verified_learned.back().matched, 200U) << "text match levels need no evidence";
  EXPECT_EQ(curve.verified_learned.back().duplicates, curve.verified_learned.back().matched);
  EXPECT_THAT(to_table(curve), ::testing::HasSubstr("score at least 0.000: 300 pairs, 30.00 %"));
  const QuestionPairs read{.pairs = pairs, .rejected = {}};
  const auto json =
      nlohmann::json::parse(to_json(judge_pairs(pairs), read, std::span(&curve, 1)))["curves"][0];
  EXPECT_EQ(json["verified"].size(), curve.together.size());
  EXPECT_EQ(json["verified"][0]["threshold"], nullptr) << "text match levels alone";
  EXPECT_EQ(json["verified_at"]["matched"], 300);
  EXPECT_EQ(json["verified_learned"].size(), curve.learned.size());
}

TEST(PairsCurve, WithoutAThresholdNoneIsAssumed) {
  auto embedder = HashedNgrams::create().value();
  TownVerifier verifier;
  const PairsCurve curve =
      trace_curve(pairs_about_towns(), embedder, {.verifier = &verifier, .threshold = {}}).value();
  EXPECT_TRUE(curve.together.front().verified.has_value());
  EXPECT_FALSE(curve.verified.has_value());
  EXPECT_TRUE(curve.verified_learned.empty());
}

TEST(PairsCurve, AVerifierThatFailsEndsTheMeasurement) {
  auto embedder = HashedNgrams::create().value();
  TownVerifier verifier;
  verifier.fails = true;
  EXPECT_EQ(trace_curve(pairs_about_towns(), embedder, {.verifier = &verifier, .threshold = {}})
                .error()
                .code,
            ErrorCode::kUnavailable);
}

TEST(PairsCurve, JsonHasThePointsAndWhatWasLearnt) {
  auto embedder = HashedNgrams::create().value();
  const PairsCurve curve = trace_curve(kPairs, embedder).value();
  const QuestionPairs pairs{.pairs = kPairs, .rejected = {}};
  const PairsReport report = judge_pairs(kPairs);
  const auto json = nlohmann::json::parse(to_json(report, pairs, std::span(&curve, 1)));
  const auto& said = json["curves"][0];
  EXPECT_EQ(json["pairs"], kPairs.size());
  EXPECT_EQ(said["embedder"], embedder.name());
  EXPECT_EQ(said["points"].size(), kMatchConditions * curve.points[0].size());
  EXPECT_EQ(said["points"][0]["condition"], "vectors alone");
  EXPECT_EQ(said["points"][0]["precision"], nullptr);
  EXPECT_EQ(said["learned"].size(), curve.learned.size());
  EXPECT_EQ(said["all_levels"].size(), curve.together.size());
  EXPECT_EQ(said["gptcache"].back()["matched"], curve.together.back().gptcache.matched);
  EXPECT_EQ(said["gptcache_default"]["duplicates"], curve.gptcache.duplicates);
  EXPECT_FALSE(nlohmann::json::parse(to_json(report, pairs, {})).contains("curves"));
}

}  // namespace
}  // namespace afterimage
