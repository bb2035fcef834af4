// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Tenants' shares of a memory, and the order of last use.
#include "policy/eviction/tenant_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "policy/eviction/governed_policy.h"
#include "policy/eviction/idle_order.h"
#include "policy/eviction/lru.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

constexpr EntryLabel kA{1};
constexpr EntryLabel kB{2};
constexpr EntryLabel kOther{3};

SlotId slot_at(std::uint32_t index) { return {.index = index, .generation = 0}; }

std::shared_ptr<MemoryShares> shares_of(const MemoryBudget& budget, double a, double b) {
  return MemoryShares::create(
             {{.name = "a", .owner = kA, .fraction = a}, {.name = "b", .owner = kB, .fraction = b}},
             budget)
      .value();
}

struct TenantPolicyTest : ::testing::Test {
  void insert(std::uint32_t index, EntryLabel owner, Bytes bytes = 1_KiB) {
    policy.insert(slot_at(index), {.bytes = bytes, .owner = owner});
  }
  MemoryBudget budget{100_KiB};
  std::shared_ptr<MemoryShares> shares = shares_of(budget, 0.5, 0.2);
  TenantPolicy policy{shares, [] { return std::make_unique<Lru>(); }};
};

TEST_F(TenantPolicyTest, TheVictimIsOfTheOwnerThatExceedsItsShareTheMost) {
  insert(0, kA, 40_KiB);      // 0.8 of its share
  insert(1, kB, 21_KiB);      // 1.05
  insert(2, kOther, 33_KiB);  // 1.1 of the 30 KiB that are left
  EXPECT_EQ(policy.victim(), slot_at(2));
  EXPECT_NEAR(policy.victim_overuse(), 1.1, 0.001);
  insert(3, kB, 10_KiB);  // 1.55
  EXPECT_EQ(policy.victim(), slot_at(1)) << "the older of its two";
  policy.park(slot_at(1));
  policy.park(slot_at(3));
  EXPECT_EQ(policy.victim(), slot_at(2)) << "nothing of the other can be evicted";
}

TEST_F(TenantPolicyTest, UseIsCountedOverAllCachesThatShareTheMemory) {
  TenantPolicy other_cache(shares, [] { return std::make_unique<Lru>(); });
  other_cache.insert(slot_at(0), {.bytes = 60_KiB, .owner = kA});
  insert(0, kA, 1_KiB);
  insert(1, kB, 10_KiB);
  EXPECT_EQ(policy.victim(), slot_at(0));
  other_cache.erase(slot_at(0), RemovalReason::kErased);
  EXPECT_EQ(policy.victim(), slot_at(1));
}

TEST_F(TenantPolicyTest, SharesShrinkWithTheBudget) {
  insert(0, kA, 10_KiB);
  budget.set_capacity(10_KiB);
  EXPECT_DOUBLE_EQ(policy.victim_overuse(), 2);
  EXPECT_EQ(shares->share(1), 5_KiB);
}

TEST_F(TenantPolicyTest, AnOwnerWithoutAShareThatIsLeftIsEvictedFirst) {
  const auto all = shares_of(budget, 0.5, 0.5);
  TenantPolicy full(all, [] { return std::make_unique<Lru>(); });
  full.insert(slot_at(0), {.bytes = 90_KiB, .owner = kA});
  full.insert(slot_at(1), {.bytes = 1_KiB, .owner = kOther});
  EXPECT_EQ(full.victim(), slot_at(1));
}

TEST_F(TenantPolicyTest, ASplitKeepsTheOwnerAndCountsBothHalves) {
  insert(0, kB, 8_KiB);
  policy.split(slot_at(0), {.bytes = 5_KiB, .parent = slot_at(1), .owner = kB}, slot_at(1),
               {.bytes = 4_KiB, .owner = kB});
  EXPECT_EQ(shares->used(2), 9_KiB);
  policy.erase(slot_at(0), RemovalReason::kEvicted);
  EXPECT_EQ(shares->used(2), 4_KiB);
}

