// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "afterimage/answer.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

const Answer kAnswer{.text = "A cat.\n",
                     .finish_reason = "stop",
                     .model = "m",
                     .prompt_tokens = TokenCount(300),
                     .output_tokens = TokenCount(3),
                     .record = R"({"content":"A cat.\n"})"};

TEST(AnswerRecord, ComesBackAsItWas) {
  EXPECT_EQ(from_record(to_record(kAnswer)), kAnswer);
  EXPECT_EQ(from_record(to_record(Answer{})), Answer{});
  Answer odd = kAnswer;
  odd.text = std::string("\0\xFF首", 5);
  odd.output_tokens = TokenCount::max();
  EXPECT_EQ(from_record(to_record(odd)), odd);
}

TEST(AnswerRecord, OnlyAnAnswerThatStoppedIsComplete) {
  Answer answer = kAnswer;
  EXPECT_TRUE(is_whole(answer));
  for (const char* reason : {"", "length", "content_filter", "tool_calls", "error"}) {
    answer.finish_reason = reason;
    EXPECT_FALSE(is_whole(answer)) << reason;
  }
}

// Seed 002 unpickled its cache files: anyone who could write them could execute code.
TEST(Seed002, s14_ARecordIsDataOnly) {
  const std::vector<std::byte> record = to_record(kAnswer);
  for (std::size_t size = 0; size < record.size(); ++size) {
    EXPECT_FALSE(from_record(std::span(record).first(size)).has_value()) << size;
  }
  std::vector<std::byte> longer = record;
  longer.push_back(std::byte{0});
  EXPECT_EQ(from_record(longer).error().code, ErrorCode::kCorruption);
}

TEST(AnswerRecordProperty, AnyBytesParseToOneAnswerOrAnError) {
  const std::vector<std::byte> record = to_record(kAnswer);
  testing::for_each_seed(5'000, [&](Rng& rng) {
    std::vector<std::byte> bytes = record;
    for (std::uint64_t edits = 1 + rng.below(3); edits > 0; --edits) {
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.below(256));
    }
    const auto answer = from_record(bytes);
    if (answer.has_value()) {
      ASSERT_EQ(to_record(*answer), bytes);
    }
  });
}

}  // namespace
}  // namespace afterimage
