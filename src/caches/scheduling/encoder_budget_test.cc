// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "caches/scheduling/encoder_ledger.h"

namespace afterimage {
namespace {

constexpr EmbeddingCount n(std::uint64_t count) { return EmbeddingCount(count); }

EncoderBudgetRequest server() {
  return {.multimodal = true,
          .max_embeddings_per_item = {{"audio", n(1500)}, {"image", n(4800)}},
          .chunked_input_disabled = false,
          .max_num_batched_tokens = TokenCount(2048),
          .max_num_encoder_input_tokens = n(2048),
          .encoder_cache_size = n(2048)};
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(EncoderBudget, ATextModelHasNoEncoderBudget) {
  EncoderBudgetRequest request = server();
  request.multimodal = false;
  const EncoderBudget budget = compute_encoder_budget(request).value();
  EXPECT_EQ(budget.compute, n(0));
  EXPECT_EQ(budget.space, n(0));
  EXPECT_TRUE(budget.warnings.empty());
}

TEST(EncoderBudget, WarnsWhenAllModalitiesAreDisabled) {
  EncoderBudgetRequest request = server();
  request.max_embeddings_per_item.clear();
  request.chunked_input_disabled = true;
  const EncoderBudget budget = compute_encoder_budget(request).value();
  EXPECT_EQ(budget.compute, n(0));
  EXPECT_EQ(budget.space, n(0));
  ASSERT_EQ(budget.warnings.size(), 1U);
  EXPECT_TRUE(mentions(budget.warnings[0], "limit_mm_per_prompt"));
}

TEST(EncoderBudget, EachBudgetIsAtLeastTheLargestItem) {
  const struct {
    const char* name;
    EmbeddingCount compute, space, largest, expected_compute, expected_space;
  } kCases[] = {
      {"nothing configured", n(0), n(0), n(1), n(1), n(1)},
      {"one below", n(99), n(99), n(100), n(100), n(100)},
      {"equal", n(100), n(100), n(100), n(100), n(100)},
      {"one above", n(101), n(101), n(100), n(101), n(101)},
      {"each for itself", n(50), n(200), n(100), n(100), n(200)},
      {"an item of nothing", n(7), n(8), n(0), n(7), n(8)},
  };
  for (const auto& c : kCases) {
    EncoderBudgetRequest request = server();
    request.max_num_encoder_input_tokens = c.compute;
    request.encoder_cache_size = c.space;
    request.max_embeddings_per_item = {{"audio", n(0)}, {"image", c.largest}};
    const EncoderBudget budget = compute_encoder_budget(request).value();
    EXPECT_EQ(budget.compute, c.expected_compute) << c.name;
    EXPECT_EQ(budget.space, c.expected_space) << c.name;
  }
}

TEST(EncoderBudget, WithoutChunkingTheLargestItemMustFitOneStep) {
  EncoderBudgetRequest request = server();
  request.chunked_input_disabled = true;
  request.max_num_batched_tokens = TokenCount(4800);
  EXPECT_TRUE(compute_encoder_budget(request).has_value()) << "exactly";

  request.max_num_batched_tokens = TokenCount(4799);
  const auto refused = compute_encoder_budget(request);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  for (const char* part : {"image", "4800", "4799", "increase max_num_batched_tokens"}) {
    EXPECT_TRUE(mentions(refused.error().message, part)) << refused.error().message;
  }
  request.chunked_input_disabled = false;
  EXPECT_TRUE(compute_encoder_budget(request).has_value());
}

// vLLM #34040: "length 6042 exceeds pre-allocated encoder cache size 4800 ... can I configure it?"
TEST(EncoderBudget, AnOversizedItemGetsAdviceOnWhatToSet) {
  const EncoderBudgetRequest request = server();
  const EncoderBudget budget = compute_encoder_budget(request).value();
  EXPECT_TRUE(check_item_size("image", n(4800), request, budget).has_value());

  const auto broken = broken_limits("image", n(6042), request, budget);
  ASSERT_EQ(broken.size(), 2U);
  EXPECT_EQ(broken[0].setting, "encoder_cache_size");
  EXPECT_EQ(broken[0].limit, n(4800));
  EXPECT_EQ(broken[0].needed, n(6042));
  EXPECT_EQ(broken[1].setting, "max_num_encoder_input_tokens");

  const auto answer = check_item_size("image", n(6042), request, budget);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kLimitExceeded);
  for (const char* part : {"set encoder_cache_size to at least 6042", "now 4800", "smaller"}) {
    EXPECT_TRUE(mentions(answer.error().message, part)) << answer.error().message;
  }
}

TEST(EncoderBudget, FollowingTheAdviceAdmitsTheItem) {
  EncoderBudgetRequest by_setting = server();
  by_setting.encoder_cache_size = by_setting.max_num_encoder_input_tokens = n(6042);
  EncoderBudgetRequest by_declaring = server();
  by_declaring.max_embeddings_per_item["image"] = n(6042);
  for (const EncoderBudgetRequest& request : {by_setting, by_declaring}) {
    const EncoderBudget budget = compute_encoder_budget(request).value();
    EXPECT_TRUE(check_item_size("image", n(6042), request, budget).has_value());
  }
}

TEST(EncoderBudget, ReportsAnUnchunkedItemLargerThanAStep) {
  EncoderBudgetRequest request = server();
  request.chunked_input_disabled = true;
  request.max_num_batched_tokens = TokenCount(5000);
  request.encoder_cache_size = request.max_num_encoder_input_tokens = n(8000);
  const EncoderBudget budget = compute_encoder_budget(request).value();
  const auto broken = broken_limits("image", n(6042), request, budget);
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_EQ(broken[0].setting, "max_num_batched_tokens");
  EXPECT_EQ(broken[0].limit, n(5000));
}

TEST(EncoderBudget, RefusesAnyItemOfADisabledModality) {
  const EncoderBudgetRequest request = server();
  const EncoderBudget budget = compute_encoder_budget(request).value();
  const auto broken = broken_limits("video", n(0), request, budget);
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_TRUE(mentions(broken[0].advice, "video"));
}

}  // namespace
}  // namespace afterimage
