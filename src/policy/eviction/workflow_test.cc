// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "policy/eviction/hinted.h"
#include "policy/eviction/lru.h"
#include "policy/eviction/workflow_graph.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

constexpr AgentId kRetriever = AgentId(1);
constexpr AgentId kSummarizer = AgentId(2);
constexpr AgentId kCritic = AgentId(3);
constexpr AgentId kResponder = AgentId(4);

WorkflowGraph chain(std::vector<WorkflowJump> jumps = {}) {
  return WorkflowGraph::create({{"retrieve", kRetriever, {}},
                                {"summarize", kSummarizer, {"retrieve"}},
                                {"criticize", kCritic, {"summarize"}},
                                {"respond", kResponder, {"criticize"}}},
                               jumps)
      .value();
}

std::vector<AgentId> agents(const std::vector<AgentUse>& uses) {
  std::vector<AgentId> result;
  for (const AgentUse& use : uses) result.push_back(use.agent);
  return result;
}

// G1: the distance did not move with the workflow.
TEST(WorkflowGraph, g1_distances_move_with_the_workflow) {
  WorkflowGraph graph = chain();
  EXPECT_EQ(graph.next_use(kResponder).steps, 3U);
  ASSERT_TRUE(graph.done("retrieve").has_value());
  EXPECT_EQ(graph.next_use(kResponder).steps, 2U);
  EXPECT_EQ(graph.next_use(kSummarizer).steps, 0U);
  EXPECT_EQ(graph.next_use(kRetriever).steps, NextUse::kNever);
}

// G2: the depth of a join depended on the order of its dependencies.
TEST(WorkflowGraph, g2_a_join_waits_for_its_longest_branch_in_any_order) {
  for (const bool swapped : {false, true}) {
    const std::vector<std::string> both =
        swapped ? std::vector<std::string>{"y", "x"} : std::vector<std::string>{"x", "y"};
    const auto graph = WorkflowGraph::create({{"start", kRetriever, {}},
                                              {"x", kSummarizer, {"start"}},
                                              {"w", kNoAgent, {"start"}},
                                              {"y", kCritic, {"w", "x"}},
                                              {"join", kResponder, both}});
    EXPECT_EQ(graph->next_use(kResponder).steps, 3U);
  }
}

// G3: a step added again stood in the order twice.
TEST(WorkflowGraph, g3_a_step_stands_once_and_so_does_an_agent) {
  EXPECT_EQ(WorkflowGraph::create({{"a", kCritic, {}}, {"a", kCritic, {}}}).error().code,
            ErrorCode::kInvalidArgument);
  const auto twice = WorkflowGraph::create({{"a", kCritic, {}}, {"b", kCritic, {"a"}}});
  EXPECT_EQ(twice->farthest_first().size(), 1U);
  EXPECT_EQ(twice->next_use(kCritic).steps, 0U) << "the nearest of its steps counts";
}

