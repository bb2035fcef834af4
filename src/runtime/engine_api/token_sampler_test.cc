// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/engine_api/token_sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace afterimage {
namespace {

constexpr std::array<float, 5> kLogits{1, 3, 2, 3, -1};

Sequence prompt_of(std::vector<TokenId> tokens) {
  return {.tokens = std::move(tokens), .spans = {}};
}

/// The distinct tokens of many draws.
std::set<int> drawn(SamplingOptions options, const Sequence& prompt = prompt_of({TokenId(0)})) {
  std::set<int> tokens;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    options.seed = seed;
    tokens.insert(static_cast<int>(TokenSampler(options, prompt).next(kLogits)));
  }
  return tokens;
}

TEST(TokenSampler, IsGreedyByDefaultAndTakesTheLowestId) {
  const SamplingOptions greedy;
  EXPECT_EQ(TokenSampler(greedy, prompt_of({TokenId(1)})).next(kLogits), TokenId(1));
}

TEST(MostLikely, IsTheFirstOfTheHighestWhereverItIs) {
  for (std::size_t size = 1; size < 40; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      std::vector<float> logits(size, -2);
      logits[at] = logits[size - 1] = -1;
      EXPECT_EQ(most_likely(logits), static_cast<TokenId>(at)) << size;
    }
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(most_likely(std::vector<float>(20, -infinity)), TokenId(0));
  EXPECT_EQ(most_likely(std::vector<float>(20, std::nanf(""))), TokenId(0));
}

TEST(TokenSampler, DrawsFromWhatIsLeft) {
  const struct {
    const char* name;
    SamplingOptions options;
    std::set<int> expected;
  } kCases[] = {
      {"all", {.temperature = 5}, {0, 1, 2, 3, 4}},
      {"top_k", {.temperature = 5, .top_k = 3}, {1, 2, 3}},
      {"top_k of one", {.temperature = 5, .top_k = 1}, {1}},
      {"top_p", {.temperature = 5, .top_p = 0.7F}, {1, 3}},
      {"top_p of nothing keeps one", {.temperature = 5, .top_p = 0}, {1}},
      {"min_p", {.temperature = 5, .min_p = 0.3F}, {1, 2, 3}},
      {"a low temperature", {.temperature = 0.01F}, {1, 3}},
      {"a bias", {.temperature = 0.01F, .logit_bias = {{TokenId(4), 100}}}, {4}},
  };
  for (const auto& c : kCases) EXPECT_EQ(drawn(c.options), c.expected) << c.name;
}

TEST(TokenSampler, PenalizesTokensOfThePromptAndTheAnswer) {
  const Sequence prompt = prompt_of({TokenId(1), TokenId(1), TokenId(3)});
  const struct {
    const char* name;
    SamplingOptions options;
    int expected;
  } kCases[] = {
      {"presence", {.presence_penalty = 2}, 2},
      {"frequency", {.frequency_penalty = 0.6F}, 3},
      {"repetition", {.repeat_penalty = 2}, 2},
      {"a window without token 1", {.presence_penalty = 2, .penalty_window = 1}, 1},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(static_cast<int>(TokenSampler(c.options, prompt).next(kLogits)), c.expected)
        << c.name;
  }
  const SamplingOptions once{.presence_penalty = 5};
  TokenSampler sampler(once, prompt_of({TokenId(4)}));
  std::vector<int> tokens;
  for (int i = 0; i < 4; ++i) tokens.push_back(static_cast<int>(sampler.next(kLogits)));
  EXPECT_EQ(tokens, (std::vector<int>{1, 3, 2, 0}));
}

TEST(TokenSampler, DrawsTheSameWithTheSameSeed) {
  const SamplingOptions options{.temperature = 2, .seed = 7};
  TokenSampler one(options, prompt_of({TokenId(0)}));
  TokenSampler other(options, prompt_of({TokenId(0)}));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(one.next(kLogits), other.next(kLogits));
}

TEST(TokenSampler, SeesNoPlaceholderOfMedia) {
  Sequence prompt = prompt_of({TokenId(1), TokenId(0), TokenId(0), TokenId(2)});
  prompt.spans.push_back({.offset = TokenCount(1), .length = TokenCount(2)});
  EXPECT_EQ(text_tokens_of(prompt), (std::vector<TokenId>{TokenId(1), TokenId(2)}));
}

TEST(TokenSampler, LimitsTheAnswerToTheContext) {
  const Sequence prompt = prompt_of({TokenId(1), TokenId(2)});
  EXPECT_EQ(answer_limit(prompt, kNoTokenLimit, TokenCount(10)), TokenCount(8));
  EXPECT_EQ(answer_limit(prompt, TokenCount(8), TokenCount(10)), TokenCount(8));
  EXPECT_EQ(answer_limit(prompt, TokenCount(9), TokenCount(10)), TokenCount(8))
      << "clients name limits of larger models";
  EXPECT_EQ(answer_limit(prompt, TokenCount(9), TokenCount(2)).error().code,
            ErrorCode::kLimitExceeded);
  EXPECT_EQ(answer_limit(prompt, TokenCount(0), TokenCount(2)), TokenCount(0));
  EXPECT_EQ(answer_limit(prompt, kNoTokenLimit, TokenCount(2)).error().code,
            ErrorCode::kLimitExceeded);
}

}  // namespace
}  // namespace afterimage
