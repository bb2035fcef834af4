// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <deque>
#include <utility>

#include "afterimage/memory_budget.h"

namespace afterimage {
namespace {

/// A client with entries ordered by worth, the least first.
struct FakeCache final : BudgetClient {
  explicit FakeCache(MemoryBudget& of) : budget(of) {}

  void hold(Bytes bytes, std::optional<double> worth) {
    entries.emplace_back(budget.reserve(bytes).value(), worth);
  }
  [[nodiscard]] Bytes resident() const {
    Bytes sum;
    for (const auto& [room, worth] : entries) sum += room.bytes();
    return sum;
  }
  std::optional<EvictionCandidate> eviction_candidate() override {
    if (entries.empty() || held) return std::nullopt;
    return EvictionCandidate{
        .resident = resident(), .worth = entries.front().second, .overuse = overuse};
  }
  Bytes evict_bytes(Bytes wanted) override {
    Bytes freed;
    while (freed < wanted && !entries.empty() && !stubborn) {
      freed += entries.front().first.bytes();
      entries.pop_front();
    }
    return freed;
  }
  Bytes trim_to_budget() override {
    Bytes freed;
    while (budget.used() > budget.capacity() && !entries.empty()) {
      freed += entries.front().first.bytes();
      entries.pop_front();
    }
    return freed;
  }
  void block_admission(bool blocked) override { is_blocked = blocked; }

  MemoryBudget& budget;
  std::deque<std::pair<Reservation, std::optional<double>>> entries;
  double overuse = 0;
  bool held = false;      // all pinned, or under a floor
  bool stubborn = false;  // reports a candidate and evicts nothing
  bool is_blocked = false;
};

struct SharedBudgetTest : ::testing::Test {
  SharedBudgetTest() {
    shared.join(a);
    shared.join(b);
  }
  MemoryBudget budget{100_MiB};
  FakeCache a{budget};
  FakeCache b{budget};
  SharedBudget shared{budget};
};

TEST_F(SharedBudgetTest, EvictsTheLeastWorthInAnyCache) {
  for (int i = 0; i < 5; ++i) {
    a.hold(10_MiB, 1 + i);  // 1 2 3 4 5
    b.hold(10_MiB, 2.5 + i);
  }
  shared.make_room(40_MiB);  // 1, 2, 2.5, 3
  EXPECT_EQ(a.entries.size(), 2U);
  EXPECT_EQ(b.entries.size(), 4U);
  EXPECT_EQ(budget.used(), 60_MiB);
}

TEST_F(SharedBudgetTest, EvictsFromTheTenantThatExceedsItsShareTheMost) {
  a.hold(40_MiB, 1);
  b.hold(40_MiB, 9);
  a.overuse = 0.9;  // within its share
  b.overuse = 1.2;
  shared.make_room(40_MiB);
  EXPECT_EQ(a.entries.size(), 1U) << "although it is worth less";
  EXPECT_EQ(b.entries.size(), 0U);
  b.hold(40_MiB, 9);
  b.overuse = 0.2;
  shared.make_room(40_MiB);
  EXPECT_EQ(b.entries.size(), 1U) << "within shares, worth decides";
}

TEST_F(SharedBudgetTest, EvictsNothingWhenItFitsOrCannotFit) {
  a.hold(60_MiB, 1);
  shared.make_room(40_MiB);
  shared.make_room(101_MiB);
  EXPECT_EQ(budget.used(), 60_MiB);
  shared.make_room(100_MiB);
  EXPECT_EQ(budget.used(), 0_B);
}

TEST_F(SharedBudgetTest, WithoutWorthTheLargestCacheEvicts) {
  for (int i = 0; i < 7; ++i) a.hold(10_MiB, std::nullopt);
  for (int i = 0; i < 3; ++i) b.hold(10_MiB, 0.001);
  shared.make_room(40_MiB);
  EXPECT_EQ(a.resident(), 30_MiB);
  EXPECT_EQ(b.resident(), 30_MiB);
  shared.make_room(80_MiB);
  EXPECT_EQ(a.resident(), 10_MiB);
  EXPECT_EQ(b.resident(), 10_MiB);
}

TEST_F(SharedBudgetTest, EvictsFromOthersWhatOneHasPinned) {
  a.hold(50_MiB, 1);
  a.held = true;
  b.hold(50_MiB, 100);
  shared.make_room(10_MiB);
  EXPECT_EQ(a.resident(), 50_MiB);
  EXPECT_EQ(b.resident(), 0_B);
  shared.make_room(60_MiB);  // more than can be freed
  EXPECT_EQ(budget.used(), 50_MiB);
}

TEST_F(SharedBudgetTest, StopsWhenACandidateFreesNothing) {
  a.hold(50_MiB, 1);
  a.stubborn = true;
  b.hold(50_MiB, 100);
  shared.make_room(10_MiB);
  EXPECT_EQ(budget.used(), 100_MiB);
}

TEST_F(SharedBudgetTest, FloorsYieldToTheBudgetButNotToNewEntries) {
  a.hold(60_MiB, 1);
  a.held = true;
  shared.make_room(60_MiB);
  EXPECT_EQ(a.resident(), 60_MiB);
  budget.set_capacity(40_MiB);
  EXPECT_EQ(shared.obey(), 60_MiB);
  EXPECT_EQ(shared.obey(), 0_B);
}

TEST_F(SharedBudgetTest, BlocksAndUnblocksAllClients) {
  shared.block_admission(true);
  EXPECT_TRUE(a.is_blocked && b.is_blocked);
  shared.block_admission(false);
  EXPECT_FALSE(a.is_blocked || b.is_blocked);
}

}  // namespace
}  // namespace afterimage
