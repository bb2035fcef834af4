// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/draws/requester_filter.h"

#include <gtest/gtest.h>

#include "testing/seeds.h"

namespace afterimage {
namespace {

RequesterId somebody(Rng& rng) { return {.low = rng(), .high = rng()}; }

TEST(RequesterFilter, KnowsNobodyAtFirst) {
  const RequesterFilter filter;
  EXPECT_FALSE(filter.may_contain({.low = 0, .high = 0}));
  EXPECT_EQ(filter.size(), 0U);
}

TEST(RequesterFilterProperty, ForgetsNobodyAndTakesFewStrangersForMembers) {
  testing::for_each_seed(3, [](Rng& rng) {
    RequesterFilter filter;
    std::vector<RequesterId> members;
    while (filter.size() < RequesterFilter::kCapacity) {
      members.push_back(somebody(rng));
      ASSERT_TRUE(filter.add(members.back()));
    }
    for (const RequesterId& who : members) ASSERT_TRUE(filter.may_contain(who));
    int mistaken = 0;
    constexpr int kStrangers = 20'000;
    for (int i = 0; i < kStrangers; ++i) mistaken += filter.may_contain(somebody(rng)) ? 1 : 0;
    EXPECT_LT(mistaken, kStrangers * 3 / 100);
  });
}

TEST(RequesterFilter, WhenItIsFullAddsNobodyAndStillKnowsItsMembers) {
  Rng rng(1);
  RequesterFilter filter;
  const RequesterId first = somebody(rng);
  ASSERT_TRUE(filter.add(first));
  while (filter.size() < RequesterFilter::kCapacity) ASSERT_TRUE(filter.add(somebody(rng)));
  RequesterId stranger = somebody(rng);
  while (filter.may_contain(stranger)) stranger = somebody(rng);
  EXPECT_FALSE(filter.add(stranger));
  EXPECT_FALSE(filter.may_contain(stranger));
  EXPECT_TRUE(filter.add(first)) << "it is a member already";
}

}  // namespace
}  // namespace afterimage
