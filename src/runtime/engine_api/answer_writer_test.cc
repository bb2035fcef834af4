// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/engine_api/answer_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace afterimage {
namespace {

TEST(AnswerWriter, EmitsWholeCharactersUpToAStopText) {
  Completion completion;
  std::vector<std::string> pieces;
  const GenerateOptions options{.on_text =
                                    [&](std::string_view more) {
                                      pieces.emplace_back(more);
                                      return true;
                                    },
                                .stop = {"END"}};
  AnswerWriter writer(options, completion);
  for (const char* bytes : {"a\xC3", "\xA9 E", "N", "D more"}) {
    ASSERT_TRUE(writer.add(bytes).has_value());
  }
  ASSERT_TRUE(writer.finish().has_value());
  EXPECT_EQ(pieces, (std::vector<std::string>{"a", "\xC3\xA9 "}));
  EXPECT_EQ(completion.text, "a\xC3\xA9 ");
  EXPECT_TRUE(completion.ended && completion.stopped);
}

TEST(AnswerWriter, EmitsAtTheEndWhatItHeldBack) {
  Completion completion;
  const GenerateOptions options{.stop = {"END"}};
  AnswerWriter writer(options, completion);
  ASSERT_TRUE(writer.add("the EN").has_value());
  EXPECT_EQ(completion.text, "the ");
  ASSERT_TRUE(writer.finish().has_value());
  EXPECT_EQ(completion.text, "the EN");
  EXPECT_FALSE(completion.stopped);
}

TEST(AnswerWriter, StopsWhenTheClientLeaves) {
  Completion completion;
  const GenerateOptions options{.on_text = [](std::string_view) { return false; }};
  AnswerWriter writer(options, completion);
  EXPECT_EQ(writer.add("a").error().code, ErrorCode::kCancelled);
}

TEST(LogprobsOf, AreThoseOfTheModelsDistribution) {
  constexpr std::array<float, 3> kOfThree{0, 1, 1};
  const auto spelled = [](TokenId token) { return std::string(1, "abc"[static_cast<int>(token)]); };
  const TokenLogprobs token = logprobs_of(kOfThree, TokenId(0), 2, spelled);
  EXPECT_EQ(token.chosen.bytes, "a");
  EXPECT_NEAR(token.chosen.logprob, -std::log(1 + 2 * std::exp(1)), 1e-6);
  ASSERT_EQ(token.top.size(), 2U);
  EXPECT_EQ(token.top[0].bytes, "b");
  EXPECT_EQ(token.top[1].bytes, "c");
  EXPECT_NEAR(token.top[0].logprob, token.chosen.logprob + 1, 1e-6);
  EXPECT_EQ(logprobs_of(kOfThree, TokenId(0), 9, spelled).top.size(), 3U);
}

}  // namespace
}  // namespace afterimage
