// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/result.h"

namespace afterimage {

/// One step of a workflow, as its author describes it.
struct WorkflowStep {
  std::string name;
  AgentId agent = kNoAgent;
  std::vector<std::string> after;  // runs when all of these are done
};

/// A loop, or a branch that is not always taken: after `from`, `to` runs (again) with this
/// probability.
struct WorkflowJump {
  std::string from;
  std::string to;
  double probability = 1;
};

/// When an agent runs next. 0 steps: now.
struct NextUse {
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t steps = kNever;
  double probability = 0;
  auto operator<=>(const NextUse&) const = default;
};

struct AgentUse {
  AgentId agent = kNoAgent;
  NextUse next;
};

/// A workflow of agents' steps with dependencies and loops. It tells how many steps remain until an
/// agent runs again; done() and again() advance it.
///
/// The distance of a step is the longest chain of steps that must still be done before it; a jump
/// offers a shorter path with its probability. Of several paths the shortest counts.
///
/// Errors   kInvalidArgument: a step named twice, an unknown name, cyclic dependencies (loops must
///          be jumps), a probability outside (0, 1].
/// Cost     done, again: O(steps + dependencies + jumps), without recursion. next_use: O(steps).
/// Threads  Not thread-safe.
class WorkflowGraph {
 public:
  static Result<WorkflowGraph> create(std::vector<WorkflowStep> steps,
                                      const std::vector<WorkflowJump>& jumps = {});

  /// The step has run. kInvalidArgument: unknown, or steps that it depends on are not done.
  Result<void> done(std::string_view step);
  /// A jump was taken: the step and all steps that depend on it must run again.
  Result<void> again(std::string_view step);

  [[nodiscard]] NextUse next_use(AgentId agent) const;
  /// Every agent, the farthest first: the order in which to evict what they hold.
  [[nodiscard]] std::vector<AgentUse> farthest_first() const;
  /// Agents that run within `steps`, but not now, with at least this probability, nearest first:
  /// prefetching their context pays off.
  [[nodiscard]] std::vector<AgentUse> worth_prefetching(std::uint32_t steps = 2,
                                                        double probability = 0.5) const;

 private:
  struct Jump {
    std::uint32_t to;
    double probability;
  };
  struct Step {
    std::string name;
    AgentId agent = kNoAgent;
    std::vector<std::uint32_t> after;
    std::vector<std::uint32_t> before;  // the steps that depend on it
    std::vector<Jump> jumps;
    bool done = false;
    NextUse next;
  };

  [[nodiscard]] Result<std::uint32_t> find(std::string_view name) const;
  [[nodiscard]] Result<void> check_acyclic() const;
  void update_distances();

  std::vector<Step> steps_;
};

}  // namespace afterimage
