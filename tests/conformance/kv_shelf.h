// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "foundation/platform/random.h"

/// The simplest prefix cache: one conversation's captures, and slices made of them.
namespace afterimage::testing {

/// Whether `layout` cannot be resumed without a snapshot.
inline bool needs_snapshots(const KvLayout& layout) {
  return std::ranges::any_of(layout.groups, [](const LayerGroup& group) {
    return group.kind == KvKind::kSliding || group.kind == KvKind::kRecurrent;
  });
}

/// The pieces of a group that an engine restores at the end of `slice`; writable for damage.
inline std::vector<KvRows>& pieces_of(KvSlice& slice, const KvLayout& layout, std::size_t group) {
  return layout.groups[group].kind == KvKind::kFull ? slice.rows[group]
                                                    : slice.snapshots.back().groups[group];
}

/// The same rows in pieces of at most `longest` each. A state stays whole.
inline std::vector<KvRows> recut(std::span<const KvRows> pieces, std::uint64_t longest, Rng& rng) {
  std::vector<KvRows> result;
  for (const KvRows& piece : pieces) {
    const TokenCount end = piece.first + piece.count;
    for (TokenCount at = piece.first; at < end;) {
      const std::uint64_t count =
          1 + rng.below(std::min<std::uint64_t>(longest, (end - at).value()));
      const TokenCount next = at + TokenCount(static_cast<std::uint32_t>(count));
      result.push_back(rows_between({&piece, 1}, at, next).front());
      at = next;
    }
  }
  return result;
}

inline void recut(KvSlice& slice, std::uint64_t longest, Rng& rng) {
  for (auto& pieces : slice.rows) pieces = recut(pieces, longest, rng);
  for (KvSnapshot& snapshot : slice.snapshots) {
    for (auto& pieces : snapshot.groups) pieces = recut(pieces, longest, rng);
  }
}

class KvShelf {
 public:
  /// Rows of [captured.begin, captured.end) replace all stored rows from there on.
  void add(KvSlice captured) {
    while (!slices_.empty() && slices_.back().begin >= captured.begin) slices_.pop_back();
    if (!slices_.empty()) slices_.back().end = std::min(slices_.back().end, captured.begin);
    AFI_CHECK(slices_.empty() ? captured.begin == TokenCount(0)
                              : slices_.back().end == captured.begin);
    owners_.push_back(captured.owner);
    snapshots_.insert(snapshots_.end(), captured.snapshots.begin(), captured.snapshots.end());
    slices_.push_back(std::move(captured));
  }

  [[nodiscard]] TokenCount last_snapshot() const { return snapshots_.back().at; }
  /// What resuming at `at`, which must have been requested as a snapshot, takes: the latest
  /// captures. Views into what this object keeps alive.
  [[nodiscard]] KvSlice slice(TokenCount at) const {
    const auto snapshot = std::find_if(snapshots_.rbegin(), snapshots_.rend(),
                                       [at](const KvSnapshot& s) { return s.at == at; });
    AFI_CHECK(snapshot != snapshots_.rend());
    KvSlice slice{.origin = slices_.back().origin,
                  .end = at,
                  .rows = std::vector<std::vector<KvRows>>(snapshot->groups.size()),
                  .snapshots = {*snapshot}};
    for (const KvSlice& part : slices_) {
      for (std::size_t group = 0; group < part.rows.size(); ++group) {
        const auto pieces = rows_between(part.rows[group], part.begin, std::min(part.end, at));
        slice.rows[group].insert(slice.rows[group].end(), pieces.begin(), pieces.end());
      }
    }
    return slice;
  }

 private:
  std::vector<KvSlice> slices_;  // contiguous, from 0
  std::vector<KvSnapshot> snapshots_;
  std::vector<std::shared_ptr<const void>> owners_;  // of snapshots whose slices were replaced, too
};

/// Where a run of `prompt` may be resumed and captured, including len - 1.
inline std::vector<TokenCount> legal_points(const KvLayout& layout, const Sequence& prompt) {
  std::vector<TokenCount> points;
  const auto step = layout.alignment.value();
  for (std::uint32_t at = step; at < prompt.tokens.size(); at += step) {
    const bool inside = std::ranges::any_of(prompt.spans, [at](const MediaSpan& span) {
      return !span.splittable && span.offset.value() < at && at < span.end().value();
    });
    if (!inside) points.emplace_back(at);
  }
  return points;
}

/// Requests everything a cache could store: all rows, snapshots at `points` and at the end.
inline KvWanted all_of(std::vector<TokenCount> points) {
  points.push_back(kEndOfRun);
  return {.rows_from = TokenCount(0), .rows_to = kEndOfRun, .snapshots = std::move(points)};
}

}  // namespace afterimage::testing
