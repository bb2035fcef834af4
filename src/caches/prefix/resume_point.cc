// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/prefix/resume_point.h"

#include <algorithm>

#include "afterimage/result.h"
#include "caches/prefix/captured_kv.h"

namespace afterimage {
namespace {

/// Between a snapshot where prompts are expected to part, and what is cached before it: the next turn of
/// a conversation resumes a few tokens before its question anyway.
constexpr TokenCount kWorthASnapshot(64);

/// The unsplittable span that `at` would cut, if any.
const MediaSpan* span_cut_at(std::span<const MediaSpan> spans, TokenCount at) {
  const auto after = std::ranges::lower_bound(spans, at, {}, &MediaSpan::offset);
  if (after == spans.begin()) return nullptr;
  const MediaSpan& before = *std::prev(after);
  return !before.splittable && at < before.end() ? &before : nullptr;
}

TokenCount aligned(const KvLayout& layout, TokenCount at) {
  return at - TokenCount(at.value() % layout.alignment.value());
}

TokenCount sliding_at_most(const LayerGroup& group, std::span<const RowRange> ranges,
                           TokenCount at) {
  TokenCount best{};
  for (const RowRange& range : ranges) {
    const TokenCount high = std::min(at, range.end);
    const std::uint64_t low = range.first == TokenCount(0)
                                  ? 0
                                  : std::uint64_t{range.first.value()} + group.window.value();
    if (low <= high.value()) best = std::max(best, high);
  }
  return best;
}

TokenCount state_at_most(std::span<const TokenCount> states, TokenCount at) {
  const auto after = std::ranges::upper_bound(states, at);
  return after == states.begin() ? TokenCount(0) : *std::prev(after);
}

/// The longest length up to `at` that is legal for the group, ignoring the rules for the request.
TokenCount group_at_most(const LayerGroup& group, const GroupAvailability& available,
                         TokenCount at) {
  switch (group.kind) {
    case KvKind::kFull:
      return std::min(at, available.covered);
    case KvKind::kSliding:
      return sliding_at_most(group, available.rows, at);
    case KvKind::kRecurrent:
      return state_at_most(available.states, at);
    case KvKind::kShared:
      return at;  // its owner is checked as a group of its own
  }
  return TokenCount(0);
}

TokenCount furthest(const ResumeQuery& query) {
  if (query.length == TokenCount(0)) return TokenCount(0);
  return std::min(query.matched, query.length - TokenCount(1));
}

// Each rule maps a length to the longest legal one not beyond it. Applying all rules until none
// changes the length gives the longest that all allow; it terminates because lengths only shrink.
template <typename Rule>
TokenCount descend(const KvLayout& layout, const ResumeQuery& query, TokenCount from, Rule rule) {
  TokenCount at = from;
  while (true) {
    const TokenCount next = rule(legal_boundary(layout, query.spans, at));
    if (next == at) return at;
    at = next;
  }
}

ResumeLimit limit_of(KvKind kind) {
  switch (kind) {
    case KvKind::kSliding:
      return ResumeLimit::kWindow;
    case KvKind::kRecurrent:
      return ResumeLimit::kState;
    case KvKind::kFull:
    case KvKind::kShared:
      break;
  }
  return ResumeLimit::kCovered;
}

/// Which rule for the request forbids lengths beyond `at`, the longest that those rules allow.
ResumeLimit request_limit(const KvLayout& layout, const ResumeQuery& query, TokenCount at) {
  const TokenCount far = furthest(query);
  if (at == far) {
    return query.matched < query.length ? ResumeLimit::kMatched : ResumeLimit::kPromptEnd;
  }
  return span_cut_at(query.spans, aligned(layout, far)) != nullptr ||
                 span_cut_at(query.spans, far) != nullptr
             ? ResumeLimit::kMediaSpan
             : ResumeLimit::kAlignment;
}

GroupVerdict verdict_on(const KvLayout& layout, std::span<const GroupAvailability> availability,
                        const ResumeQuery& query, std::size_t g, TokenCount boundary) {
  const std::size_t owner = layout.groups[g].kind == KvKind::kShared ? layout.groups[g].owner : g;
  const TokenCount alone = descend(layout, query, boundary, [&](TokenCount at) {
    return group_at_most(layout.groups[owner], availability[owner], at);
  });
  return {.alone = alone,
          .limit = alone == boundary ? request_limit(layout, query, boundary)
                                     : limit_of(layout.groups[owner].kind)};
}

}  // namespace

std::string_view to_string(ResumeLimit limit) {
  switch (limit) {
    case ResumeLimit::kPromptEnd:
      return "prompt_end";
    case ResumeLimit::kMatched:
      return "matched";
    case ResumeLimit::kMediaSpan:
      return "media_span";
    case ResumeLimit::kAlignment:
      return "alignment";
    case ResumeLimit::kCovered:
      return "covered";
    case ResumeLimit::kWindow:
      return "window";
    case ResumeLimit::kState:
      return "state";
  }
  return "unknown";
}

TokenCount legal_boundary(const KvLayout& layout, std::span<const MediaSpan> spans, TokenCount at) {
  while (true) {
    at = aligned(layout, at);
    const MediaSpan* cut = span_cut_at(spans, at);
    if (cut == nullptr) return at;
    at = cut->offset;
  }
}

TokenCount resume_length(const KvLayout& layout, std::span<const GroupAvailability> availability,
                         const ResumeQuery& query) {
  AFI_CHECK(availability.size() == layout.groups.size());
  return descend(layout, query, furthest(query), [&](TokenCount at) {
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      at = group_at_most(layout.groups[g], availability[g], at);
    }
    return at;
  });
}

