// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/prefix_causes.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

/// A prompt of 1,000 tokens that parts from the earlier one in this part.
PromptReport parts_in(PartKind part, Looks looks, std::uint64_t offset) {
  PromptReport report{.reason = PromptReason::kDiverges};
  report.divergence = {.shared_bytes = offset,
                       .total_bytes = 4000,
                       .lost_bytes = 2000,
                       .part = PartPlace{.kind = part},
                       .offset = offset,
                       .looks = looks};
  report.usage = {.prompt_tokens = 1000, .cached_tokens = 0};
  return report;
}

TEST(PrefixCauses, TheOneThatCostsTheMostIsFirst) {
  PrefixCauses causes;
  causes.add(parts_in(PartKind::kTools, Looks::kNone, 8), 1);
  causes.add(parts_in(PartKind::kSystem, Looks::kTime, 79), 2);
  causes.add(parts_in(PartKind::kSystem, Looks::kTime, 80), 3);
  const auto list = causes.list();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].cause.part, PartKind::kSystem);
  EXPECT_EQ(list[0].requests, 2U);
  EXPECT_EQ(list[0].tokens, 1000U);
  EXPECT_EQ(list[0].place, "system@80");
  EXPECT_EQ(list[0].decision, 3U);
  EXPECT_EQ(list[1].requests, 1U);
}

TEST(PrefixCauses, TheNewestDecisionIsNamedInWhateverOrderTheyEnd) {
  PrefixCauses causes;
  causes.add(parts_in(PartKind::kSystem, Looks::kTime, 79), 5);
  causes.add(parts_in(PartKind::kSystem, Looks::kTime, 79), 4);
  const auto list = causes.list();
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].decision, 5U);
}

TEST(PrefixCauses, WhatLosesNothingIsNoCause) {
  PrefixCauses causes;
  causes.add({.reason = PromptReason::kKept}, 1);
  causes.add({.reason = PromptReason::kNeverSeen}, 2);
  EXPECT_TRUE(causes.list().empty());
}

TEST(PrefixCauses, AServerThatEvictedIsACauseWithoutAPlace) {
  PrefixCauses causes;
  PromptReport report{.reason = PromptReason::kEvicted};
  report.divergence = {.shared_bytes = 4000, .total_bytes = 4000};
  report.usage = {.prompt_tokens = 1000, .cached_tokens = 0};
  causes.add(report, 7);
  const auto list = causes.list();
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].tokens, 1000U);
  EXPECT_EQ(list[0].place, "");
}

TEST(PrefixCauses, EachHasARemedy) {
  for (std::size_t part = 0; part < kPartKinds; ++part) {
    EXPECT_NE(remedy({.part = static_cast<PartKind>(part)}), "") << part;
  }
  for (const auto reason : {PromptReason::kEvicted, PromptReason::kOverwritten,
                            PromptReason::kOtherReplica, PromptReason::kServerRestarted}) {
    EXPECT_NE(remedy({.reason = reason}), "") << to_string(reason);
  }
}

}  // namespace
}  // namespace afterimage
