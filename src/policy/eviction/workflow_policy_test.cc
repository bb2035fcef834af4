// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/workflow_policy.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/eviction/lru.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

constexpr EntryLabel kTeam{.bits = 1};
constexpr EntryLabel kOthers{.bits = 2};

WorkflowHint hint(std::string step, std::vector<std::string> next = {},
                  std::string workflow = "report") {
  return {.workflow = std::move(workflow), .step = std::move(step), .next_steps = std::move(next)};
}

/// retrieve, summarize, criticize, respond: each declared once, and back at the first.
std::map<std::string, WorkflowStepId> declare_chain(WorkflowOrder& order) {
  const std::vector<std::string> steps{"retrieve", "summarize", "criticize", "respond"};
  std::map<std::string, WorkflowStepId> ids;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    ids[steps[i]] = order.begin(kTeam, hint(steps[i], {steps[i + 1]}));
  }
  ids["respond"] = order.begin(kTeam, hint("respond"));
  ids["retrieve"] = order.begin(kTeam, hint("retrieve"));
  return ids;
}

std::map<WorkflowStepId, std::uint32_t> steps_of(const WorkflowOrder& order,
                                                 EntryLabel owner = kTeam) {
  std::map<WorkflowStepId, std::uint32_t> steps;
  const auto distances = order.farthest_first(owner);
  if (distances == nullptr) return steps;
  for (const StepDistance& step : *distances) steps[step.step] = step.steps;
  return steps;
}

// G1: the distance did not move with the workflow.
TEST(WorkflowOrder, g1_distances_move_with_the_workflow) {
  WorkflowOrder order;
  auto ids = declare_chain(order);
  EXPECT_EQ(steps_of(order)[ids["respond"]], 3U);
  order.begin(kTeam, hint("summarize"));
  EXPECT_EQ(steps_of(order)[ids["respond"]], 2U);
  EXPECT_EQ(steps_of(order)[ids["summarize"]], 0U);
  EXPECT_EQ(steps_of(order)[ids["retrieve"]], StepDistance::kLast) << "nothing leads back";
  order.begin(kTeam, hint("respond", {"retrieve"}));
  order.begin(kTeam, hint("criticize"));
  EXPECT_EQ(steps_of(order)[ids["retrieve"]], 2U) << "a loop, once it is declared";
}

TEST(WorkflowOrder, OfAStepThatDeclaresNothingNothingIsKnown) {
  WorkflowOrder order;
  EXPECT_EQ(order.begin(kTeam, {}), kNoStep);
  EXPECT_EQ(order.farthest_first(kTeam), nullptr);
  order.begin(kTeam, hint("retrieve", {"respond"}));
  EXPECT_EQ(steps_of(order).size(), 2U);
  order.begin(kTeam, hint("respond"));
  EXPECT_TRUE(steps_of(order).empty());
  EXPECT_TRUE(steps_of(order, kOthers).empty());
}

TEST(WorkflowOrder, RunsOfDifferentNamesAndOwnersAreApart) {
  WorkflowOrder order;
  const auto mine = order.begin(kTeam, hint("a", {"b"}, "one"));
  EXPECT_NE(order.begin(kTeam, hint("a", {"c", "b"}, "two")), mine);
  EXPECT_NE(order.begin(kOthers, hint("a", {"b"}, "one")), mine);
  EXPECT_EQ(order.begin(kTeam, hint("a", {"b"}, "one")), mine);
  EXPECT_EQ(steps_of(order).size(), 5U);
  EXPECT_EQ(steps_of(order, kOthers).size(), 2U);
}

TEST(WorkflowOrder, ClientsThatInventNamesGrowNothing) {
  WorkflowOrder order;
  for (int i = 0; i < 1200; ++i) {
    order.begin(kTeam, hint("a", {"b"}, "run " + std::to_string(i)));
    order.begin(kOthers, hint("step " + std::to_string(i), {"step " + std::to_string(i + 1)}));
    order.begin(EntryLabel{.bits = static_cast<std::uint64_t>(i + 10)}, hint("a", {"b"}));
    ASSERT_LE(steps_of(order).size(), WorkflowOrder::kMaxSteps);
    ASSERT_LE(steps_of(order, kOthers).size(), WorkflowOrder::kMaxSteps);
  }
  EXPECT_EQ(order.farthest_first(EntryLabel{.bits = 10}), nullptr);
  EXPECT_FALSE(steps_of(order).empty());
}