ResumePoint resume_point(const KvLayout& layout, std::span<const GroupAvailability> availability,
                         const ResumeQuery& query) {
  ResumePoint point;
  point.length = resume_length(layout, availability, query);
  const TokenCount boundary = legal_boundary(layout, query.spans, furthest(query));
  point.limit = request_limit(layout, query, boundary);
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    point.groups.push_back(verdict_on(layout, availability, query, g, boundary));
  }
  if (point.length == boundary) return point;
  const auto binding = std::ranges::min_element(point.groups, {}, &GroupVerdict::alone);
  point.limit = binding->limit;
  point.group = static_cast<std::uint32_t>(binding - point.groups.begin());
  const TokenCount by_rows = descend(layout, query, boundary, [&](TokenCount at) {
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      if (layout.groups[g].kind == KvKind::kFull) at = std::min(at, availability[g].covered);
    }
    return at;
  });
  if (by_rows > point.length) point.with_snapshot = by_rows;
  return point;
}

std::vector<TokenCount> snapshot_positions(const KvLayout& layout, const Sequence& prompt,
                                           TokenCount branch_point, TokenCount resume) {
  std::vector<TokenCount> positions;
  if (!keeps_snapshots(layout) || prompt.tokens.size() < 2) return positions;
  const TokenCount last(static_cast<std::uint32_t>(prompt.tokens.size() - 1));
  positions.push_back(branch_point);
  for (const TokenCount at : prompt.branches) {
    if (at >= resume + kWorthASnapshot) positions.push_back(at);
  }
  for (std::size_t i = 0; i < prompt.spans.size(); ++i) {
    const TokenCount end = prompt.spans[i].end();
    const bool last_of_group = i + 1 == prompt.spans.size() || prompt.spans[i + 1].offset != end;
    if (last_of_group) positions.push_back(end);
  }
  positions.push_back(last);
  for (TokenCount& at : positions) at = legal_boundary(layout, prompt.spans, std::min(at, last));
  std::ranges::sort(positions);
  const auto repeated = std::ranges::unique(positions);
  positions.erase(repeated.begin(), repeated.end());
  std::erase_if(positions, [&](TokenCount at) { return at <= resume; });
  return positions;
}

std::span<const MediaSpan> media_to_encode(std::span<const MediaSpan> spans, TokenCount resume) {
  const auto first = std::ranges::upper_bound(spans, resume, {}, &MediaSpan::end);
  return spans.subspan(static_cast<std::size_t>(first - spans.begin()));
}

}  // namespace afterimage