// G4: recursion as deep as the chain, and everything validated at every call.
TEST(WorkflowGraph, g4_a_chain_of_ten_thousand_steps_is_no_problem) {
  std::vector<WorkflowStep> steps = {{"0", AgentId(0), {}}};
  for (std::uint32_t i = 1; i < 10'000; ++i) {
    steps.push_back({std::to_string(i), AgentId(i), {std::to_string(i - 1)}});
  }
  auto graph = WorkflowGraph::create(std::move(steps)).value();
  EXPECT_EQ(graph.next_use(AgentId(9'999)).steps, 9'999U);
  ASSERT_TRUE(graph.done("0").has_value());
  EXPECT_EQ(graph.next_use(AgentId(9'999)).steps, 9'998U);
}

TEST(WorkflowGraph, LoopsAndBranchesHaveProbabilities) {
  WorkflowGraph graph = chain({{"criticize", "summarize", 0.3}});
  ASSERT_TRUE(graph.done("retrieve").has_value());
  ASSERT_TRUE(graph.done("summarize").has_value());
  EXPECT_EQ(graph.next_use(kSummarizer), (NextUse{.steps = 1, .probability = 0.3}));
  EXPECT_EQ(graph.next_use(kResponder), (NextUse{.steps = 1, .probability = 1}));
  EXPECT_EQ(graph.next_use(kRetriever).steps, NextUse::kNever);
  ASSERT_TRUE(graph.done("criticize").has_value());
  ASSERT_TRUE(graph.again("summarize").has_value());
  EXPECT_EQ(graph.next_use(kSummarizer).steps, 0U);
  EXPECT_EQ(graph.next_use(kResponder).steps, 2U);
}

TEST(WorkflowGraph, PrefetchesTheContextOfTheNextSteps) {
  const WorkflowGraph graph = chain({{"retrieve", "respond", 0.2}});
  EXPECT_EQ(agents(graph.worth_prefetching(2, 0.5)), (std::vector{kSummarizer, kCritic}));
  EXPECT_EQ(agents(graph.worth_prefetching(1, 0.1)).size(), 2U) << "the unlikely branch too";
}

TEST(WorkflowGraph, ReportsInvalidWorkflows) {
  const auto said = [](std::vector<WorkflowStep> steps, std::vector<WorkflowJump> jumps = {}) {
    const auto graph = WorkflowGraph::create(std::move(steps), jumps);
    return graph.has_value() ? "" : graph.error().message;
  };
  EXPECT_NE(said({{"a", kCritic, {"b"}}}).find("unknown step 'b'"), std::string::npos);
  EXPECT_NE(said({{"a", kCritic, {"b"}}, {"b", kCritic, {"a"}}}).find("cycle"), std::string::npos);
  EXPECT_NE(said({{"a", kCritic, {}}}, {{"a", "a", 0.0}}).find("probability"), std::string::npos);
  WorkflowGraph graph = chain();
  EXPECT_FALSE(graph.done("respond").has_value()) << "it depends on steps that are not done";
  EXPECT_FALSE(graph.done("nobody").has_value());
}

// --- hints ---------------------------------------------------------------------------------------

struct Shelf {
  explicit Shelf(HintedPolicy::Options options = {}) : policy(std::make_unique<Lru>(), options) {}
  SlotId put(std::uint32_t i) {
    const SlotId slot{.index = i, .generation = 0};
    policy.insert(slot, {.bytes = 1_MiB});
    policy.name(slot, i);
    return slot;
  }
  std::uint32_t evict() {
    const SlotId slot = policy.victim().value();
    policy.erase(slot, RemovalReason::kEvicted);
    return slot.index;
  }
  HintedPolicy policy;
};

// M5: the workflow mode was unreachable, evicted the next to run first, and evicted everything.
TEST(HintedPolicy, m5_the_farthest_agent_leaves_first_and_only_as_many_as_needed) {
  const WorkflowGraph graph = chain();
  Shelf shelf({.soon = 1});
  const AgentId all[] = {kRetriever, kSummarizer, kCritic, kResponder};
  for (const AgentId agent : all) {
    const SlotId slot = shelf.put(static_cast<std::uint32_t>(agent));
    shelf.policy.expect(slot, graph.next_use(agent).steps);
  }
  EXPECT_EQ(shelf.evict(), static_cast<std::uint32_t>(kResponder));
  EXPECT_EQ(shelf.evict(), static_cast<std::uint32_t>(kCritic));
  EXPECT_EQ(shelf.evict(), static_cast<std::uint32_t>(kSummarizer));
  EXPECT_EQ(shelf.evict(), static_cast<std::uint32_t>(kRetriever)) << "the next to run is the last";
}

TEST(HintedPolicy, EvictsEndedConversationsFirstAndSharedOnesLast) {
  Shelf shelf;
  const SlotId shared = shelf.put(0);
  const SlotId kept = shelf.put(1);
  shelf.put(2);
  const SlotId ended = shelf.put(3);
  const SlotId goes_on = shelf.put(4);
  shelf.policy.shared_by(shared, 3);
  shelf.policy.keep_until(kept, 10s);
  shelf.policy.conversation_ends(ended);
  shelf.policy.conversation_goes_on(goes_on);
  EXPECT_EQ(shelf.evict(), 3U);
  EXPECT_EQ(shelf.evict(), 2U);
  shelf.policy.pass_time(10s);
  EXPECT_EQ(shelf.evict(), 1U) << "its keep_until has expired";
  EXPECT_EQ(shelf.evict(), 0U);
  EXPECT_EQ(shelf.evict(), 4U);
}

TEST(HintedPolicy, AWagerIsWonByTheSparedAndLostByTheVictim) {
  Shelf shelf({.credits = 2});
  const SlotId spared = shelf.put(0);
  for (std::uint32_t i = 1; i < 9; ++i) shelf.policy.conversation_ends(shelf.put(i));
  EXPECT_EQ(shelf.evict(), 1U);
  shelf.policy.missed(1);
  EXPECT_EQ(shelf.policy.credits(), 1U);
  EXPECT_EQ(shelf.evict(), 2U);
  shelf.policy.touch(spared);
  EXPECT_EQ(shelf.policy.credits(), 2U);
  shelf.policy.missed(2);
  EXPECT_EQ(shelf.policy.credits(), 2U) << "the wager was decided already";
}

TEST(HintedPolicy, LimitsTheOpenWagers) {
  Shelf shelf({.open_wagers = 1});
  for (std::uint32_t i = 0; i < 6; ++i) shelf.put(i);
  shelf.policy.conversation_ends({.index = 4, .generation = 0});
  shelf.policy.conversation_ends({.index = 5, .generation = 0});
  EXPECT_EQ(shelf.evict(), 4U);
  EXPECT_EQ(shelf.evict(), 0U) << "the first wager is still open";
  EXPECT_TRUE(shelf.policy.armed());
}

TEST(HintedPolicy, WithoutCreditsTheInnerPolicyDecides) {
  Shelf shelf({.credits = 1});
  for (std::uint32_t i = 0; i < 6; ++i) shelf.put(i);
  shelf.policy.conversation_ends({.index = 5, .generation = 0});
  shelf.policy.conversation_ends({.index = 4, .generation = 0});
  shelf.policy.conversation_goes_on({.index = 0, .generation = 0});
  EXPECT_EQ(shelf.evict(), 4U);
  shelf.policy.missed(4);
  EXPECT_FALSE(shelf.policy.armed());
  EXPECT_EQ(shelf.evict(), 0U);
  EXPECT_EQ(shelf.evict(), 1U);
}

/// Misses of a cache of `capacity` entries over `trace`; `hint` may lie.
template <typename Hint>
std::uint64_t misses(EvictionPolicy& policy, HintedPolicy* hinted,
                     const std::vector<std::uint32_t>& trace, std::size_t capacity, Hint hint) {
  std::map<std::uint32_t, SlotId> cached;
  std::map<SlotId, std::uint32_t> keys;
  std::uint64_t missed = 0;
  std::uint32_t fresh = 0;
  for (std::size_t at = 0; at < trace.size(); ++at) {
    const std::uint32_t key = trace[at];
    if (const auto it = cached.find(key); it != cached.end()) {
      policy.touch(it->second);
    } else {
      ++missed;
      if (hinted != nullptr) hinted->missed(key);
      if (cached.size() == capacity) {
        const SlotId victim = policy.victim().value();
        policy.erase(victim, RemovalReason::kEvicted);
        cached.erase(keys.at(victim));
        keys.erase(victim);
      }
      const SlotId slot{.index = fresh++, .generation = 0};
      policy.insert(slot, {.bytes = 1_MiB});
      if (hinted != nullptr) hinted->name(slot, key);
      cached[key] = slot;
      keys[slot] = key;
    }
    if (hinted != nullptr) hint(*hinted, cached.at(key), at);
  }
  return missed;
}

std::vector<std::uint32_t> skewed_trace(Rng& rng, std::size_t length) {
  std::vector<std::uint32_t> trace;
  for (std::size_t i = 0; i < length; ++i) {
    const double u = rng.uniform();
    trace.push_back(static_cast<std::uint32_t>(200 * u * u * u));
  }
  return trace;
}

TEST(HintedPolicyProperty, WrongHintsCostABoundedNumberOfMisses) {
  for_each_seed(12, [](Rng& rng) {
    const auto trace = skewed_trace(rng, 4'000);
    Lru plain;
    const auto without = misses(plain, nullptr, trace, 40, [](auto&, auto, auto) {});
    const HintedPolicy::Options options{.soon = 4, .credits = 16, .open_wagers = 32};
    // An adversary that knows the future and hints the opposite.
    std::map<std::uint32_t, std::vector<std::size_t>> uses;
    for (std::size_t i = 0; i < trace.size(); ++i) uses[trace[i]].push_back(i);
    const auto next = [&](std::size_t at) {
      const auto& of = uses[trace[at]];
      const auto it = std::ranges::upper_bound(of, at);
      return it == of.end() ? std::size_t{1'000'000} : *it - at;
    };
    HintedPolicy fooled(std::make_unique<Lru>(), options);
    const auto with = misses(fooled, &fooled, trace, 40, [&](auto& policy, SlotId slot, auto at) {
      next(at) < 60 ? policy.conversation_ends(slot) : policy.conversation_goes_on(slot);
    });
    EXPECT_LE(with, without + options.credits + options.open_wagers);
    EXPECT_FALSE(fooled.armed());
    HintedPolicy told(std::make_unique<Lru>(), {.soon = 60, .credits = 16, .open_wagers = 200});
    const auto right = misses(told, &told, trace, 40, [&](auto& policy, SlotId slot, auto at) {
      policy.expect(slot, static_cast<std::uint32_t>(next(at)));
    });
    EXPECT_LT(right, without) << "correct hints pay off";
    EXPECT_TRUE(told.armed());
  });
}

}  // namespace
}  // namespace afterimage
