// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "afterimage/kv.h"
#include "afterimage/sequence.h"
#include "afterimage/units.h"

/// The length at which an engine can resume from what is cached.
///
/// Rules    A length r is legal for a layer group if every row or state that the group would hold
///          after r tokens is cached:
///            full       r <= covered
///            sliding    rows [r - window, r) lie in one cached range; all rows if r < window
///            recurrent  a state after exactly r tokens
///            shared     as its owner
///          For the request, r is a multiple of the layout's alignment, not strictly inside an
///          unsplittable media span, r <= matched, and r <= length - 1, because the logits of at
///          least one token must be computed. 0 is always legal: it reuses nothing.
/// Unit     Tokens from the start of the sequence.
/// Errors   None: pure functions of values. Requires a layout that check_layout accepts, one
///          availability element per group, and spans in order.
/// Threads  Any.
/// Source   src/caches/prefix/DESIGN.md; tested against brute force.
namespace afterimage {

/// Rows [first, end) of a sliding group, restored together. Ranges are never joined.
struct RowRange {
  TokenCount first{};
  TokenCount end{};
};

/// What is cached of one group. Only the member for the group's kind is read; none for shared.
struct GroupAvailability {
  TokenCount covered{};                // full: rows [0, covered)
  std::span<const RowRange> rows;      // sliding; any order
  std::span<const TokenCount> states;  // recurrent: lengths with a cached state, ascending
};

/// The request.
struct ResumeQuery {
  TokenCount length{};   // of the whole prompt
  TokenCount matched{};  // leading tokens that equal those of a cached sequence
  std::span<const MediaSpan> spans;
};

/// What limits a resume point.
enum class ResumeLimit : unsigned char {
  kPromptEnd,  // only the token whose logits are needed is left: the best possible
  kMatched,    // the next token was not cached
  kMediaSpan,  // going further would end inside an unsplittable media span
  kAlignment,  // the next multiple of the alignment is out of reach
  kCovered,    // a full group has no more rows
  kWindow,     // a sliding group lacks the window rows of any greater length
  kState,      // a recurrent group has no state at any greater length
};
/// "prompt_end", "matched", "media_span", "alignment", "covered", "window", "state".
std::string_view to_string(ResumeLimit limit);

/// How far one group alone could resume, under the rules for the request.
struct GroupVerdict {
  TokenCount alone{};
  ResumeLimit limit = ResumeLimit::kPromptEnd;
  bool operator==(const GroupVerdict&) const = default;
};

struct ResumePoint {
  TokenCount length{};  // the longest legal length
  ResumeLimit limit = ResumeLimit::kPromptEnd;
  std::uint32_t group = 0;  // the limiting one; for kCovered, kWindow and kState only
  /// The length that would have been legal with a snapshot (window rows and states) there.
  std::optional<TokenCount> with_snapshot;
  std::vector<GroupVerdict> groups;
};

/// The longest legal length only: for look-ups. Does not allocate.
TokenCount resume_length(const KvLayout& layout, std::span<const GroupAvailability> availability,
                         const ResumeQuery& query);

/// The same with reasons: for explanations.
ResumePoint resume_point(const KvLayout& layout, std::span<const GroupAvailability> availability,
                         const ResumeQuery& query);

/// The longest length up to `at` that is legal for the request, whatever the groups hold: aligned
/// and outside of unsplittable spans.
TokenCount legal_boundary(const KvLayout& layout, std::span<const MediaSpan> spans, TokenCount at);

/// Where a run that resumes at `resume` should take snapshots, ascending: at `branch_point`, where
/// the prompt diverges from others (the next prompt that shares the prefix resumes there), where the
/// engine expects others to part (Sequence::branches), after each group of media, and one token before
/// the end (an exact repeat and the conversation's next turn resume there). Empty if the layout needs no
/// snapshots.
std::vector<TokenCount> snapshot_positions(const KvLayout& layout, const Sequence& prompt,
                                           TokenCount branch_point, TokenCount resume);

/// The spans whose media must still be encoded after resuming at `resume`: those that end after it.
/// By position, not by count: of an item that occurs twice, one occurrence may be covered.
std::span<const MediaSpan> media_to_encode(std::span<const MediaSpan> spans, TokenCount resume);

}  // namespace afterimage
