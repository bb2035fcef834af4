// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/prompts/divergence.h"
#include "gateway/prompts/prompt_example.h"

namespace afterimage {

/// Why a prompt could not, or was not, reused from the server's prefix cache.
enum class PromptReason : unsigned char {
  kKept,          // nothing is lost: it begins as an earlier one, and what follows is new
  kNeverSeen,     // there is no earlier prompt that it resembles
  kDiverges,      // it differs from the earlier prompt
  kEvicted,       // the server reused much less than both prompts share
  kOverwritten,   // no more than a later prompt shares with it, which took the earlier one's place
  kOtherReplica,  // the earlier prompt was another replica's
  kServerRestarted,  // between the two prompts
};
inline constexpr std::size_t kPromptReasons = 7;
/// "kept", "never-seen", "diverges", "evicted", "overwritten", "other-replica", "server-restarted".
std::string_view to_string(PromptReason reason);

/// Whose fault it is that tokens were computed again.
enum class Blame : unsigned char { kNobody, kPrompt, kServer };
inline constexpr std::size_t kBlames = 3;
/// "nobody", "prompt", "server".
std::string_view to_string(Blame blame);

/// What the server said of a prompt's tokens.
struct PromptUsage {
  std::optional<std::uint64_t> prompt_tokens = std::nullopt;
  std::optional<std::uint64_t> cached_tokens = std::nullopt;  // that it did not compute
};

/// The prompt that another one was compared with, as a server counted it.
struct CountedPrompt {
  std::uint64_t bytes = 0;
  std::uint64_t tokens = 0;  // 0: unknown
};

/// A text that is kept of a tenant's prompt, because the operator wants that.
struct KeptExample {
  std::string tenant_id;
  std::string tenant;  // its name
  PromptExample text;
};

/// What became of a prompt, for a header, a decision, and a client.
struct PromptReport {
  PromptReason reason = PromptReason::kNeverSeen;
  PromptDivergence divergence = {};
  PromptUsage usage = {};
  CountedPrompt earlier = {};
  /// Shared with the later prompt that took the earlier one's place. 0: none did.
  std::uint64_t overwritten_bytes = 0;
  std::shared_ptr<const KeptExample> example = nullptr;  // nullptr: no text is kept

  /// Estimated from bytes; nullopt: the server has not said how many tokens the prompt has.
  [[nodiscard]] std::optional<std::uint64_t> tokens_of(std::uint64_t bytes) const;
  /// By this prompt's tokens or by the earlier one's, whichever are fewer: parts of a prompt have different
  /// numbers of bytes for a token.
  [[nodiscard]] std::optional<std::uint64_t> shared_tokens() const;
  /// Of `bytes` from the beginning, in the same way.
  [[nodiscard]] std::optional<std::uint64_t> tokens_from_start(std::uint64_t bytes) const;
  /// That the server computed again because the prompt changed before them.
  [[nodiscard]] std::optional<std::uint64_t> lost_by_prompt() const;
  /// That the server computed again although the prompt begins with them as an earlier one did. nullopt:
  /// it does not say what it reuses.
  [[nodiscard]] std::optional<std::uint64_t> lost_by_server() const;
  /// The server had much more of the prompt than it shares with the earlier one.
  [[nodiscard]] bool reused_more() const;
  [[nodiscard]] Blame blame() const;
};

/// Fewer tokens than this are no loss: servers reuse whole blocks.
inline constexpr std::uint64_t kBlockTokens = 64;

/// Before the server has said anything.
[[nodiscard]] PromptReport first_report(const PromptDivergence& divergence);
/// The template writes the tools behind the system prompt, which changed: they are lost with it.
[[nodiscard]] PromptReport without_tools(PromptReport report);
/// The server's word on the prompt: `report` with it, and with another reason where the server reused more
/// or less than the prompts share. Tools count as
/// lost with a system prompt that changed if the server computed them again.
struct ServerFacts {
  PromptUsage usage;
  CountedPrompt earlier = {};
  bool is_other_replica = false;  // than that which had the earlier prompt
  bool has_restarted = false;     // since then
};
[[nodiscard]] PromptReport with_usage(PromptReport report, const ServerFacts& facts);
/// An evicted prompt was overwritten if what it reused is what it shares with a later prompt of the same
/// server: `later_bytes` from the beginning.
[[nodiscard]] PromptReport with_later(PromptReport report, std::uint64_t later_bytes);

/// "system@79", "tools[3]". Requires a part.
[[nodiscard]] std::string place_of(const PromptDivergence& divergence);

/// How a response says it: "shared=41231/43110 bytes; diverges=system@79; looks=counter".
/// Numbers and words of closed lists only; in bytes, since the head of a stream leaves before tokens are
/// known. "reused=40960/43110 tokens" if they are, "reason=evicted", "change=removed".
inline constexpr std::string_view kPrefixHeader = "X-Afterimage-Prefix";
[[nodiscard]] std::string header_value(const PromptReport& report);

}  // namespace afterimage
