// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <string>

#include "caches/prefix/captured_kv.h"
#include "caches/prefix/prefix_cache_state.h"
#include "caches/prefix/prefix_draft.h"
#include "caches/prefix/prefix_explanation.h"
#include "caches/prefix/resume_point.h"

namespace afterimage {
namespace {

/// The span that position `at` is in, if any.
const MediaSpan* span_at(std::span<const MediaSpan> spans, TokenCount at) {
  const auto it = std::ranges::find_if(
      spans, [&](const MediaSpan& s) { return s.offset <= at && at < s.end(); });
  return it == spans.end() ? nullptr : &*it;
}

std::string tokens(TokenCount count) { return std::to_string(count.value()); }

std::string reason(ResumeLimit limit, const std::string& group) {
  switch (limit) {
    case ResumeLimit::kPromptEnd:
      return "only the token whose logits are needed is left";
    case ResumeLimit::kMatched:
      return "the next token was not cached";
    case ResumeLimit::kMediaSpan:
      return "going further would end inside a media item that must not be split";
    case ResumeLimit::kAlignment:
      return "the engine resumes only at multiples of its alignment";
    case ResumeLimit::kCovered:
      return group + " has no more cached rows";
    case ResumeLimit::kWindow:
      return group + " has no window rows for a greater length";
    case ResumeLimit::kState:
      return group + " has no cached state at a greater length";
  }
  return "unknown";
}

std::string describe_divergence(const PrefixExplanation& e) {
  const std::string at = " at token " + tokens(e.matched);
  switch (e.divergence) {
    case Divergence::kNothing:
      return "the whole prompt is cached";
    case Divergence::kUnknownNamespace:
      return "nothing is cached for this model, adapter, template and tenant";
    case Divergence::kEndOfCache:
      return "no cached sequence continues after token " + tokens(e.matched);
    case Divergence::kToken:
      return "the cached token differs" + at +
             (e.asked ? " (requested: id " + std::to_string(static_cast<int>(*e.asked)) + ")" : "");
    case Divergence::kMedia:
      return "the cached media differs" + at +
             (e.span ? " (requested: item " + std::to_string(*e.span) + ")" : "");
  }
  return "unknown";
}

}  // namespace

std::string_view to_string(Divergence divergence) {
  switch (divergence) {
    case Divergence::kNothing:
      return "nothing";
    case Divergence::kUnknownNamespace:
      return "unknown_namespace";
    case Divergence::kEndOfCache:
      return "end_of_cache";
    case Divergence::kToken:
      return "token";
    case Divergence::kMedia:
      return "media";
  }
  return "unknown";
}

std::string to_string(const PrefixExplanation& e) {
  const auto group = [&](std::size_t g) {
    return "layer group " + std::to_string(g) + " (" + std::string(to_string(e.kinds[g])) + ")";
  };
  std::string text = "resumes at " + tokens(e.point.length) + " of " + tokens(e.length) +
                     " tokens; " + tokens(e.matched) + " match: " + describe_divergence(e) + ".\n";
  if (e.divergence != Divergence::kUnknownNamespace) {
    const std::string binding = e.kinds.empty() ? "" : group(e.point.group);
    text += "not further because " + reason(e.point.limit, binding) + ".\n";
  }
  if (e.point.with_snapshot.has_value()) {
    text += "would have resumed at " + tokens(*e.point.with_snapshot) + " with a snapshot there.\n";
  }
  for (std::size_t g = 0; g < e.point.groups.size(); ++g) {
    text += group(g) + " alone: " + tokens(e.point.groups[g].alone) + ", because " +
            reason(e.point.groups[g].limit, "it") + ".\n";
  }
  if (e.media > 0) {
    text += std::to_string(e.media_covered) + " of " + std::to_string(e.media) +
            " media items need no encoder.\n";
  }
  return text;
}

Result<PrefixExplanation> PrefixCache::explain(const NamespaceId& id,
                                               const Sequence& prompt) const {
  AFI_TRY_VOID(check_prompt(prompt));
  const MutexLock lock(locked_->mutex);
  return locked_->state.explain(id, prompt);
}

PrefixExplanation PrefixCache::State::explain(const NamespaceId& id, const Sequence& prompt) const {
  PrefixExplanation e;
  e.length = TokenCount(size_of(prompt));
  e.media = prompt.spans.size();
  const Space* space = find(id);
  if (space == nullptr) {
    e.divergence = Divergence::kUnknownNamespace;
    return e;
  }
  const PrefixTree& tree = entries.tree();
  const PrefixTree::Walk walk = tree.match(space->root, prompt, size_of(prompt));
  e.matched = TokenCount(walk.matched);
  PrefixLookup found_here;
  found_here.collect(entries, space->layout, walk);
  ResumeQuery query{.length = e.length, .matched = e.matched, .spans = prompt.spans};
  const TokenCount found = found_here.best(entries, space->layout, query).resume;
  e.point = resume_point(space->layout, found_here.availability(), query);
  e.point.length = found;  // may be less than resume_point says: one snapshot serves all groups
  for (const LayerGroup& group : space->layout.groups) e.kinds.push_back(group.kind);
  e.media_covered = e.media - media_to_encode(prompt.spans, found).size();
  if (e.matched == e.length) return e;
  e.asked = prompt.tokens[walk.matched];
  const MediaSpan* const asked = span_at(prompt.spans, e.matched);
  if (asked != nullptr) e.span = static_cast<std::size_t>(asked - prompt.spans.data());
  // What the cache has at that position: the rest of this node, or any of its children.
  const NodeIndex next =
      walk.matched < tree.end(walk.node) ? walk.node : tree.first_child(walk.node);
  if (next == kNoNode) {
    e.divergence = Divergence::kEndOfCache;
    return e;
  }
  const MediaSpan* const cached = span_at(tree.spans(next), e.matched);
  const bool same = asked == nullptr ? cached == nullptr : cached != nullptr && *asked == *cached;
  e.divergence = same ? Divergence::kToken : Divergence::kMedia;
  return e;
}

}  // namespace afterimage
