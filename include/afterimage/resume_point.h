// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "afterimage/kv_layout.h"
#include "afterimage/sequence.h"
#include "afterimage/units.h"

/// At which length can an engine really continue from what is cached?
///
/// Rules    A length r is legal for a group of layers if, computed r tokens long, it would hold
/// nothing
///          that is not cached:  full: r <= covered.  sliding: rows [r - window, r) lie in one
///          cached range, or all of them where r < window.  recurrent: a state after exactly r
///          tokens. shared: as its owner.  For the request: r is a multiple of the layout's
///          alignment, r is not strictly inside an unsplittable media span, r <= matched, and r <=
///          length - 1, because the logits of one token must be computed. 0 is always legal: it
///          reuses nothing.
/// Unit     Tokens from the start of the sequence.
/// Errors   None: pure functions of values. The layout is one that check_layout accepts,
/// availability has
///          one element a group, spans are in order.
/// Threads  Any.
/// Source   src/prefix/DESIGN.md; tested against brute force.
namespace afterimage {

/// Rows [first, end) of a sliding group, restored together. Ranges are not joined with each other.
struct RowRange {
  TokenCount first{};
  TokenCount end{};
};

/// What is cached of one group. Only the member of the group's kind is read; shared groups have
/// none.
struct GroupAvailability {
  TokenCount covered{};                // full: rows [0, covered)
  std::span<const RowRange> rows;      // sliding; any order
  std::span<const TokenCount> states;  // recurrent: lengths after which a state was kept, ascending
};

/// What is asked.
struct ResumeQuery {
  TokenCount length{};   // of the whole prompt
  TokenCount matched{};  // leading tokens that are those of a cached sequence
  std::span<const MediaSpan> spans;
};

/// Why a resume point is not further.
enum class ResumeLimit : unsigned char {
  kPromptEnd,  // nothing is left but the token whose logits are needed: the best there is
  kMatched,    // what follows is not what was cached
  kMediaSpan,  // further on lies the inside of an unsplittable media span
  kAlignment,  // the next multiple of the alignment is too far
  kCovered,    // a full group has no rows beyond
  kWindow,     // a sliding group lacks window rows beyond
  kState,      // a recurrent group has no state beyond
};
/// "prompt_end", "matched", "media_span", "alignment", "covered", "window", "state".
std::string_view to_string(ResumeLimit limit);

/// How far one group would go by itself, under the rules for the request.
struct GroupVerdict {
  TokenCount alone{};
  ResumeLimit limit = ResumeLimit::kPromptEnd;
  bool operator==(const GroupVerdict&) const = default;
};

struct ResumePoint {
  TokenCount length{};  // the longest legal one
  ResumeLimit limit = ResumeLimit::kPromptEnd;
  std::uint32_t group = 0;  // the one that limits; with kCovered, kWindow and kState only
  /// It would have been this, had a snapshot (window rows and states) stood there.
  std::optional<TokenCount> with_snapshot;
  std::vector<GroupVerdict> groups;
};

/// The longest legal length alone: for look-ups. No allocation.
TokenCount resume_length(const KvLayout& layout, std::span<const GroupAvailability> availability,
                         const ResumeQuery& query);

/// The same with reasons: for people.
ResumePoint resume_point(const KvLayout& layout, std::span<const GroupAvailability> availability,
                         const ResumeQuery& query);

/// The longest length at most `at` that is legal for the request, groups aside: the alignment is
/// kept and no unsplittable span is cut.
TokenCount legal_boundary(const KvLayout& layout, std::span<const MediaSpan> spans, TokenCount at);

/// Where snapshots of a run should stand that goes on from `resume`, ascending: at `parted`, where
/// the prompt left what others share with it (the next that shares so much resumes there), after
/// each group of media, and one token before its end (an exact repeat and the conversation's next
/// turn resume there). Empty if the layout needs none.
std::vector<TokenCount> snapshot_positions(const KvLayout& layout, const Sequence& prompt,
                                           TokenCount parted, TokenCount resume);

/// The spans whose items the encoder is still needed for after resuming at `resume`: those that do
/// not end at or before it. By position, never by count: an item that stands twice may be needed
/// once.
std::span<const MediaSpan> media_to_encode(std::span<const MediaSpan> spans, TokenCount resume);

}  // namespace afterimage
