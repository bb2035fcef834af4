// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/workflow_order.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace afterimage {
namespace {

constexpr std::size_t kMaxNext = 16;

}  // namespace

WorkflowOrder::Workflow& WorkflowOrder::workflow_of(Owner& owner, const std::string& name) {
  const auto known = std::ranges::find(owner.workflows, name, &Workflow::name);
  if (known != owner.workflows.end()) {
    owner.workflows.splice(owner.workflows.end(), owner.workflows, known);
  } else {
    owner.workflows.push_back({.name = name, .steps = {}, .at = {}});
  }
  return owner.workflows.back();
}

WorkflowStepId WorkflowOrder::add(Owner& owner, Workflow& workflow, const std::string& step) {
  const auto [at, is_new] = workflow.steps.try_emplace(step);
  if (is_new) {
    at->second.id = WorkflowStepId(++named_);
    ++owner.steps;
  }
  return at->second.id;
}

WorkflowStepId WorkflowOrder::begin(EntryLabel label, const WorkflowHint& hint) {
  if (hint.workflow.empty() || hint.step.empty()) return kNoStep;
  const MutexLock lock(mutex_);
  const auto [found, is_new] = owners_.try_emplace(label);
  Owner& owner = found->second;
  if (is_new) owner.in_order = order_.insert(order_.end(), label);
  order_.splice(order_.end(), order_, owner.in_order);
  Workflow& workflow = workflow_of(owner, hint.workflow);
  const WorkflowStepId id = add(owner, workflow, hint.step);
  workflow.at = hint.step;
  if (!hint.next_steps.empty()) {
    std::vector<std::string> next = hint.next_steps;
    next.resize(std::min(next.size(), kMaxNext));
    for (const std::string& step : next) add(owner, workflow, step);
    workflow.steps.at(hint.step).next = std::move(next);
  }
  // A client that invents names each time must not grow the table for ever.
  while (owner.steps > kMaxSteps && owner.workflows.size() > 1) {
    owner.steps -= owner.workflows.front().steps.size();
    owner.workflows.pop_front();
  }
  if (owner.steps > kMaxSteps) {
    owner = {.in_order = owner.in_order};
    return kNoStep;
  }
  auto distances = std::make_shared<StepDistances>();
  for (const Workflow& one : owner.workflows) append_distances(one, *distances);
  std::ranges::stable_sort(*distances, std::ranges::greater(), &StepDistance::steps);
  owner.distances = std::move(distances);
  if (owners_.size() > kMaxOwners) {
    owners_.erase(order_.front());
    order_.pop_front();
  }
  return id;
}

void WorkflowOrder::append_distances(const Workflow& workflow, StepDistances& distances) {
  const auto& current = *workflow.steps.find(workflow.at);
  if (current.second.next.empty()) return;
  std::map<std::string, std::uint32_t> away{{workflow.at, 0}};
  std::deque<const std::string*> open{&current.first};
  for (; !open.empty(); open.pop_front()) {
    const std::uint32_t steps = away.at(*open.front()) + 1;
    for (const std::string& next : workflow.steps.at(*open.front()).next) {
      if (away.try_emplace(next, steps).second) open.push_back(&next);
    }
  }
  for (const auto& [name, step] : workflow.steps) {
    const auto found = away.find(name);
    distances.push_back(
        {.step = step.id, .steps = found == away.end() ? StepDistance::kLast : found->second});
  }
}

std::shared_ptr<const StepDistances> WorkflowOrder::farthest_first(EntryLabel owner) const {
  const MutexLock lock(mutex_);
  const auto found = owners_.find(owner);
  return found == owners_.end() ? nullptr : found->second.distances;
}

}  // namespace afterimage
