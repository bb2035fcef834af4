// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "testing/seeds.h"

/// What every EvictionPolicy guarantees. To run the suite on your own implementation:
///
///   const PolicyFactory kMine{"mine", [] { return std::make_unique<Mine>(); }};
///   INSTANTIATE_TEST_SUITE_P(Mine, PolicyConformance, ::testing::Values(kMine));
namespace afterimage::testing {

struct PolicyFactory {
  std::string name;
  std::function<std::unique_ptr<EvictionPolicy>()> make;
};

class PolicyConformance : public ::testing::TestWithParam<PolicyFactory> {
 protected:
  static SlotId slot(std::uint32_t index, std::uint32_t generation = 0) {
    return {.index = index, .generation = generation};
  }
  static EntryFacts facts() { return {.bytes = 1_KiB, .cost = Duration(1'000'000)}; }

  std::unique_ptr<EvictionPolicy> policy = GetParam().make();
};

TEST_P(PolicyConformance, AnEmptyPolicyHasNoVictim) { EXPECT_EQ(policy->victim(), std::nullopt); }

TEST_P(PolicyConformance, VictimHasNoSideEffects) {
  for (std::uint32_t i = 0; i < 10; ++i) policy->insert(slot(i), facts());
  const auto first = policy->victim();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(policy->victim(), first);
}

TEST_P(PolicyConformance, ParkedEntriesAreNeverVictims) {
  for (std::uint32_t i = 0; i < 3; ++i) policy->insert(slot(i), facts());
  std::set<SlotId> parked;
  while (const auto victim = policy->victim()) {
    EXPECT_TRUE(parked.insert(*victim).second) << "chosen although it is parked";
    policy->park(*victim);
  }
  EXPECT_EQ(parked.size(), 3U);
  policy->unpark(slot(1));
  EXPECT_EQ(policy->victim(), slot(1));
}

TEST_P(PolicyConformance, AParkedEntryCanBeTouchedAndErased) {
  policy->insert(slot(0), facts());
  policy->park(slot(0));
  policy->touch(slot(0));
  EXPECT_EQ(policy->victim(), std::nullopt);
  policy->erase(slot(0), RemovalReason::kErased);
  EXPECT_EQ(policy->victim(), std::nullopt);
}

TEST_P(PolicyConformance, AReusedSlotIsANewEntry) {
  policy->insert(slot(0, 0), facts());
  policy->touch(slot(0, 0));
  policy->erase(slot(0, 0), RemovalReason::kErased);
  policy->insert(slot(0, 1), facts());
  EXPECT_EQ(policy->victim(), slot(0, 1));
}

TEST_P(PolicyConformance, ASplitEntryIsTwoEntries) {
  for (const bool parked : {false, true}) {
    const auto tested = GetParam().make();
    for (std::uint32_t i = 0; i < 3; ++i) tested->insert(slot(i), facts());
    if (parked) tested->park(slot(1));
    tested->split(slot(1), facts(), slot(7, 2), facts());
    std::set<SlotId> named;
    const auto drain = [&] {
      while (const auto victim = tested->victim()) {
        EXPECT_TRUE(named.insert(*victim).second);
        tested->erase(*victim, RemovalReason::kEvicted);
      }
    };
    drain();
    EXPECT_EQ(named.contains(slot(1)), !parked);
    if (parked) tested->unpark(slot(1));
    drain();
    EXPECT_EQ(named, (std::set{slot(0), slot(1), slot(2), slot(7, 2)}));
  }
}

TEST_P(PolicyConformance, EveryEntryIsTheVictimExactlyOnce) {
  for_each_seed(50, [](Rng& rng) {
    const auto tested = GetParam().make();
    std::map<SlotId, bool> live;  // value: whether it is parked
    std::uint32_t generation = 0;
    for (int step = 0; step < 400; ++step) {
      const SlotId some = slot(static_cast<std::uint32_t>(rng.below(16)), 0);
      const auto it = live.lower_bound(some);
      const bool found = it != live.end() && it->first.index == some.index;
      switch (rng.below(6)) {
        case 0:
        case 1:
          if (!found) {
            const SlotId fresh = slot(some.index, ++generation);
            tested->insert(fresh, facts());
            live[fresh] = false;
          }
          break;
        case 2:
          if (found) tested->touch(it->first);
          break;
        case 3:
          if (found && rng.chance(0.3)) {
            tested->erase(it->first, RemovalReason::kErased);
            live.erase(it);
          }
          break;
        case 4:
          if (found) {
            it->second ? tested->unpark(it->first) : tested->park(it->first);
            it->second = !it->second;
          }
          break;
        default:
          if (const auto victim = tested->victim()) {
            ASSERT_TRUE(live.contains(*victim)) << "step " << step;
            ASSERT_FALSE(live.at(*victim)) << "parked, step " << step;
            tested->erase(*victim, RemovalReason::kEvicted);
            live.erase(*victim);
          } else {
            for (const auto& [entry, parked] : live) ASSERT_TRUE(parked) << "step " << step;
          }
      }
    }
  });
}

TEST_P(PolicyConformance, TheSameCallsGiveTheSameVictims) {
  const auto run = [](Rng rng) {
    const auto tested = GetParam().make();
    std::vector<SlotId> victims;
    for (std::uint32_t i = 0; i < 200; ++i) {
      tested->insert(slot(i), facts());
      for (int t = 0; t < 3; ++t) {
        const auto touched = static_cast<std::uint32_t>(rng.below(i + 1));
        if (std::ranges::find(victims, slot(touched)) == victims.end())
          tested->touch(slot(touched));
      }
      if (i >= 20) {
        victims.push_back(tested->victim().value());
        tested->erase(victims.back(), RemovalReason::kEvicted);
      }
    }
    return victims;
  };
  EXPECT_EQ(run(Rng(5)), run(Rng(5)));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PolicyConformance);

/// Additional guarantees if the owner declares which entry builds on which: leaves are evicted
/// first.
class PrefixConformance : public PolicyConformance {};

// Requests through a random tree with random resident entries; in half of the cases the current
// request's entries are pinned.
TEST_P(PrefixConformance, DescendantsAreEvictedBeforeTheirAncestor) {
  for_each_seed(30, [](Rng& rng) {
    const auto tested = GetParam().make();
    constexpr std::uint32_t kBlocks = 200;
    std::vector<std::uint32_t> generations(kBlocks, 0);
    std::set<std::uint32_t> here;
    for (std::uint32_t request = 0; request < 300; ++request) {
      tested->begin_request({.now = Duration(std::chrono::seconds(request)),
                             .stop = static_cast<StopReason>(rng.below(4))});
      std::set<std::uint32_t> path;
      // A block's parent is its number halved. Block 1 is the only root.
      for (auto block = static_cast<std::uint32_t>(rng.below(kBlocks - 1)) + 1; block > 0;
           block /= 2) {
        path.insert(block);
        if (here.contains(block)) {
          tested->touch(slot(block, generations[block]));
          continue;
        }
        EntryFacts entry = facts();
        entry.key = block;
        const std::uint32_t above = block / 2;
        if (above > 0) {
          entry.parent = slot(above, generations[above] + (here.contains(above) ? 0U : 1U));
        }
        tested->insert(slot(block, ++generations[block]), entry);
        here.insert(block);
      }
      const bool pinned = rng.chance(0.5);
      std::set<SlotId> parked;
      while (here.size() > 40) {
        const auto victim = tested->victim();
        ASSERT_TRUE(victim.has_value());
        if (pinned && path.contains(victim->index)) {
          ASSERT_TRUE(parked.insert(*victim).second) << "chosen although it is parked";
          tested->park(*victim);
          continue;
        }
        ASSERT_TRUE(here.contains(victim->index));
        for (const std::uint32_t below : {2 * victim->index, 2 * victim->index + 1}) {
          ASSERT_FALSE(here.contains(below)) << below << " stands on " << victim->index;
        }
        tested->erase(*victim, RemovalReason::kEvicted);
        here.erase(victim->index);
      }
      for (const SlotId entry : parked) tested->unpark(entry);
    }
  });
}

TEST_P(PrefixConformance, TheFirstPartOfASplitEntryIsAnAncestor) {
  const auto tested = GetParam().make();
  const auto standing_on = [](std::optional<SlotId> parent) {
    EntryFacts entry = facts();
    entry.parent = parent;
    return entry;
  };
  tested->insert(slot(0), facts());
  tested->insert(slot(1), standing_on(slot(0)));
  tested->insert(slot(2), standing_on(slot(1)));
  tested->split(slot(1), standing_on(slot(3)), slot(3), standing_on(slot(0)));
  tested->touch(slot(2));
  tested->touch(slot(1));
  for (const std::uint32_t next : {2U, 1U, 3U, 0U}) {
    ASSERT_EQ(tested->victim(), slot(next));
    tested->erase(slot(next), RemovalReason::kEvicted);
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PrefixConformance);

}  // namespace afterimage::testing
