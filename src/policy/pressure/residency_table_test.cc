// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/pressure/residency_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "policy/eviction/lfu.h"
#include "policy/eviction/lru.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

std::unique_ptr<EvictionPolicy> lru() { return std::make_unique<Lru>(); }

std::unique_ptr<ResidencyTable> residents(Bytes budget,
                                          ResidencyTableOptions options = {.below = 1_GiB}) {
  return ResidencyTable::create(std::move(options), budget, lru).value();
}

GovernorActions open(Bytes target) { return {.budget = target, .target = target}; }

SlotId admit(ResidencyTable& all, Bytes bytes, Duration now = 0s, std::string tenant = "") {
  return all.admit({.bytes = bytes, .tokens = 1, .tenant = TenantId(std::move(tenant))}, now)
      .value();
}

Obeyed obey(ResidencyTable& all, const GovernorActions& actions, Duration now = 0s) {
  std::vector<CleanOrder> orders;
  const Obeyed done = all.obey(actions, now, orders);
  for (const CleanOrder& order : orders) all.finish_clean(order.slot, true);
  all.check_invariants();
  return done;
}

TEST(ResidencyTable, NewEntriesEvictTheOldestFirst) {
  const auto all = residents(3_MiB);
  const SlotId first = admit(*all, 1_MiB);
  const SlotId second = admit(*all, 1_MiB);
  admit(*all, 1_MiB);
  all->touch(first, 1s);
  admit(*all, 1_MiB);
  EXPECT_TRUE(all->is_live(first));
  EXPECT_FALSE(all->is_live(second));
  EXPECT_EQ(all->used(), 3_MiB);
}

// M1: under steady pressure 10, 100 or 1000 inserts into the original VRAMAwareCache left none.
TEST(ResidencyTable, m1_steady_pressure_leaves_what_fits) {
  for (const int inserts : {10, 100, 1000}) {
    const auto all = residents(64_MiB);
    GovernorActions pressure = open(8_MiB);
    pressure.mode = PressureMode::kPressure;
    obey(*all, pressure);
    for (int i = 0; i < inserts; ++i) {
      admit(*all, 1_MiB, i * 1ms);
      obey(*all, pressure, i * 1ms);
    }
    EXPECT_EQ(all->entries_above(), std::min(8, inserts)) << inserts;
  }
}

// M2: set() returned true although the entry was gone already.
TEST(ResidencyTable, m2_an_admitted_entry_is_resident) {
  const auto all = residents(4_MiB);
  for (int i = 0; i < 100; ++i) {
    const SlotId slot = admit(*all, 1_MiB, i * 1ms);
    EXPECT_EQ(all->place(slot), Place::kAbove);
    obey(*all, open(4_MiB), i * 1ms);
    EXPECT_EQ(all->place(slot), Place::kAbove);
  }
}

// M3: max_token_budget was never read.
TEST(ResidencyTable, m3_the_token_budget_holds) {
  const auto all = residents(1_GiB, {.token_budget = 10, .below = 0_B});
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(all->admit({.bytes = 1_KiB, .tokens = 3}, i * 1ms).has_value());
    EXPECT_LE(all->tokens(), 10U);
  }
  EXPECT_EQ(all->entries_above(), 3U);
  const auto refused = all->admit({.bytes = 1_KiB, .tokens = 11}, 1s);
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(all->entries_above(), 3U) << "nothing is evicted for an entry that cannot fit";
}

// M4: the heap kept an entry for each overwrite, values and all.
TEST(ResidencyTable, m4_overwrites_leave_nothing_behind) {
  const auto all = residents(1_GiB);
  const SlotId slot = admit(*all, 1_MiB);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(all->replace(slot, 2_MiB, 1, i * 1ms).has_value());
  EXPECT_EQ(all->used(), 2_MiB);
  EXPECT_EQ(all->entries_above(), 1U);
  all->erase(slot);
  EXPECT_EQ(all->used(), 0_B);
  all->check_invariants();
}

// M6: "offload" was a flag: nothing moved, nothing was freed, and it was never cleared.
TEST(ResidencyTable, m6_critical_offloads_for_real) {
  const auto all = residents(10_MiB);
  const SlotId idle = admit(*all, 4_MiB, 0s);
  const SlotId used = admit(*all, 4_MiB, 25s);
  GovernorActions critical = open(10_MiB);
  critical.offload_idle = 30s;
  obey(*all, critical, 31s);  // ordered, and copied
  obey(*all, critical, 31s);  // left
  EXPECT_EQ(all->place(idle), Place::kBelow);
  EXPECT_EQ(all->place(used), Place::kAbove);
  EXPECT_EQ(all->used(), 4_MiB);
  EXPECT_EQ(all->below(), 4_MiB);
  ASSERT_TRUE(all->promote(idle, 32s).has_value());
  EXPECT_EQ(all->place(idle), Place::kAboveCopy);
  EXPECT_EQ(all->used(), 8_MiB);
  all->check_invariants();
}

