// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/answer_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Question asked(const std::string& words, int scope = 1) {
  ScopeId id;
  id.key.bytes[0] = static_cast<std::byte>(scope);
  return {id, words};
}

TEST(AnswerHistory, KnowsAQuestionByItsWordsAndItsScope) {
  AnswerHistory history;
  history.record(asked("a"), {.result = StoreResult::kNoStore}, true);
  EXPECT_EQ(history.find(asked("a"))->result, StoreResult::kNoStore);
  EXPECT_FALSE(history.find(asked("b")).has_value());
  EXPECT_FALSE(history.find(asked("a", 2)).has_value());
}

TEST(AnswerHistory, ForgetsTheOldestBeyondItsCapacity) {
  AnswerHistory history(3);
  for (const char* words : {"a", "b", "a", "c", "d"}) history.record(asked(words), {}, true);
  EXPECT_EQ(history.size(), 3U);
  EXPECT_FALSE(history.find(asked("a")).has_value());
  for (const char* words : {"b", "c", "d"}) EXPECT_TRUE(history.find(asked(words))) << words;
}

TEST(AnswerHistory, ARefreshThatWasNotStoredLeavesTheStoredAnswerStanding) {
  AnswerHistory history;
  history.record(asked("a"), {.result = StoreResult::kStored}, true);
  history.record(asked("a"), {.result = StoreResult::kTruncated}, /*replaces=*/false);
  EXPECT_EQ(history.find(asked("a"))->result, StoreResult::kStored);
  history.record(asked("a"), {.result = StoreResult::kTruncated}, /*replaces=*/true);
  EXPECT_EQ(history.find(asked("a"))->result, StoreResult::kTruncated);
}

TEST(AnswerHistory, AMissIsExplainedByTheLookUpOrByWhatIsRemembered) {
  using Entry = AnswerHistory::Entry;
  const auto step = [](Verdict verdict) { return std::vector<MatchStep>{{.verdict = verdict}}; };
  const struct {
    const char* name;
    std::vector<MatchStep> steps;
    std::optional<Entry> known;
    MissReason expected;
    const char* says;
  } kCases[] = {
      {"never", step(Verdict::kMissed), std::nullopt, MissReason::kNeverSeen, "not seen"},
      {"not stored", step(Verdict::kMissed), Entry{.result = StoreResult::kTruncated},
       MissReason::kNotStored, "answers.cache_truncated"},
      {"expired and removed", step(Verdict::kMissed), Entry{.expires = 10s}, MissReason::kExpired,
       "expired"},
      {"expires later", step(Verdict::kMissed), Entry{.expires = 11s}, MissReason::kGone,
       "evicted or invalidated"},
      {"never expires", step(Verdict::kMissed), Entry{}, MissReason::kGone, "evicted"},
      {"expired just now", step(Verdict::kExpired), Entry{}, MissReason::kExpired, "expired"},
      {"too old for this request", step(Verdict::kTooOld), Entry{}, MissReason::kTooOld, "max-age"},
  };
  for (const auto& c : kCases) {
    const MissExplanation said = explain_miss(c.steps, c.known, 10s);
    EXPECT_EQ(said.reason, c.expected) << c.name;
    EXPECT_THAT(said.why, HasSubstr(c.says)) << c.name;
  }
}

TEST(AnswerHistory, WhatWasNeverSeenIsComparedWithTheClosestPrompt) {
  const PartPlace system{.kind = PartKind::kSystem};
  const struct {
    PromptReport prompt;
    const char* says;
  } kCases[] = {
      {{}, "asked nothing like it"},
      {{.divergence = {.shared_bytes = 8,
                       .total_bytes = 90,
                       .part = system,
                       .offset = 8,
                       .looks = Looks::kCounter}},
       "at system@8 (changed: counter)"},
      {{.divergence = {.total_bytes = 90, .part = system, .change = PartChange::kAdded}},
       "at system (added)"},
      {{.divergence = {.shared_bytes = 60, .total_bytes = 90}, .earlier = {.bytes = 60}},
       "goes on behind an earlier one"},
      {{.divergence = {.shared_bytes = 60, .total_bytes = 60}, .earlier = {.bytes = 90}},
       "goes on behind it"},
      {{.divergence = {.shared_bytes = 90, .total_bytes = 90}, .earlier = {.bytes = 90}},
       "another field of the request"},
  };
  for (const auto& c : kCases) EXPECT_THAT(differs_from_closest(c.prompt), HasSubstr(c.says));
}

}  // namespace
}  // namespace afterimage