/// A policy around an LRU, and the order that its clients declare.
struct Shelf {
  void request(EntryLabel owner, const WorkflowHint& of) {
    policy.begin_request({.step = order->begin(owner, of)});
  }
  SlotId put(std::uint32_t key, EntryLabel owner = kTeam) {
    const SlotId slot{.index = fresh++, .generation = 0};
    policy.insert(slot, {.bytes = 1_MiB, .key = key, .owner = owner});
    keys[slot] = key;
    return slot;
  }
  std::uint32_t evict() {
    const SlotId slot = policy.victim().value();
    EXPECT_EQ(policy.victim(), slot);
    policy.erase(slot, RemovalReason::kEvicted);
    return keys.at(slot);
  }

  std::shared_ptr<WorkflowOrder> order = std::make_shared<WorkflowOrder>();
  WorkflowPolicy policy{std::make_unique<Lru>(), order};
  std::map<SlotId, std::uint32_t> keys;
  std::uint32_t fresh = 0;
};

// M5: the workflow mode was unreachable, evicted the next to run first, and evicted everything.
TEST(WorkflowPolicy, m5_the_step_that_comes_last_leaves_first) {
  Shelf shelf;
  const std::vector<std::string> steps{"retrieve", "summarize", "criticize", "respond"};
  for (std::uint32_t i = 0; i < 4; ++i) {
    shelf.request(kTeam, hint(steps[i], {steps[(i + 1) % 4]}));
    shelf.put(i);
  }
  shelf.request(kTeam, hint("retrieve"));
  EXPECT_EQ(shelf.evict(), 3U) << "three steps away";
  EXPECT_EQ(shelf.evict(), 2U);
  EXPECT_EQ(shelf.evict(), 1U);
  EXPECT_EQ(shelf.evict(), 0U) << "the step that runs is the last";
}

// A group of tenants shares entries: one that a step stored may belong to another of them.
TEST(WorkflowPolicy, AStepNamesNoEntryOfAnotherOwner) {
  Shelf shelf;
  shelf.request(kTeam, hint("a", {"b"}));
  shelf.put(0);
  shelf.request(kTeam, hint("b", {"a"}));
  shelf.put(1, kOthers);
  shelf.request(kTeam, hint("a"));
  EXPECT_EQ(shelf.evict(), 0U);
}

TEST(WorkflowPolicy, NamesEntriesOfTheSameOwnerOnly) {
  Shelf shelf;
  shelf.request(kTeam, hint("write", {"judge"}));
  const SlotId oldest = shelf.put(0, kOthers);
  shelf.put(1, kTeam);
  shelf.request(kTeam, hint("judge", {"judge"}));  // "write" never comes again
  shelf.put(2, kTeam);
  EXPECT_EQ(shelf.policy.victim(), oldest) << "others' entries are chosen as without hints";
  shelf.policy.park(oldest);
  EXPECT_EQ(shelf.evict(), 1U);
  shelf.policy.unpark(oldest);
  EXPECT_EQ(shelf.evict(), 0U);
}

TEST(WorkflowPolicy, WhatSeveralStepsUseIsNotLate) {
  Shelf shelf;
  shelf.request(kTeam, hint("write", {"judge"}));
  const SlotId system_prompt = shelf.put(0);
  const SlotId draft = shelf.put(1);
  shelf.request(kTeam, hint("judge", {"judge"}));
  shelf.policy.touch(system_prompt);
  const SlotId verdict = shelf.put(2);
  shelf.policy.begin_request({});
  shelf.policy.touch(draft);
  EXPECT_EQ(shelf.evict(), 0U) << "both were used by two, so the oldest";
  EXPECT_EQ(shelf.policy.victim(), verdict);
}