// M7: a policy that runs on mode changes only never sees what goes idle afterwards.
TEST(ResidencyTable, m7_idle_entries_leave_in_any_step) {
  const auto all = residents(10_MiB);
  const SlotId slot = admit(*all, 1_MiB, 0s);
  const SlotId pinned = admit(*all, 1_MiB, 0s);
  all->pin(pinned);
  GovernorActions normal = open(10_MiB);
  normal.expire_idle = 120s;
  obey(*all, normal, 120s);
  EXPECT_TRUE(all->is_live(slot)) << "not longer than the limit";
  obey(*all, normal, 120s + 1ns);
  EXPECT_FALSE(all->is_live(slot));
  EXPECT_TRUE(all->is_live(pinned));
}

// M9: the priority had the wrong sign, so that the most used would have left first.
TEST(ResidencyTable, m9_the_most_used_leaves_last) {
  const auto all =
      ResidencyTable::create({}, 3_MiB, [] { return std::make_unique<AgedLfu>(); }).value();
  const SlotId hot = admit(*all, 1_MiB);
  for (int i = 0; i < 100; ++i) all->touch(hot, i * 1ms);
  const SlotId cold = admit(*all, 1_MiB);
  admit(*all, 1_MiB);
  admit(*all, 1_MiB);
  EXPECT_TRUE(all->is_live(hot));
  EXPECT_FALSE(all->is_live(cold));
}

