// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/template_order.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

/// Of a prompt of 11,000 tokens with 7,475 of tools, whose system prompt changed near its beginning.
PromptReport parted() {
  return first_report({.shared_bytes = 30'000,
                       .tools_bytes = 29'900,
                       .total_bytes = 44'000,
                       .lost_bytes = 10'000,
                       .part = PartPlace{.kind = PartKind::kSystem},
                       .offset = 79});
}
/// What is said before the server has counted `cached` tokens, which is learnt from.
PromptReport asked(TemplateOrder& order, std::uint64_t cached, std::string_view model = "m") {
  const PromptReport first = order.in_order(parted(), model);
  order.learn(first.divergence.tools_bytes > 0,
              with_usage(first, {.usage = {.prompt_tokens = 11'000, .cached_tokens = cached}}),
              model);
  return first;
}

TEST(TemplateOrder, WhatACountShowedIsSaidOfTheNextPromptBeforeItIsCounted) {
  TemplateOrder order;
  EXPECT_EQ(asked(order, 16).divergence.shared_bytes, 30'000U);
  EXPECT_EQ(asked(order, 16).divergence.shared_bytes, 100U);
  EXPECT_EQ(asked(order, 16, "another").divergence.shared_bytes, 30'000U);
}

TEST(TemplateOrder, IsThatOfTheRequestUntilACountShowsAnother) {
  TemplateOrder order;
  asked(order, 7'488);
  EXPECT_EQ(asked(order, 7'488).divergence.shared_bytes, 30'000U);
}

TEST(TemplateOrder, AnEvictionThatLookedLikeItIsTakenBack) {
  TemplateOrder order;
  asked(order, 0);
  EXPECT_EQ(asked(order, 7'488).divergence.shared_bytes, 100U);
  EXPECT_EQ(asked(order, 7'488).divergence.shared_bytes, 30'000U);
}

TEST(TemplateOrder, IsLearntOfSoManyModelsAtMost) {
  TemplateOrder order;
  for (std::size_t i = 0; i <= TemplateOrder::kMost; ++i) asked(order, 0, std::to_string(i));
  EXPECT_EQ(asked(order, 0, "0").divergence.shared_bytes, 100U);
  EXPECT_EQ(asked(order, 0, std::to_string(TemplateOrder::kMost)).divergence.shared_bytes, 30'000U);
}

}  // namespace
}  // namespace afterimage
