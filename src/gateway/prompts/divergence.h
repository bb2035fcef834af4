// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/prompts/prompt_parts.h"
#include "gateway/prompts/prompt_record.h"

namespace afterimage {

/// How a part differs from that of the earlier prompt.
enum class PartChange : unsigned char {
  kChanged,
  kAdded,
  kRemoved,
  kReordered,          // tools or media: the same, in another order
  kOptions,            // media: the same bytes with another option, as `detail`
  kResized,            // media: other bytes, and another width or height
  kReaddressed,        // media by address: another query of the same address
  kReasoningDropped,   // a message without the reasoning that it had
  kToolCallRewritten,  // a message whose tool calls mean the same, written differently
};
inline constexpr std::size_t kPartChanges = 9;
/// "changed", "added", "removed", "reordered", "options", "resized", "readdressed", "reasoning-dropped",
/// "tool-call-rewritten".
std::string_view to_string(PartChange change);

/// What the text at the place that changed looks like, before or after.
enum class Looks : unsigned char {
  kNone,  // it is not text
  kDate,
  kTime,
  kCounter,     // a number that went up a little
  kId,          // a UUID, or a prefix with random characters: "call_9f3b…"
  kHash,        // hexadecimal or base64 digits
  kNumber,      // another number
  kNonce,       // a short random word
  kWhitespace,  // the same words with other spaces or punctuation between them
  kText,
};
inline constexpr std::size_t kLooks = 10;
/// "none", "date", "time", "counter", "id", "hash", "number", "nonce", "whitespace", "text".
std::string_view to_string(Looks looks);

/// Two prompts that have no more than this in common behind the place where they part are about
/// something else.
inline constexpr std::uint64_t kLeastLoss = 64;

/// Where a prompt parts from an earlier one.
///
/// Unit     Bytes of text as the request has it; a media item counts as kMediaBytes.
struct PromptDivergence {
  std::uint64_t shared_bytes = 0;  // from the beginning
  /// Of those, of tools, if the system prompts part: most templates of open models write tools behind it.
  std::uint64_t tools_bytes = 0;
  std::uint64_t total_bytes = 0;  // of the new prompt
  /// Of the new prompt, behind the place where they part: what the earlier one has as well, so that the
  /// server computes it again.
  std::uint64_t lost_bytes = 0;
  /// Of the new prompt; of the earlier one if the part was removed. nullopt: the new prompt begins with the
  /// whole earlier one, or the other way round.
  std::optional<PartPlace> part = std::nullopt;
  PartChange change = PartChange::kChanged;
  /// In the part's text, in bytes, to the word; nullopt: it is not in its text.
  std::optional<std::uint64_t> offset = std::nullopt;
  Looks looks = Looks::kNone;

  /// Not if what follows is another question, or nothing.
  [[nodiscard]] bool loses() const { return part.has_value() && lost_bytes >= kLeastLoss; }
  bool operator==(const PromptDivergence&) const = default;
};

/// Where `now` parts from `earlier`. Records of one recorder.
///
/// Cost     Linear in the number of parts, and in the words of the one that differs.
/// Threads  Any.
[[nodiscard]] PromptDivergence compare(const PromptRecord& now, const PromptRecord& earlier);

}  // namespace afterimage
