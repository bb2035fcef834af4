// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/pairs/pairs_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(at(curve, MatchCondition::kVetoes, 0.5F).matched, 2U);
  EXPECT_EQ(at(curve, MatchCondition::kSameWords, 0.5F).matched, 1U);
  EXPECT_EQ(at(curve, MatchCondition::kSameWords, 0.5F).duplicates, 1U);
  EXPECT_EQ(at(curve, MatchCondition::kVectors, 0.99F).matched, 0U);
  EXPECT_THAT(to_table(curve), ::testing::HasSubstr("100.0 %"));
  const PairsReport report = judge_pairs(kPairs);
  EXPECT_THAT(to_html(std::span(&curve, 1), report), ::testing::HasSubstr(embedder.name()));
}

}  // namespace
}  // namespace afterimage