// M11: the emergency refused even an overwrite that shrinks from 1000 to 1.
TEST(ResidencyTable, m11_shrinking_and_erasing_work_in_an_emergency) {
  const auto all = residents(10_MiB);
  const SlotId slot = admit(*all, 4_MiB);
  GovernorActions emergency = open(10_MiB);
  emergency.admission = Admission::kBlocked;
  obey(*all, emergency);
  EXPECT_EQ(all->admit({.bytes = 1_B}, 0s).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(all->replace(slot, 5_MiB, 1, 0s).error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(all->replace(slot, 1_MiB, 1, 0s).has_value());
  EXPECT_EQ(all->used(), 1_MiB);
  all->erase(slot);
  obey(*all, open(10_MiB));
  EXPECT_TRUE(all->admit({.bytes = 1_MiB}, 0s).has_value())
      << "admission opens again when pressure ends";
}

// M17: 25 % of the entries were evicted, however many bytes were missing.
TEST(ResidencyTable, m17_what_is_missing_leaves_and_no_more) {
  const auto all = residents(100_MiB);
  for (int i = 0; i < 100; ++i) admit(*all, 1_MiB, i * 1ms);
  obey(*all, {.budget = 97_MiB, .target = 97_MiB}, 1s);
  EXPECT_EQ(all->used(), 97_MiB);
}

// M18: victims were destroyed, and one could vanish between get() and its use.
TEST(ResidencyTable, m18_victims_go_below_and_pinned_ones_stay) {
  const auto all = residents(4_MiB);
  const SlotId first = admit(*all, 1_MiB);
  const SlotId second = admit(*all, 1_MiB);
  all->pin(first);
  obey(*all, {.budget = 4_MiB, .target = 4_MiB, .clean = 4_MiB});
  EXPECT_EQ(all->place(second), Place::kAboveCopy);
  const Obeyed done = obey(*all, {.budget = 0_B, .target = 0_B, .release = 2_MiB});
  EXPECT_EQ(all->place(first), Place::kAbove);
  EXPECT_EQ(all->place(second), Place::kBelow);
  EXPECT_EQ(done.released, 1_MiB);
  EXPECT_EQ(done.short_by, 1_MiB) << "reported instead of looping";
}

// V3 and V6 of the original VisualKVCache: a floor that loops for ever, a floor above the budget.
TEST(ResidencyTable, v3_v6_shares_never_exceed_the_budget) {
  const auto all = residents(8_MiB, {.below = 0_B, .shares = {{TenantId("a"), 8_MiB}}});
  for (int i = 0; i < 8; ++i) admit(*all, 1_MiB, 0s, "a");
  EXPECT_EQ(all->admit({.bytes = 1_MiB, .tenant = TenantId("b")}, 0s).error().code,
            ErrorCode::kNoSpace);
  const Obeyed done = obey(*all, open(2_MiB));
  EXPECT_EQ(all->used(), 2_MiB);
  EXPECT_EQ(done.short_by, 0_B);
}

// V4: an object larger than the whole budget evicted everything.
TEST(ResidencyTable, v4_an_oversized_entry_evicts_nothing) {
  const auto all = residents(4_MiB);
  for (int i = 0; i < 4; ++i) admit(*all, 1_MiB);
  EXPECT_EQ(all->admit({.bytes = 5_MiB}, 0s).error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(all->entries_above(), 4U);
}

// V5: rewriting a key of a full cache evicted an unrelated entry.
TEST(ResidencyTable, v5_an_overwrite_evicts_no_other_entry) {
  const auto all = residents(4_MiB);
  std::vector<SlotId> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(admit(*all, 1_MiB));
  ASSERT_TRUE(all->replace(slots[2], 1_MiB, 1, 1s).has_value());
  for (const SlotId slot : slots) EXPECT_TRUE(all->is_live(slot));
}

TEST(ResidencyTable, ATenantKeepsItsShare) {
  const auto all = residents(8_MiB, {.below = 1_GiB, .shares = {{TenantId("quiet"), 3_MiB}}});
  for (int i = 0; i < 5; ++i) admit(*all, 1_MiB, 0s, "quiet");
  for (int i = 0; i < 50; ++i) {
    admit(*all, 1_MiB, i * 1ms, "noisy" + std::to_string(i % 3));
    obey(*all, {.budget = 8_MiB, .target = 7_MiB, .release = 1_MiB, .clean = 2_MiB}, i * 1ms);
    EXPECT_GE(all->used_by(TenantId("quiet")), 3_MiB);
  }
  EXPECT_EQ(all->used_by(TenantId("quiet")), 3_MiB);
}

TEST(ResidencyTable, SharesAreNeitherCleanedNorReleased) {
  const auto all = residents(8_MiB, {.below = 1_GiB, .shares = {{TenantId("quiet"), 3_MiB}}});
  std::vector<SlotId> quiet;
  for (int i = 0; i < 5; ++i) quiet.push_back(admit(*all, 1_MiB, i * 1ms, "quiet"));
  for (int i = 0; i < 3; ++i) all->pin(admit(*all, 1_MiB, 0s, "noisy"));
  obey(*all, {.budget = 8_MiB, .target = 8_MiB, .clean = 8_MiB});
  EXPECT_EQ(all->ledger().clean, 2_MiB) << "two are beyond the share";
  all->erase(quiet[3]);
  all->erase(quiet[4]);
  obey(*all, {.budget = 8_MiB, .target = 4_MiB, .release = 2_MiB});
  EXPECT_EQ(all->used_by(TenantId("quiet")), 3_MiB) << "those two are protected by the share now";
}

TEST(ResidencyTable, SharesMustFitAndBeNamedOnce) {
  const auto over = ResidencyTable::create(
      {.shares = {{TenantId("a"), 3_MiB}, {TenantId("b"), 2_MiB}}}, 4_MiB, lru);
  EXPECT_EQ(over.error().code, ErrorCode::kInvalidArgument);
  const auto twice = ResidencyTable::create(
      {.shares = {{TenantId("a"), 1_MiB}, {TenantId("a"), 1_MiB}}}, 4_MiB, lru);
  EXPECT_EQ(twice.error().code, ErrorCode::kInvalidArgument);
}

TEST(ResidencyTable, AnEntryUsedWhileReadyStays) {
  const auto all = residents(4_MiB);
  const SlotId slot = admit(*all, 1_MiB);
  const SlotId other = admit(*all, 1_MiB);
  obey(*all, {.budget = 4_MiB, .target = 4_MiB, .clean = 2_MiB});
  EXPECT_EQ(all->ledger().clean, 2_MiB);
  all->touch(slot, 1s);
  EXPECT_EQ(all->ledger().clean, 1_MiB);
  obey(*all, {.budget = 4_MiB, .target = 1_MiB, .release = 1_MiB});
  EXPECT_EQ(all->place(slot), Place::kAboveCopy);
  EXPECT_EQ(all->place(other), Place::kBelow);
}

TEST(ResidencyTable, ALateOrFailedCopyIsHarmless) {
  const auto all = residents(4_MiB);
  const SlotId gone = admit(*all, 1_MiB);
  const SlotId failed = admit(*all, 1_MiB);
  std::vector<CleanOrder> orders;
  all->obey({.budget = 4_MiB, .target = 4_MiB, .clean = 2_MiB}, 0s, orders);
  ASSERT_EQ(orders.size(), 2U);
  EXPECT_EQ(all->below(), 2_MiB) << "space is reserved before the bytes are copied";
  all->erase(gone);
  all->finish_clean(gone, true);
  all->finish_clean(failed, false);
  EXPECT_EQ(all->place(failed), Place::kAbove);
  EXPECT_EQ(all->below(), 0_B);
  all->check_invariants();
}

TEST(ResidencyTable, BelowIsBoundedAndDropsTheOldestCopy) {
  const auto all = residents(8_MiB, {.below = 2_MiB});
  std::vector<SlotId> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(admit(*all, 1_MiB, i * 1ms));
  for (int i = 0; i < 4; ++i) {
    obey(*all, {.budget = 8_MiB, .target = 8_MiB, .clean = 1_MiB});
    obey(*all, {.budget = 8_MiB, .target = 0_B, .release = 1_MiB});
  }
  EXPECT_FALSE(all->is_live(slots[0]));
  EXPECT_FALSE(all->is_live(slots[1]));
  EXPECT_EQ(all->place(slots[3]), Place::kBelow);
  EXPECT_EQ(all->below(), 2_MiB);
}

/// All operations in random order: totals are consistent, the budget holds, shares hold.
TEST(ResidencyTableProperty, TheBudgetAlwaysHolds) {
  for_each_seed(60, [](Rng& rng) {
    const Bytes kBudget = 64_MiB;
    const auto all =
        residents(kBudget, {.token_budget = 400,
                            .below = 32_MiB,
                            .shares = {{TenantId("a"), 8_MiB}, {TenantId("b"), 4_MiB}}});
    const TenantId tenants[] = {TenantId("a"), TenantId("b"), TenantId("c"), TenantId("d")};
    std::vector<SlotId> known;
    std::map<SlotId, int> pins;
    std::vector<CleanOrder> orders;
    Bytes target = kBudget;
    Duration now = 0s;
    for (int i = 0; i < 1500; ++i) {
      now += Duration(rng.below(1'000'000'000));
      const SlotId some = known.empty() ? SlotId{} : known[rng.below(known.size())];
      const bool live = !known.empty() && all->is_live(some);
      const Bytes size(rng.below((4_MiB).value()));
      const Bytes held_a = all->used_by(tenants[0]);
      switch (rng.below(9)) {
        case 0:
        case 1:
          if (const auto slot = all->admit(
                  {.bytes = size, .tokens = rng.below(40), .tenant = tenants[rng.below(4)]}, now)) {
            known.push_back(*slot);
            ASSERT_EQ(all->place(*slot), Place::kAbove);
            ASSERT_LE(all->used(), target);
          }
          break;
        case 2:
          if (live) all->touch(some, now);
          break;
        case 3:
          if (live && !pins.contains(some) && rng.chance(0.3)) all->erase(some);
          break;
        case 4:
          if (live && all->place(some) != Place::kBelow && pins.size() < 4) {
            all->pin(some);
            ++pins[some];
          }
          break;
        case 5:
          if (!pins.empty()) {
            all->unpin(pins.begin()->first);
            if (--pins.begin()->second == 0) pins.erase(pins.begin());
          }
          break;
        case 6:
          if (live && all->promote(some, now).has_value() && !pins.contains(some)) {
            static_cast<void>(all->replace(some, size, rng.below(40), now));
          }
          break;
        case 7:
          if (!orders.empty()) {
            all->finish_clean(orders.back().slot, rng.chance(0.8));
            orders.pop_back();
          }
          break;
        default: {
          GovernorActions actions = open(Bytes(rng.below(kBudget.value() + 1)));
          actions.budget = std::min(kBudget, actions.target + 4_MiB);
          actions.release = Bytes(rng.below((16_MiB).value()));
          actions.clean = Bytes(rng.below((16_MiB).value()));
          if (rng.chance(0.3)) actions.admission = Admission::kBlocked;
          if (rng.chance(0.2)) actions.expire_idle = 60s;
          if (rng.chance(0.2)) actions.offload_idle = 20s;
          const Obeyed done = all->obey(actions, now, orders);
          target = actions.target;
          ASSERT_EQ(all->used() > actions.budget, done.short_by > 0_B);
          if (done.short_by > 0_B) {
            ASSERT_FALSE(pins.empty()) << "only pinned bytes may stay";
          }
          if (actions.target >= 12_MiB && !actions.expire_idle && done.dropped == 0_B) {
            ASSERT_GE(all->used_by(tenants[0]), std::min(held_a, 8_MiB));
          }
        }
      }
      for (const auto& [slot, count] : pins) ASSERT_NE(all->place(slot), Place::kBelow);
      all->check_invariants();
    }
    for (const auto& [slot, count] : pins) {
      for (int i = 0; i < count; ++i) all->unpin(slot);
    }
    obey(*all, {.budget = 0_B, .target = 0_B}, now);
    EXPECT_EQ(all->used(), 0_B) << "nothing is stuck";
  });
}

}  // namespace
}  // namespace afterimage
