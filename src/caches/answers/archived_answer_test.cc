// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/answers/archived_answer.h"

#include <gtest/gtest.h>

#include "caches/answers/testing/questions.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

ArchivedAnswer an_archived_answer() {
  ArchivedAnswer archived{.scope = testing::scope(3),
                          .question = "What is it?",
                          .invalidations = 7,
                          .stored_at = WallTime(100s),
                          .expires = WallTime(200s),
                          .cost = 2s,
                          .owner = TenantId("ann"),
                          .tags = {"doc:1", ""},
                          .answer = testing::answer("A cat.")};
  archived.scope.loosest = MatchLevel::kCanonical;
  archived.answer.record = R"({"content":"A cat."})";
  return archived;
}

TEST(ArchivedAnswer, ComesBackAsItWas) {
  const ArchivedAnswer archived = an_archived_answer();
  EXPECT_EQ(archived_answer_from(to_bytes(archived)), archived);
  ArchivedAnswer bare{.answer = testing::answer("")};
  EXPECT_EQ(archived_answer_from(to_bytes(bare)), bare);
  EXPECT_EQ(archived_question_from(archived_question_bytes("What?")), "What?");
}

TEST(ArchivedAnswer, ATruncatedRecordIsRejected) {
  const auto bytes = to_bytes(an_archived_answer());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(archived_answer_from(std::span(bytes).first(size)).has_value()) << size;
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(archived_answer_from(longer).error().code, ErrorCode::kCorruption);
  EXPECT_FALSE(archived_question_from(bytes).has_value()) << "the two formats are distinct";
  EXPECT_FALSE(archived_answer_from(archived_question_bytes("What?")).has_value());
}

TEST(ArchivedAnswer, KeepsTheFinishReasonOfATruncatedAnswer) {
  ArchivedAnswer cut = an_archived_answer();
  cut.answer.finish_reason = "length";
  EXPECT_EQ(archived_answer_from(to_bytes(cut)), cut);
}

TEST(ArchivedAnswerProperty, AnyBytesParseToOneArchivedAnswerOrAnError) {
  const auto whole = to_bytes(an_archived_answer());
  testing::for_each_seed(5'000, [&](Rng& rng) {
    auto bytes = whole;
    for (std::uint64_t edits = 1 + rng.below(3); edits > 0; --edits) {
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.below(256));
    }
    const auto archived = archived_answer_from(bytes);
    if (archived.has_value()) {
      ASSERT_EQ(to_bytes(*archived), bytes);
    }
  });
}

}  // namespace
}  // namespace afterimage
