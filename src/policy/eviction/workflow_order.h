// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// A step and how many steps are left until it comes.
struct StepDistance {
  static constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
  WorkflowStepId step = kNoStep;
  std::uint32_t steps = kLast;
  bool operator==(const StepDistance&) const = default;
};

/// The owner's steps, the farthest first.
using StepDistances = std::vector<StepDistance>;

/// The graphs of clients' workflows, as their requests declare them: which step a request is, and which
/// may follow. From the step that a workflow is at, a step that may follow is one step away, what may
/// follow that two, and so on. A step to which nothing declared leads comes last. Of a workflow whose
/// current step declared nothing, nothing is known.
///
/// Shape    At most kMaxSteps an owner and kMaxOwners owners; the least recently active are dropped.
/// Threads  Any.
/// Cost     begin(): one search through the workflow, and a list of the owner's steps.
class WorkflowOrder {
 public:
  static constexpr std::size_t kMaxSteps = 256;
  static constexpr std::size_t kMaxOwners = 1024;

  /// A request of the step begins. kNoStep: the hint names none.
  WorkflowStepId begin(EntryLabel owner, const WorkflowHint& hint);
  /// nullptr: the owner declared nothing.
  [[nodiscard]] std::shared_ptr<const StepDistances> farthest_first(EntryLabel owner) const;

 private:
  struct Step {
    WorkflowStepId id = kNoStep;
    std::vector<std::string> next;  // as last declared
  };
  struct Workflow {
    std::string name;
    std::map<std::string, Step> steps;
    std::string at;  // the current step
  };
  struct Owner {
    std::list<Workflow> workflows;  // the least recently active first
    std::size_t steps = 0;
    std::shared_ptr<const StepDistances> distances;
    std::list<EntryLabel>::iterator in_order;
  };

  [[nodiscard]] static Workflow& workflow_of(Owner& owner, const std::string& name);
  WorkflowStepId add(Owner& owner, Workflow& workflow, const std::string& step)
      AFI_REQUIRES(mutex_);
  static void append_distances(const Workflow& workflow, StepDistances& distances);

  mutable Mutex mutex_;
  std::map<EntryLabel, Owner> owners_ AFI_GUARDED_BY(mutex_);
  std::list<EntryLabel> order_ AFI_GUARDED_BY(mutex_);  // the least recently active first
  std::uint32_t named_ AFI_GUARDED_BY(mutex_) = 0;
};

}  // namespace afterimage
