// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/prompt_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace afterimage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PromptReport parts_in_system() {
  PromptReport report{.reason = PromptReason::kDiverges};
  report.divergence = {.shared_bytes = 79,
                       .total_bytes = 4000,
                       .lost_bytes = 2000,
                       .part = PartPlace{.kind = PartKind::kSystem},
                       .offset = 79,
                       .looks = Looks::kTime};
  report.usage = {.prompt_tokens = 1000, .cached_tokens = 0};
  return report;
}

constexpr auto kDiverged = "afterimage_prefix_divergence_total{looks=\"time\",part=\"system\"} ";

TEST(PromptCounts, AReportIsCountedOnceWhenItIsSettled) {
  Metrics metrics;
  PromptCounts counts(metrics);
  counts.add(parts_in_system(), 7);
  EXPECT_THAT(metrics.text(), Not(HasSubstr(kDiverged))) << "the response waits for nothing";
  EXPECT_TRUE(counts.causes().empty());
  counts.settle();
  counts.settle();
  EXPECT_THAT(metrics.text(), HasSubstr(std::string(kDiverged) + "1"));
  ASSERT_EQ(counts.causes().size(), 1U);
  EXPECT_EQ(counts.causes()[0].requests, 1U);
  EXPECT_EQ(counts.causes()[0].decision, 7U);
}

TEST(PromptCounts, KeepsFewReportsThatNobodySettles) {
  Metrics metrics;
  PromptCounts counts(metrics);
  for (std::uint64_t decision = 1; decision <= 1000; ++decision) {
    counts.add(parts_in_system(), decision);
  }
  ASSERT_EQ(counts.causes().size(), 1U);
  EXPECT_GE(counts.causes()[0].requests, 900U);
}

TEST(PromptCounts, ForgetsTheExamplesOfReportsThatAreNotCountedYet) {
  Metrics metrics;
  PromptCounts counts(metrics);
  PromptReport report = parts_in_system();
  report.example = std::make_shared<const KeptExample>(
      KeptExample{.tenant_id = "acme", .tenant = "acme", .text = {}});
  counts.add(report, 7);
  counts.forget_examples([](std::string_view tenant) { return tenant == "acme"; });
  counts.settle();
  ASSERT_EQ(counts.causes().size(), 1U);
  EXPECT_EQ(counts.causes()[0].example, nullptr);
}

}  // namespace
}  // namespace afterimage
