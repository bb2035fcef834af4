// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "foundation/platform/mutex.h"
#include "gateway/prompts/prompt_report.h"

namespace afterimage {

/// Why servers computed prompts again: what changed in them, or what the server did.
struct PrefixCause {
  PromptReason reason = PromptReason::kDiverges;
  PartKind part = PartKind::kModel;  // these only of prompts that differ
  PartChange change = PartChange::kChanged;
  Looks looks = Looks::kNone;
  auto operator<=>(const PrefixCause&) const = default;
};
/// What to do about it, in one sentence.
[[nodiscard]] std::string_view remedy(const PrefixCause& cause);

/// The causes of this process, each with what it cost.
///
/// Memory   Bounded: all members of a cause are closed lists, and each has one example.
/// Threads  Any.
class PrefixCauses {
 public:
  struct Cost {
    PrefixCause cause;
    std::uint64_t requests = 0;
    std::uint64_t tokens = 0;  // computed again; estimated, of requests whose server counts tokens
    std::string place;         // in the last one: "system@79"
    std::uint64_t decision = 0;                  // that last one's
    std::shared_ptr<const KeptExample> example;  // the newest; nullptr: no text is kept
  };
  /// Of a request whose response is complete. Nothing, if nothing was lost.
  void add(const PromptReport& report, std::uint64_t decision);
  /// The most tokens first, then the most requests.
  [[nodiscard]] std::vector<Cost> list() const;
  /// Forgets the examples of these tenants.
  void forget_examples(const std::function<bool(std::string_view tenant_id)>& chosen);

 private:
  mutable Mutex mutex_;
  std::map<PrefixCause, Cost> costs_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