TEST(WorkflowPolicy, AWagerIsLostByTheVictimAndWonByTheSpared) {
  Shelf shelf;
  shelf.request(kTeam, hint("judge"));
  const SlotId spared = shelf.put(0);
  shelf.request(kTeam, hint("write", {"judge"}));
  for (std::uint32_t i = 1; i < 9; ++i) shelf.put(i);
  shelf.request(kTeam, hint("judge", {"judge"}));
  EXPECT_EQ(shelf.evict(), 1U);
  EXPECT_EQ(shelf.evict(), 2U);
  shelf.put(1);
  EXPECT_EQ(shelf.policy.credits(kTeam), WorkflowPolicy::kCredits - 1);
  shelf.policy.touch(spared);
  EXPECT_EQ(shelf.policy.credits(kTeam), WorkflowPolicy::kCredits);
  shelf.put(2);
  EXPECT_EQ(shelf.policy.credits(kTeam), WorkflowPolicy::kCredits) << "that one was decided";
}

TEST(WorkflowPolicy, WithoutCreditsTheInnerPolicyDecidesUntilTheyGrowAgain) {
  Shelf shelf;
  shelf.request(kTeam, hint("judge"));
  shelf.put(0);
  const auto lie = [&](std::uint32_t key) {
    shelf.request(kTeam, hint("write", {"judge"}));
    shelf.put(key);
    shelf.request(kTeam, hint("judge", {"judge"}));
    return shelf.evict();
  };
  for (std::uint32_t i = 0; i < WorkflowPolicy::kCredits; ++i) EXPECT_EQ(lie(1), 1U);
  shelf.put(1);
  EXPECT_EQ(shelf.policy.credits(kTeam), 0U);
  EXPECT_EQ(shelf.evict(), 0U) << "the oldest";
  shelf.policy.begin_request({});
  for (std::uint32_t i = 0; i < WorkflowPolicy::kEntriesPerCredit; ++i) shelf.put(100 + i);
  EXPECT_EQ(shelf.policy.credits(kTeam), 1U);
}

/// A cache of `capacity` entries of two owners under an LRU, with hints of one of them.
class Cache {
 public:
  explicit Cache(std::size_t capacity) : capacity_(capacity) {}
  /// Whether it was a hit.
  bool use(EntryLabel owner, std::uint32_t key, const WorkflowHint& of) {
    shelf_.request(owner, of);
    const auto it = cached_.find(key);
    if (it != cached_.end()) {
      shelf_.policy.touch(it->second);
      return true;
    }
    if (cached_.size() == capacity_) cached_.erase(shelf_.evict());
    cached_[key] = shelf_.put(key, owner);
    return false;
  }

 private:
  std::size_t capacity_;
  Shelf shelf_;
  std::map<std::uint32_t, SlotId> cached_;
};

struct Misses {
  std::uint64_t team = 0;
  std::uint64_t others = 0;
};

enum class Told { kNothing, kTruth, kLies };

/// The team runs a loop of eight steps with six entries each; others draw from entries of their own.
Misses misses(Told told, Rng rng) {
  Cache cache(50);
  Misses missed;
  for (std::uint32_t turn = 0; turn < 400; ++turn) {
    const std::uint32_t at = turn % 8;
    const std::uint32_t next = told == Told::kTruth ? (at + 1) % 8 : (at + 7) % 8;
    const WorkflowHint said =
        told == Told::kNothing ? WorkflowHint() : hint(std::to_string(at), {std::to_string(next)});
    for (std::uint32_t i = 0; i < 6; ++i) {
      missed.team += cache.use(kTeam, at * 6 + i, said) ? 0 : 1;
    }
    for (int i = 0; i < 6; ++i) {
      const double u = rng.uniform();
      const auto key = 1000 + static_cast<std::uint32_t>(60 * u * u * u);
      missed.others += cache.use(kOthers, key, {}) ? 0 : 1;
    }
  }
  return missed;
}

TEST(WorkflowPolicyProperty, HintsHelpAndLiesCostTheirOwnerAFewAndOthersNothing) {
  for_each_seed(3, [](Rng& rng) {
    const Rng same = rng;
    static_cast<void>(rng.next());
    const Misses without = misses(Told::kNothing, same);
    const Misses right = misses(Told::kTruth, same);
    const Misses wrong = misses(Told::kLies, same);
    EXPECT_LT(right.team, without.team * 3 / 4);
    EXPECT_LE(right.others, without.others);
    EXPECT_LE(wrong.team, without.team + WorkflowPolicy::kCredits + WorkflowPolicy::kOpenWagers);
    EXPECT_LE(wrong.others, without.others);
  });
}

}  // namespace
}  // namespace afterimage
