// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/pairs/pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foundation/platform/testing/memory_files.h"

namespace afterimage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kExact = 0;
constexpr std::size_t kCanonical = 1;
constexpr std::size_t kNear = 2;

QuestionPairs read(std::string_view text) {
  testing::MemoryFiles files;
  EXPECT_TRUE(
      files.replace("p.jsonl", std::as_bytes(std::span(text.data(), text.size()))).has_value());
  return read_pairs("p.jsonl", files).value();
}

const std::vector<QuestionPair> kPairs{
    {.a = "What is a cat?", .b = "What is a cat?", .duplicate = true},
    {.a = "What's the best phone?", .b = "what is  the best phone", .duplicate = true},
    {.a = "What is the phone in this?", .b = "What are the phones in this?", .duplicate = false},
    {.a = "How does a laser guided bomb fly?",
     .b = "How does laser guided bomb fly?",
     .duplicate = true},
    {.a = "Where can I buy warehouses?", .b = "Where can I buy warehouse?", .duplicate = false},
    {.a = "Is this a dog?", .b = "Is this not a dog?", .duplicate = true},
};

TEST(Pairs, CountsAPairAtTheStrictestLevelThatMatches) {
  const PairsReport report = judge_pairs(kPairs);
  EXPECT_EQ(report.pairs, 6U);
  EXPECT_EQ(report.duplicates, 4U);
  EXPECT_EQ(report.levels[kExact].matched, 1U);
  EXPECT_EQ(report.levels[kCanonical].matched, 1U);
  EXPECT_EQ(report.levels[kCanonical].duplicates, 1U);
  EXPECT_EQ(report.levels[kNear].matched, 2U);
  EXPECT_EQ(report.levels[kNear].duplicates, 1U);
  EXPECT_THAT(report.levels[kNear].wrong, ElementsAre(4U));
  EXPECT_EQ(report.safe().matched, 4U);
  EXPECT_EQ(report.safe().duplicates, 3U);
  EXPECT_THAT(report.safe().wrong, ElementsAre(4U));
}

TEST(Pairs, ProportionsComeWithTheirInterval) {
  const Proportion p = proportion(97, 100);  // Wilson interval, as statistics packages compute it
  EXPECT_DOUBLE_EQ(p.value, 0.97);
  EXPECT_NEAR(p.low, 0.9155, 0.0001);
  EXPECT_NEAR(p.high, 0.9897, 0.0001);
  EXPECT_EQ(proportion(0, 0).low, 0);
  EXPECT_EQ(proportion(0, 0).high, 1) << "no data, no information";
  EXPECT_NEAR(proportion(5, 5).low, 0.5655, 0.0001) << "five of five is not certainty";
  EXPECT_DOUBLE_EQ(proportion(5, 5).high, 1);
}

TEST(Pairs, RejectsInvalidLinesByNumberAndReadsTheOthers) {
  const QuestionPairs pairs = read(
      "{\"a\": \"x\", \"b\": \"y\", \"duplicate\": true, \"id\": 7}\n\n"
      "{\"a\": \"x\", \"b\": 1, \"duplicate\": true}\n[]\nnot json\n"
      "{\"a\": \"x\", \"b\": \"y\", \"duplicate\": 1}\n{\"a\": \"\", \"b\": \"\", \"duplicate\": "
      "false}");
  ASSERT_EQ(pairs.pairs.size(), 2U);
  EXPECT_EQ(pairs.pairs[0].b, "y");
  ASSERT_EQ(pairs.rejected.size(), 4U);
  EXPECT_EQ(pairs.rejected[0].number, 3U);
  EXPECT_THAT(pairs.rejected[0].error.message, HasSubstr("no text field \"b\""));
  EXPECT_EQ(pairs.rejected[2].number, 5U);
  EXPECT_THAT(pairs.rejected[3].error.message, HasSubstr("true or false"));
  const testing::MemoryFiles none;
  EXPECT_EQ(read_pairs("gone", none).error().code, ErrorCode::kNotFound);
}

TEST(Pairs, RejectsDeepNestingWithoutRecursion) {
  EXPECT_FALSE(parse_pair_line(std::string(1'000'000, '[')).has_value());
  EXPECT_FALSE(parse_pair_line(std::string(100'000, '[') + std::string(100'000, ']')).has_value());
}

TEST(Pairs, JsonHasTheDocumentedNames) {
  const QuestionPairs pairs{.pairs = kPairs, .rejected = {}};
  const OrderedJson json = report_json(judge_pairs(kPairs), pairs);
  EXPECT_EQ(json["safe"]["matched"], 4);
  EXPECT_DOUBLE_EQ(json["safe"]["precision"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(json["safe"]["coverage"].get<double>(), 4.0 / 6);
  ASSERT_EQ(json["match_levels"].size(), 3U);
  EXPECT_EQ(json["match_levels"][2]["match_level"], "text:near");
  EXPECT_DOUBLE_EQ(json["match_levels"][2]["precision"].get<double>(), 0.5);
  EXPECT_LT(json["match_levels"][2]["precision_95"][0], 0.5);
  EXPECT_THAT(json["rejected"], IsEmpty());
  const OrderedJson nothing = report_json(judge_pairs({}), {});
  EXPECT_TRUE(nothing["safe"]["precision"].is_null());
}

TEST(Pairs, TheTableQuotesWrongMatchesOnRequest) {
  const QuestionPairs pairs{.pairs = kPairs, .rejected = {}};
  const PairsReport report = judge_pairs(kPairs);
  EXPECT_THAT(to_table(report, pairs, 5), HasSubstr("Where can I buy warehouses?\n  Where can I"));
  EXPECT_EQ(to_table(report, pairs, 0).find("warehouses"), std::string::npos);
  EXPECT_THAT(to_table(report, pairs, 0), HasSubstr("75.0 %"));
}

}  // namespace
}  // namespace afterimage
