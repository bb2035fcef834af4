// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/prefix/prefix_lookup.h"

#include <algorithm>

#include "caches/prefix/captured_kv.h"
#include "caches/prefix/resume_point.h"

namespace afterimage {

void PrefixLookup::offer(const PrefixEntries& entries, const KvLayout& layout, std::uint32_t s) {
  const PrefixEntries::Snapshot& snapshot = entries.snapshot(s);
  snapshots_.push_back(s);
  states_.emplace_back(snapshot.at);
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    if (layout.groups[g].kind != KvKind::kSliding) continue;
    const std::uint32_t window = layout.groups[g].window.value();
    const std::uint32_t from = snapshot.serves_from;
    rows_[g].push_back(
        {.first = TokenCount(from > window ? from - window : 0), .end = TokenCount(snapshot.at)});
  }
}

void PrefixLookup::collect(const PrefixEntries& entries, const KvLayout& layout,
                           PrefixTree::Walk walk) {
  groups_.assign(layout.groups.size(), {.covered = TokenCount(walk.matched)});
  if (!keeps_snapshots(layout)) return;
  rows_.resize(std::max(rows_.size(), layout.groups.size()));
  for (auto& ranges : rows_) ranges.clear();
  states_.clear();
  snapshots_.clear();
  path_.clear();
  for (NodeIndex n = walk.node; n != kNoNode; n = entries.tree().parent(n)) path_.push_back(n);
  for (std::size_t i = path_.size(); i-- > 0;) {
    for (const std::uint32_t s : entries.segment(path_[i]).snapshots) offer(entries, layout, s);
  }
  if (const auto below = entries.window_below(walk.node);
      below.has_value() && !keeps_states(layout)) {
    offer(entries, layout, *below);
  }
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    groups_[g].rows = rows_[g];
    groups_[g].states = states_;
  }
}

// Only one snapshot is restored at a time, so a length that would take two (for different groups)
// is skipped: the hit is shorter, never wrong.
PrefixLookup::Found PrefixLookup::best(const PrefixEntries& entries, const KvLayout& layout,
                                       ResumeQuery query) const {
  if (!keeps_snapshots(layout))
    return {.resume = resume_length(layout, groups_, query), .snapshot = {}};
  const bool exact = keeps_states(layout);
  while (true) {
    const TokenCount resume = resume_length(layout, groups_, query);
    if (resume == TokenCount(0)) return {};
    for (std::size_t i = snapshots_.size(); i-- > 0;) {
      const PrefixEntries::Snapshot& s = entries.snapshot(snapshots_[i]);
      const bool serves = exact ? s.at == resume.value()
                                : s.serves_from <= resume.value() && resume.value() <= s.at;
      if (serves) return {.resume = resume, .snapshot = snapshots_[i]};
    }
    query.matched = resume - TokenCount(1);
  }
}

}  // namespace afterimage
