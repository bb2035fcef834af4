// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/workflow_graph.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace afterimage {
namespace {

std::unexpected<Error> invalid(std::string message) {
  return fail(ErrorCode::kInvalidArgument, "workflow: " + std::move(message));
}

}  // namespace

Result<WorkflowGraph> WorkflowGraph::create(std::vector<WorkflowStep> steps,
                                            const std::vector<WorkflowJump>& jumps) {
  WorkflowGraph graph;
  std::unordered_map<std::string_view, std::uint32_t> index;
  for (const WorkflowStep& step : steps) {
    if (!index.emplace(step.name, static_cast<std::uint32_t>(index.size())).second) {
      return invalid("step '" + step.name + "' is defined twice; give each step a unique name");
    }
    graph.steps_.push_back({.name = step.name, .agent = step.agent});
  }
  const auto known = [&](const std::string& name) -> Result<std::uint32_t> {
    const auto it = index.find(name);
    if (it == index.end()) return invalid("unknown step '" + name + "'");
    return it->second;
  };
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    for (const std::string& name : steps[i].after) {
      AFI_TRY(const std::uint32_t before, known(name));
      graph.steps_[i].after.push_back(before);
      graph.steps_[before].before.push_back(i);
    }
  }
  for (const WorkflowJump& jump : jumps) {
    AFI_TRY(const std::uint32_t from, known(jump.from));
    AFI_TRY(const std::uint32_t to, known(jump.to));
    if (!(jump.probability > 0 && jump.probability <= 1)) {
      return invalid("the probability of a jump from '" + jump.from + "' must be in (0, 1]");
    }
    graph.steps_[from].jumps.push_back({.to = to, .probability = jump.probability});
  }
  AFI_TRY_VOID(graph.check_acyclic());
  graph.update_distances();
  return graph;
}

Result<std::uint32_t> WorkflowGraph::find(std::string_view name) const {
  const auto it = std::ranges::find(steps_, name, &Step::name);
  if (it == steps_.end()) return invalid("unknown step '" + std::string(name) + "'");
  return static_cast<std::uint32_t>(it - steps_.begin());
}

/// Repeatedly removes steps without dependencies; a cycle remains.
Result<void> WorkflowGraph::check_acyclic() const {
  std::vector<std::size_t> pending;
  std::vector<std::uint32_t> free;
  for (std::uint32_t i = 0; i < steps_.size(); ++i) {
    pending.push_back(steps_[i].after.size());
    if (pending.back() == 0) free.push_back(i);
  }
  for (std::size_t next = 0; next < free.size(); ++next) {
    for (const std::uint32_t later : steps_[free[next]].before) {
      if (--pending[later] == 0) free.push_back(later);
    }
  }
  if (free.size() == steps_.size()) return {};
  const auto stuck = std::ranges::find_if(pending, [](std::size_t n) { return n > 0; });
  return invalid("step '" + steps_[static_cast<std::size_t>(stuck - pending.begin())].name +
                 "' depends on itself in a cycle; make the way back a jump");
}

Result<void> WorkflowGraph::done(std::string_view name) {
  AFI_TRY(const std::uint32_t index, find(name));
  for (const std::uint32_t before : steps_[index].after) {
    if (!steps_[before].done) {
      return invalid("step '" + steps_[index].name + "' depends on '" + steps_[before].name +
                     "', which is not done");
    }
  }
  steps_[index].done = true;
  update_distances();
  return {};
}

Result<void> WorkflowGraph::again(std::string_view name) {
  AFI_TRY(const std::uint32_t first, find(name));
  std::vector<std::uint32_t> undone = {first};
  std::vector<bool> seen(steps_.size());
  seen[first] = true;
  for (std::size_t next = 0; next < undone.size(); ++next) {
    steps_[undone[next]].done = false;
    for (const std::uint32_t later : steps_[undone[next]].before) {
      if (!seen[later]) {
        seen[later] = true;
        undone.push_back(later);
      }
    }
  }
  update_distances();
  return {};
}

/// Breadth-first search from the steps that can run now. A step is reached with the last step that
/// it depends on, or by a jump, whichever comes first; every edge costs one step, so first means
/// nearest.
void WorkflowGraph::update_distances() {
  std::vector<std::size_t> pending(steps_.size());
  std::vector<double> chance(steps_.size(), 1.0);  // that all its dependencies will run
  std::vector<std::uint32_t> wave;
  for (std::uint32_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    step.next = {};
    pending[i] = static_cast<std::size_t>(
        std::ranges::count_if(step.after, [&](std::uint32_t d) { return !steps_[d].done; }));
    if (!step.done && pending[i] == 0) {
      step.next = {.steps = 0, .probability = 1};
      wave.push_back(i);
    }
  }
  for (std::uint32_t depth = 1; !wave.empty(); ++depth) {
    std::vector<std::uint32_t> reached;
    const auto reach = [&](std::uint32_t to, double probability) {
      NextUse& next = steps_[to].next;
      if (next.steps == NextUse::kNever) reached.push_back(to);
      if (next.steps < depth) return;
      const double best =
          next.steps == depth ? std::max(next.probability, probability) : probability;
      next = {.steps = depth, .probability = best};
    };
    for (const std::uint32_t from : wave) {
      const Step& step = steps_[from];
      for (const Jump& jump : step.jumps) {
        reach(jump.to, jump.probability * step.next.probability);
      }
      if (step.done) continue;  // reached again by a jump: its dependents already have it
      for (const std::uint32_t later : step.before) {
        chance[later] = std::min(chance[later], step.next.probability);
        if (--pending[later] == 0 && !steps_[later].done) reach(later, chance[later]);
      }
    }
    wave = std::move(reached);
  }
}

NextUse WorkflowGraph::next_use(AgentId agent) const {
  NextUse nearest;
  for (const Step& step : steps_) {
    if (step.agent != agent) continue;
    const bool likelier =
        step.next.steps == nearest.steps && step.next.probability > nearest.probability;
    if (step.next.steps < nearest.steps || likelier) nearest = step.next;
  }
  return nearest;
}

std::vector<AgentUse> WorkflowGraph::farthest_first() const {
  std::map<AgentId, NextUse> agents;
  for (const Step& step : steps_) {
    if (step.agent != kNoAgent) agents.try_emplace(step.agent, next_use(step.agent));
  }
  std::vector<AgentUse> order;
  for (const auto& [agent, next] : agents) order.push_back({.agent = agent, .next = next});
  std::ranges::stable_sort(order, [](const AgentUse& a, const AgentUse& b) {
    if (a.next.steps != b.next.steps) return a.next.steps > b.next.steps;
    return a.next.probability < b.next.probability;
  });
  return order;
}

std::vector<AgentUse> WorkflowGraph::worth_prefetching(std::uint32_t steps,
                                                       double probability) const {
  std::vector<AgentUse> order = farthest_first();
  std::ranges::reverse(order);
  std::erase_if(order, [&](const AgentUse& use) {
    return use.next.steps == 0 || use.next.steps > steps || use.next.probability < probability;
  });
  return order;
}

}  // namespace afterimage
