// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "foundation/platform/mutex.h"
#include "foundation/telemetry/metrics.h"
#include "gateway/prompts/prefix_causes.h"
#include "gateway/prompts/prompt_report.h"

namespace afterimage {

/// What prompts shared, and what was lost of it, for Prometheus and for the page.
///
/// Cost     A response does not wait for counting: reports that are added are counted with settle(), to be
///          called before the causes or `metrics` are read.
/// Threads  Any.
class PromptCounts {
 public:
  /// `metrics` outlives it.
  explicit PromptCounts(Metrics& metrics);

  /// Of a request whose response is complete. `decision`: its id.
  void add(const PromptReport& report, std::uint64_t decision);
  void settle();
  /// What was lost by which cause; the dearest first.
  [[nodiscard]] std::vector<PrefixCauses::Cost> causes() const { return causes_.list(); }
  /// Forgets the examples of these tenants' prompts.
  void forget_examples(const std::function<bool(std::string_view tenant_id)>& chosen);

 private:
  struct Added {
    PromptReport report;
    std::uint64_t decision;
  };
  void settle_locked() AFI_REQUIRES(mutex_);
  void count(const PromptReport& report) AFI_REQUIRES(mutex_);

  Metrics& metrics_;
  std::vector<MetricCounter> tokens_;  // by kind
  PrefixCauses causes_;
  Mutex mutex_;
  std::vector<Added> added_ AFI_GUARDED_BY(mutex_);
  std::map<std::pair<PartKind, Looks>, MetricCounter> divergences_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
