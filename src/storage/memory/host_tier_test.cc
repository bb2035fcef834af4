// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "afterimage/tier.h"
#include "testing/tier_conformance.h"

namespace afterimage {

using testing::tier_bytes;
using testing::tier_key;

namespace testing {

std::shared_ptr<Tier> make_host(Bytes capacity) {
  struct Standing {
    explicit Standing(Bytes bytes) : budget(bytes), tier(budget) {}
    MemoryBudget budget;
    HostTier tier;
  };
  const auto standing = std::make_shared<Standing>(capacity);
  return {standing, &standing->tier};
}

std::shared_ptr<Tier> make_stack(Bytes capacity) {
  struct Standing {
    explicit Standing(Bytes bytes) : near_room(bytes), far_room(bytes) {}
    MemoryBudget near_room;
    MemoryBudget far_room;
    HostTier near{near_room};
    HostTier far{far_room};
    TierStack stack{{&near, &far}};
  };
  const auto standing = std::make_shared<Standing>(capacity);
  return {standing, &standing->stack};
}

INSTANTIATE_TEST_SUITE_P(Host, TierConformance,
                         ::testing::Values(TierFactory{"host", make_host},
                                           TierFactory{"stack", make_stack}),
                         [](const auto& test) { return test.param.name; });

}  // namespace testing

namespace {

TEST(HostTier, EvictsTheLeastRecentlyUsedEntry) {
  MemoryBudget budget(300_B);
  MemoryBudget room(1_KiB);
  HostTier tier(budget);
  for (std::uint64_t n = 1; n <= 3; ++n) {
    ASSERT_TRUE(tier.put(tier_key(n), {}, tier_bytes(n, 100)).has_value());
  }
  ASSERT_TRUE(tier.get(tier_key(1), room).value().has_value());
  ASSERT_TRUE(tier.put(tier_key(4), {}, tier_bytes(4, 100)).has_value());
  EXPECT_TRUE(tier.may_contain(tier_key(1)));
  EXPECT_FALSE(tier.may_contain(tier_key(2)));
  EXPECT_EQ(budget.used(), 300_B);
}

TEST(HostTier, EveryFlippedBitIsAMissAndCounted) {
  MemoryBudget budget(1_KiB);
  MemoryBudget room(1_KiB);
  HostTier tier(budget);
  for (std::size_t bit = 0; bit < 800; ++bit) {
    ASSERT_TRUE(tier.put(tier_key(1), {}, tier_bytes(1, 100)).has_value());
    tier.bytes_for_test(tier_key(1))[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(tier.get(tier_key(1), room).value().has_value()) << bit;
    EXPECT_FALSE(tier.may_contain(tier_key(1)));
  }
  EXPECT_EQ(tier.stats().damaged, 800U);
  EXPECT_EQ(budget.used(), 0_B);
}

TEST(HostTier, DoesNotWaitForSpaceHeldByOthers) {
  MemoryBudget budget(300_B);
  HostTier tier(budget);
  const Reservation others = budget.reserve(250_B).value();
  ASSERT_TRUE(tier.put(tier_key(1), {}, tier_bytes(1, 50)).has_value());
  EXPECT_EQ(tier.put(tier_key(2), {}, tier_bytes(2, 100)).error().code, ErrorCode::kNoSpace);
}

}  // namespace
}  // namespace afterimage
