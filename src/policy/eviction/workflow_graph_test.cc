// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/workflow_graph.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace afterimage {
namespace {

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

}  // namespace
}  // namespace afterimage
