// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/prompt_counts.h"

#include <cstddef>
#include <optional>
#include <string>

namespace afterimage {
namespace {

constexpr std::size_t kMostAdded = 64;  // of reports that are not counted yet

}  // namespace

PromptCounts::PromptCounts(Metrics& metrics) : metrics_(metrics) {
  for (const std::string_view kind : {"shared", "reused", "lost_by_prompt", "lost_by_server"}) {
    tokens_.push_back(metrics.counter("afterimage_prompt_tokens_total",
                                      "Tokens of prompts that the model's server counted",
                                      {{"kind", std::string(kind)}}));
  }
}

void PromptCounts::add(const PromptReport& report, std::uint64_t decision) {
  const MutexLock lock(mutex_);
  added_.push_back({.report = report, .decision = decision});
  if (added_.size() >= kMostAdded) settle_locked();
}

void PromptCounts::settle() {
  const MutexLock lock(mutex_);
  settle_locked();
}

void PromptCounts::forget_examples(const std::function<bool(std::string_view)>& chosen) {
  settle();
  causes_.forget_examples(chosen);
}

void PromptCounts::settle_locked() {
  for (const Added& added : added_) {
    causes_.add(added.report, added.decision);
    count(added.report);
  }
  added_.clear();
}

void PromptCounts::count(const PromptReport& report) {
  const auto add = [](MetricCounter& counter, const std::optional<std::uint64_t>& tokens) {
    if (tokens.value_or(0) > 0) counter.add(static_cast<double>(*tokens));
  };
  add(tokens_[0], report.shared_tokens());
  add(tokens_[1], report.usage.cached_tokens);
  add(tokens_[2], report.lost_by_prompt());
  add(tokens_[3], report.lost_by_server());
  if (report.reason != PromptReason::kDiverges) return;
  const PromptDivergence& at = report.divergence;
  auto known = divergences_.find({at.part->kind, at.looks});
  if (known == divergences_.end()) {
    known = divergences_
                .emplace(std::pair(at.part->kind, at.looks),
                         metrics_.counter("afterimage_prefix_divergence_total",
                                          "Requests whose prompt differs from the closest earlier "
                                          "one before something that both have",
                                          {{"part", std::string(to_string(at.part->kind))},
                                           {"looks", std::string(to_string(at.looks))}}))
                .first;
  }
  known->second.add();
}

}  // namespace afterimage
