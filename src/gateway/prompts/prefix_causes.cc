// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/prefix_causes.h"

#include <algorithm>
#include <tuple>

namespace afterimage {
namespace {

PrefixCause cause_of(const PromptReport& report) {
  if (report.reason != PromptReason::kDiverges) return {.reason = report.reason};
  const PromptDivergence& at = report.divergence;
  return {.reason = report.reason, .part = at.part->kind, .change = at.change, .looks = at.looks};
}

std::string_view remedy_of_message(PartChange change) {
  if (change == PartChange::kReasoningDropped) return "send an answer's reasoning back with it";
  if (change == PartChange::kToolCallRewritten) {
    return "send the arguments of tool calls back as the model wrote them";
  }
  return "cut the history rarely, and much at once; send answers back as they came";
}

std::string_view remedy_of_part(const PrefixCause& cause) {
  switch (cause.part) {
    case PartKind::kModel:
      return "keep the model within a conversation";
    case PartKind::kParameters:
      return "keep the parameters of the template within a conversation";
    case PartKind::kTools:
      return "send the same tools in the same order; prompt.stabilise = [\"tool-order\"] sorts "
             "them";
    case PartKind::kSystem:
    case PartKind::kPrompt:
      return "put what changes to the end of the prompt; prompt.stabilise = [\"date-line\"] moves "
             "a date";
    case PartKind::kMessages:
      return remedy_of_message(cause.change);
    case PartKind::kMedia:
      return "send the bytes, the order and the options of the first time";
  }
  return {};
}

}  // namespace

std::string_view remedy(const PrefixCause& cause) {
  switch (cause.reason) {
    case PromptReason::kKept:
    case PromptReason::kNeverSeen:
      return {};
    case PromptReason::kDiverges:
      return remedy_of_part(cause);
    case PromptReason::kEvicted:
      return "give the server a larger prefix cache, or send it fewer conversations at a time";
    case PromptReason::kOverwritten:
      return "llama-server: --parallel N, and id_slot in the requests of each conversation; "
             "another "
             "server: a larger prefix cache";
    case PromptReason::kOtherReplica:
      return "let the gateway choose replicas by content: upstream.routing = \"content\"";
    case PromptReason::kServerRestarted:
      return "the server's cache was lost with its process";
  }
  return {};
}

void PrefixCauses::add(const PromptReport& report, std::uint64_t decision) {
  const Blame blame = report.blame();
  if (blame == Blame::kNobody) return;
  const PrefixCause cause = cause_of(report);
  const auto tokens = blame == Blame::kPrompt ? report.lost_by_prompt() : report.lost_by_server();
  const MutexLock lock(mutex_);
  Cost& cost = costs_[cause];
  cost.cause = cause;
  ++cost.requests;
  cost.tokens += tokens.value_or(0);
  cost.place = blame == Blame::kPrompt ? place_of(report.divergence) : std::string();
  // Requests that end at the same moment may be added in another order.
  cost.decision = std::max(cost.decision, decision);
  if (blame == Blame::kPrompt && report.example != nullptr) cost.example = report.example;
}

void PrefixCauses::forget_examples(const std::function<bool(std::string_view)>& chosen) {
  const MutexLock lock(mutex_);
  for (auto& [cause, cost] : costs_) {
    if (cost.example != nullptr && chosen(cost.example->tenant_id)) cost.example = nullptr;
  }
}

std::vector<PrefixCauses::Cost> PrefixCauses::list() const {
  std::vector<Cost> costs;
  {
    const MutexLock lock(mutex_);
    for (const auto& [cause, cost] : costs_) costs.push_back(cost);
  }
  std::ranges::stable_sort(costs, std::ranges::greater(),
                           [](const Cost& cost) { return std::tuple(cost.tokens, cost.requests); });
  return costs;
}

}  // namespace afterimage
