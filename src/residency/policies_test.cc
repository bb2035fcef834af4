// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "afterimage/residency/hinted.h"
#include "afterimage/residency/lfu.h"
#include "afterimage/residency/lru.h"
#include "afterimage/residency/stability_floor.h"
#include "afterimage/testing/policy_conformance.h"

namespace afterimage {
namespace testing {

INSTANTIATE_TEST_SUITE_P(
    Policies, PolicyConformance,
    ::testing::Values(PolicyFactory{"lru", [] { return std::make_unique<Lru>(); }},
                      PolicyFactory{"lfu", [] { return std::make_unique<AgedLfu>(); }},
                      PolicyFactory{"hinted",
                                    [] {
                                      return std::make_unique<HintedPolicy>(
                                          std::make_unique<Lru>(), HintedPolicy::Options{});
                                    }}),
    [](const auto& param_info) { return param_info.param.name; });

}  // namespace testing

namespace {

constexpr EntryFacts kFacts{.bytes = 1_KiB};

SlotId slot(std::uint32_t index) { return {.index = index, .generation = 0}; }

void evict(EvictionPolicy& policy, std::uint32_t expected) {
  ASSERT_EQ(policy.victim(), slot(expected));
  policy.erase(slot(expected), Leaving::kEvicted);
}

TEST(Lru, TheOneUsedLongestAgoLeaves) {
  Lru lru;
  for (std::uint32_t i = 0; i < 3; ++i) lru.insert(slot(i), kFacts);
  lru.touch(slot(0));
  evict(lru, 1);
  evict(lru, 2);
  evict(lru, 0);
}

TEST(Lru, AgreesWithAnObviousModel) {
  testing::for_each_seed(50, [](Rng& rng) {
    Lru lru;
    std::deque<std::uint32_t> model;  // least recently used first
    for (int step = 0; step < 500; ++step) {
      const auto i = static_cast<std::uint32_t>(rng.below(40));
      const auto it = std::ranges::find(model, i);
      if (it == model.end()) {
        lru.insert(slot(i), kFacts);
      } else {
        lru.touch(slot(i));
        model.erase(it);
      }
      model.push_back(i);
      if (model.size() > 20) {
        ASSERT_EQ(lru.victim(), slot(model.front())) << "step " << step;
        lru.erase(slot(model.front()), Leaving::kEvicted);
        model.pop_front();
      }
    }
  });
}

// Seed 000 V1: its "LFU" was an LRU, and three one-shot entries pushed out one with 1,000 hits.
TEST(AgedLfu, AThousandHitsSurviveAScan) {
  AgedLfu lfu;
  lfu.insert(slot(0), kFacts);
  for (int i = 0; i < 1000; ++i) lfu.touch(slot(0));
  lfu.insert(slot(1), kFacts);
  lfu.insert(slot(2), kFacts);
  for (std::uint32_t scanned = 3; scanned < 300; ++scanned) {
    const auto victim = lfu.victim();
    ASSERT_NE(victim, slot(0)) << "after " << scanned;
    lfu.erase(*victim, Leaving::kEvicted);
    lfu.insert(slot(scanned), kFacts);
  }
}

TEST(AgedLfu, FewerUsesLeaveFirstAndOlderUsesBreakTies) {
  AgedLfu lfu;
  for (std::uint32_t i = 0; i < 4; ++i) lfu.insert(slot(i), kFacts);
  lfu.touch(slot(1));
  lfu.touch(slot(0));
  lfu.touch(slot(3));
  lfu.touch(slot(3));
  evict(lfu, 2);
  evict(lfu, 1);
  evict(lfu, 0);
  evict(lfu, 3);
}

TEST(AgedLfu, YesterdaysFavouriteIsOvertaken) {
  AgedLfu lfu;
  lfu.insert(slot(0), kFacts);
  for (int i = 0; i < 20; ++i) lfu.touch(slot(0));
  bool left = false;
  // Newcomers that are each used twice raise the rank at which entries leave.
  for (std::uint32_t i = 1; i < 100 && !left; ++i) {
    lfu.insert(slot(i), kFacts);
    lfu.touch(slot(i));
    if (i > 4) {
      const SlotId victim = lfu.victim().value();
      left = victim == slot(0);
      lfu.erase(victim, Leaving::kEvicted);
    }
  }
  EXPECT_TRUE(left);
}

TEST(AgedLfu, AnEntryErasedByItsOwnerDoesNotAgeTheOthers) {
  AgedLfu lfu;
  lfu.insert(slot(0), kFacts);
  lfu.insert(slot(1), kFacts);
  for (int i = 0; i < 50; ++i) lfu.touch(slot(1));
  lfu.erase(slot(1), Leaving::kErased);  // not a victim: its high rank must not become the age
  lfu.touch(slot(0));
  lfu.insert(slot(2), kFacts);
  evict(lfu, 2);
}

// A heap that keeps what is gone would grow with every entry that was ever erased.
TEST(EvictionOrder, ErasedEntriesDoNotPileUp) {
  EvictionOrder order;
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const SlotId fresh{.index = i % 10, .generation = i};
    order.insert(fresh, {.value = i, .last_use = i});
    if (i % 10 == 9) {
      for (std::uint32_t gone = i - 9; gone <= i; ++gone) {
        order.erase({.index = gone % 10, .generation = gone});
      }
    }
  }
  EXPECT_LE(order.hints(), 200U);
  EXPECT_EQ(order.first(), std::nullopt);
}

TEST(QueueFloor, CountsWhatRequestsInFlightHold) {
  EXPECT_EQ(QueueFloor({10, 2, 3}).minimum_entries().value(), 69U);
  EXPECT_EQ(QueueFloor({}).minimum_entries().value(), 0U);
  EXPECT_EQ(QueueFloor({-1, 2, -3}).minimum_entries().value(), 0U);
  EXPECT_EQ(QueueFloor({1e300, 1e300, 1}).minimum_entries().value(), 0U);
}

}  // namespace
}  // namespace afterimage
