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

/// One step of a workflow as its author writes it down.
struct WorkflowStep {
  std::string name;
  AgentId agent = kNoAgent;
  std::vector<std::string> after;  // runs when all of these are done
};

/// A way back, or a branch that is not always taken: after `from`, with this probability, `to`
/// runs (again).
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

/// Agents, steps, dependencies, loops: how many steps until an agent runs again, as the workflow
/// stands now. Every `done` moves it on.
///
/// A step is as far away as the longest chain of steps that must still be done before it; a jump
/// offers a nearer way with its probability. Of several ways the nearest counts.
///
/// Errors   kInvalidArgument: a step named twice, an unknown name, dependencies in a circle (ways
///          back are jumps), a probability outside (0, 1].
/// Cost     done, again: O(steps + dependencies + jumps), without recursion. next_use: O(steps).
/// Threads  Not thread-safe.
class WorkflowGraph {
 public:
  static Result<WorkflowGraph> create(std::vector<WorkflowStep> steps,
                                      const std::vector<WorkflowJump>& jumps = {});

  /// The step has run. kInvalidArgument: unknown, or it waits for others.
  Result<void> done(std::string_view step);
  /// A jump was taken: the step, and all that waits for it, is to run again.
  Result<void> again(std::string_view step);

  [[nodiscard]] NextUse next_use(AgentId agent) const;
  /// Every agent, the farthest first: the order in which what they hold should leave.
  [[nodiscard]] std::vector<AgentUse> farthest_first() const;
  /// Agents that run within `steps` from now, but not now, at least as likely as said; nearest
  /// first: whose context is worth fetching meanwhile.
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
    std::vector<std::uint32_t> before;  // those that wait for it
    std::vector<Jump> jumps;
    bool done = false;
    NextUse next;
  };

  [[nodiscard]] Result<std::uint32_t> find(std::string_view name) const;
  [[nodiscard]] Result<void> check_no_circle() const;
  void look_ahead();

  std::vector<Step> steps_;
};

}  // namespace afterimage
