// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/prompt_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace afterimage {
namespace {

std::uint64_t less(std::uint64_t from, std::uint64_t what) { return from - std::min(from, what); }

/// What an estimate of tokens by bytes may be wrong by, and a block.
std::uint64_t tolerance(std::uint64_t tokens) { return kBlockTokens + tokens / 8; }

std::uint64_t share_of(std::uint64_t tokens, std::uint64_t bytes, std::uint64_t all_bytes) {
  if (bytes == 0) return 0;
  const double share = static_cast<double>(bytes) / static_cast<double>(all_bytes);
  return static_cast<std::uint64_t>(std::llround(share * static_cast<double>(tokens)));
}

constexpr std::size_t kUsualHeader = 96;  // of most prompts, at most

void append_share(std::string& text, std::string_view what, std::uint64_t share,
                  std::uint64_t whole, std::string_view unit) {
  text.append(what).append(std::to_string(share)).append("/").append(std::to_string(whole));
  text.append(unit);
}

}  // namespace

std::string_view to_string(PromptReason reason) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"kept", "never-seen", "diverges", "evicted", "overwritten",
                                       "other-replica", "server-restarted"});
  static_assert(kNames.size() == kPromptReasons);
  return kNames[static_cast<std::size_t>(reason)];
}

std::string_view to_string(Blame blame) {
  static constexpr auto kNames = std::to_array<std::string_view>({"nobody", "prompt", "server"});
  static_assert(kNames.size() == kBlames);
  return kNames[static_cast<std::size_t>(blame)];
}

std::optional<std::uint64_t> PromptReport::tokens_of(std::uint64_t bytes) const {
  if (!usage.prompt_tokens.has_value() || divergence.total_bytes == 0) return std::nullopt;
  return share_of(*usage.prompt_tokens, bytes, divergence.total_bytes);
}

std::optional<std::uint64_t> PromptReport::tokens_from_start(std::uint64_t bytes) const {
  const auto by_this = tokens_of(bytes);
  if (!by_this.has_value() || earlier.tokens == 0 || earlier.bytes == 0) return by_this;
  return std::min(*by_this, share_of(earlier.tokens, bytes, earlier.bytes));
}

std::optional<std::uint64_t> PromptReport::shared_tokens() const {
  return tokens_from_start(divergence.shared_bytes);
}

std::optional<std::uint64_t> PromptReport::lost_by_prompt() const {
  if (reason == PromptReason::kKept) return 0;
  const auto lost = tokens_of(divergence.loses() ? divergence.lost_bytes : 0);
  if (!lost.has_value()) return std::nullopt;
  return less(*lost, less(usage.cached_tokens.value_or(0), shared_tokens().value_or(0)));
}

std::optional<std::uint64_t> PromptReport::lost_by_server() const {
  if (!usage.cached_tokens.has_value()) return std::nullopt;
  const auto shared = shared_tokens();
  if (!shared.has_value()) return std::nullopt;
  const std::uint64_t lost = less(*shared, *usage.cached_tokens);
  return lost <= tolerance(*shared) ? 0 : lost;
}

bool PromptReport::reused_more() const {
  const auto shared = shared_tokens();
  return shared.has_value() && usage.cached_tokens > *shared + tolerance(*shared);
}

Blame PromptReport::blame() const {
  switch (reason) {
    case PromptReason::kKept:
    case PromptReason::kNeverSeen:
      return Blame::kNobody;
    case PromptReason::kDiverges:
      return Blame::kPrompt;
    case PromptReason::kEvicted:
    case PromptReason::kOverwritten:
    case PromptReason::kOtherReplica:
    case PromptReason::kServerRestarted:
      return Blame::kServer;
  }
  return Blame::kNobody;
}

PromptReport first_report(const PromptDivergence& divergence) {
  PromptReport report{.divergence = divergence};
  if (divergence.loses()) {
    report.reason = PromptReason::kDiverges;
  } else if (divergence.shared_bytes > 0) {
    report.reason = PromptReason::kKept;
  }
  return report;
}

PromptReport without_tools(PromptReport report) {
  PromptDivergence& at = report.divergence;
  at.shared_bytes -= at.tools_bytes;
  at.lost_bytes += std::exchange(at.tools_bytes, 0);
  if (report.reason == PromptReason::kKept && at.loses()) report.reason = PromptReason::kDiverges;
  return report;
}

PromptReport with_usage(PromptReport report, const ServerFacts& facts) {
  report.usage = facts.usage;
  report.earlier = facts.earlier;
  // Nobody knows what it computed again.
  if (!facts.usage.cached_tokens.has_value()) return report;
  const bool is_same_cache = !facts.has_restarted && !facts.is_other_replica;
  const bool has_tools = report.divergence.tools_bytes > 0;
  if (has_tools && is_same_cache && report.lost_by_server() > 0U) {
    report = without_tools(std::move(report));
  }
  const std::uint64_t by_server = report.lost_by_server().value_or(0);
  const std::uint64_t by_prompt = report.lost_by_prompt().value_or(0);
  if (by_server > 0 && by_server >= by_prompt) {
    report.reason = facts.has_restarted      ? PromptReason::kServerRestarted
                    : facts.is_other_replica ? PromptReason::kOtherReplica
                                             : PromptReason::kEvicted;
  } else if (report.reason == PromptReason::kDiverges && facts.usage.prompt_tokens.has_value() &&
             *facts.usage.cached_tokens + tolerance(*facts.usage.prompt_tokens) >=
                 *facts.usage.prompt_tokens &&
             by_prompt <= kBlockTokens && report.shared_tokens() < facts.usage.cached_tokens) {
    report.reason = PromptReason::kKept;  // the server did not mind
    report.example = nullptr;
  }
  return report;
}

PromptReport with_later(PromptReport report, std::uint64_t later_bytes) {
  const auto later = report.tokens_from_start(later_bytes);
  if (report.reason != PromptReason::kEvicted || later_bytes == 0 || !later.has_value()) {
    return report;
  }
  // llama-server takes a slot for a tenth of the prompt. Less is hardly told from nothing.
  const std::uint64_t reused = *report.usage.cached_tokens;
  if (reused == 0 || *later * 10 < *report.usage.prompt_tokens) return report;
  if (std::max(reused, *later) - std::min(reused, *later) > tolerance(*later)) return report;
  report.reason = PromptReason::kOverwritten;
  report.overwritten_bytes = later_bytes;
  return report;
}

std::string place_of(const PromptDivergence& divergence) {
  std::string place = to_string(*divergence.part);
  if (divergence.offset.has_value()) place += "@" + std::to_string(*divergence.offset);
  return place;
}

std::string header_value(const PromptReport& report) {
  const PromptDivergence& at = report.divergence;
  std::string text;
  text.reserve(kUsualHeader);
  append_share(text, "shared=", at.shared_bytes, at.total_bytes, " bytes");
  const auto& usage = report.usage;
  if (usage.prompt_tokens.has_value() && usage.cached_tokens.has_value()) {
    append_share(text, "; reused=", *usage.cached_tokens, *usage.prompt_tokens, " tokens");
  }
  if (report.reason != PromptReason::kKept && report.reason != PromptReason::kDiverges) {
    text.append("; reason=").append(to_string(report.reason));
  }
  if (report.reason == PromptReason::kKept || !at.loses()) return text;
  text.append("; diverges=").append(place_of(at));
  if (at.change != PartChange::kChanged) text.append("; change=").append(to_string(at.change));
  if (at.looks != Looks::kNone) text.append("; looks=").append(to_string(at.looks));
  return text;
}

}  // namespace afterimage
