// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "afterimage/memory_budget.h"
#include "foundation/platform/random.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

TEST(MemoryBudget, ReservesAndReleases) {
  MemoryBudget budget(100_B);
  {
    const Reservation first = budget.reserve(60_B).value();
    EXPECT_EQ(budget.used(), 60_B);
    const auto second = budget.reserve(41_B);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, ErrorCode::kNoSpace);
    EXPECT_EQ(second.error().message, "no space for 41 bytes: 60 of 100 are in use");
    EXPECT_TRUE(budget.reserve(40_B).has_value());
  }
  EXPECT_EQ(budget.used(), 0_B);
  EXPECT_EQ(budget.peak(), 100_B);
}

TEST(MemoryBudget, AMovedReservationIsReleasedOnce) {
  MemoryBudget budget(10_B);
  Reservation a = budget.reserve(4_B).value();
  Reservation b = std::move(a);
  EXPECT_EQ(budget.used(), 4_B);
  b = budget.reserve(6_B).value();
  EXPECT_EQ(budget.used(), 6_B);
  b = Reservation();
  EXPECT_EQ(budget.used(), 0_B);
}

TEST(MemoryBudget, SizesNearTheLimitOfTheTypeDoNotWrap) {
  MemoryBudget budget(Bytes::max());
  const Reservation all_but_one = budget.reserve(Bytes::max() - 1_B).value();
  EXPECT_FALSE(budget.reserve(Bytes::max()).has_value());
  EXPECT_FALSE(budget.reserve(2_B).has_value());
  EXPECT_TRUE(budget.reserve(1_B).has_value());
}

TEST(MemoryBudget, ShrinkingKeepsReservationsAndRefusesNewOnes) {
  MemoryBudget budget(100_B);
  Reservation held = budget.reserve(80_B).value();
  budget.set_capacity(50_B);
  EXPECT_EQ(budget.used(), 80_B);
  EXPECT_FALSE(budget.reserve(1_B).has_value());
  held = Reservation();
  EXPECT_TRUE(budget.reserve(50_B).has_value());
}

TEST(MemoryBudget, AReservationThatOutlivesItsBudgetIsABrokenInvariant) {
  EXPECT_DEATH(
      {
        auto budget = std::make_unique<MemoryBudget>(10_B);
        const Reservation held = budget->reserve(1_B).value();
        budget.reset();
      },
      "broken invariant");
}

TEST(MemoryBudget, HoldsAtEveryMomentUnderConcurrency) {
  MemoryBudget budget(1000_B);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(t);
      std::vector<Reservation> held;
      for (int i = 0; i < 20'000; ++i) {
        if (auto room = budget.reserve(Bytes(rng.below(400)))) held.push_back(*std::move(room));
        if (budget.used() > budget.capacity()) over = true;
        if (held.size() > 3 || rng.chance(0.5)) held.clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(over);
  EXPECT_LE(budget.peak(), 1000_B);
  EXPECT_EQ(budget.used(), 0_B);
}

}  // namespace
}  // namespace afterimage