TEST(TenantPolicyProperty, WhatIsCountedIsWhatThePoliciesHold) {
  testing::for_each_seed(20, [](Rng& rng) {
    const MemoryBudget budget(100_KiB);
    const auto shares = shares_of(budget, 0.3, 0.3);
    {
      const auto policy =
          make_governed_policy({.policy = "worth", .shares = shares, .keep_idle_order = true})
              .value();
      std::map<std::uint32_t, std::pair<EntryLabel, Bytes>> held;
      for (std::uint32_t i = 0; i < 300; ++i) {
        policy->begin_request({.now = Duration(i)});
        if (held.size() > 20 || (!held.empty() && rng.chance(0.3))) {
          const auto victim = policy->victim();
          ASSERT_TRUE(victim.has_value());
          // It is of an owner that no other one exceeds.
          const auto [owner, bytes] = held.at(victim->index);
          for (std::size_t group = 0; group < shares->groups(); ++group) {
            ASSERT_GE(shares->overuse(shares->group_of(owner)), shares->overuse(group));
          }
          policy->erase(*victim, RemovalReason::kEvicted);
          held.erase(victim->index);
        } else {
          const EntryLabel owner{1 + rng.below(3)};
          const Bytes bytes(1 + rng.below(5000));
          policy->insert(slot_at(i), {.bytes = bytes, .cost = 1ms, .owner = owner});
          held.emplace(i, std::pair(owner, bytes));
        }
        std::map<std::size_t, Bytes> sums;
        for (const auto& [index, entry] : held) {
          sums[shares->group_of(entry.first)] += entry.second;
        }
        for (std::size_t group = 0; group < shares->groups(); ++group) {
          ASSERT_EQ(shares->used(group), sums[group]);
        }
      }
    }
    for (std::size_t group = 0; group < shares->groups(); ++group) {
      ASSERT_EQ(shares->used(group), 0_B) << "a cache that ends gives everything back";
    }
  });
}

TEST(MemoryShares, RefusesSharesThatCannotBe) {
  const MemoryBudget budget(1_MiB);
  const auto refused = [&](std::vector<OwnerShare> shares) {
    const auto made = MemoryShares::create(std::move(shares), budget);
    return made.has_value() ? std::string() : made.error().message;
  };
  EXPECT_EQ(refused({{.name = "a", .owner = kA, .fraction = 1}}), "");
  EXPECT_THAT(refused({{.name = "a", .owner = kA, .fraction = 0}}),
              ::testing::HasSubstr("above 0"));
  EXPECT_THAT(refused({{.name = "a", .owner = kA, .fraction = 0.6},
                       {.name = "b", .owner = kB, .fraction = 0.5}}),
              ::testing::HasSubstr("exceed 1"));
  EXPECT_THAT(refused({{.name = "a", .owner = kA, .fraction = 0.1},
                       {.name = "a", .owner = kA, .fraction = 0.1}}),
              ::testing::HasSubstr("two shares"));
}

TEST(IdleOrder, TheEntryThatWasUsedLeastRecentlyIsIdleFirst) {
  IdleOrder policy(std::make_unique<Lru>());
  for (std::uint32_t i = 0; i < 3; ++i) {
    policy.begin_request({.now = std::chrono::seconds(i)});
    policy.insert(slot_at(i), {.bytes = 1_KiB});
  }
  policy.begin_request({.now = 3s});
  policy.touch(slot_at(0));
  EXPECT_EQ(policy.idle_victim(1s), std::nullopt) << "used at 1 s is not before 1 s";
  EXPECT_EQ(policy.idle_victim(2s), slot_at(1));
  policy.park(slot_at(1));
  EXPECT_EQ(policy.idle_victim(10s), slot_at(2));
  policy.begin_request({.now = 5s});
  policy.unpark(slot_at(1));
  policy.erase(slot_at(2), RemovalReason::kEvicted);
  EXPECT_EQ(policy.idle_victim(4s), slot_at(0));
  policy.erase(slot_at(0), RemovalReason::kEvicted);
  EXPECT_EQ(policy.idle_victim(5s), std::nullopt) << "in use until 5 s";
}

TEST(IdleOrder, BothHalvesOfASplitWereUsedWhenTheWholeWasTheLeafFirst) {
  IdleOrder policy(std::make_unique<Lru>());
  policy.begin_request({.now = 1s});
  policy.insert(slot_at(0), {.bytes = 2_KiB});
  policy.begin_request({.now = 9s});
  policy.split(slot_at(0), {.bytes = 1_KiB, .parent = slot_at(1)}, slot_at(1), {.bytes = 1_KiB});
  EXPECT_EQ(policy.idle_victim(2s), slot_at(0));
  policy.erase(slot_at(0), RemovalReason::kEvicted);
  EXPECT_EQ(policy.idle_victim(2s), slot_at(1));
}

}  // namespace
}  // namespace afterimage
