// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "afterimage/check.h"
#include "afterimage/engine.h"
#include "foundation/platform/random.h"

/// The simplest prefix cache: one conversation's captures, and states made of them.
namespace afterimage::testing {

/// `count` rows from `first` on. The tensor of rows must contain them.
inline TensorView rows_of(const TensorView& rows, std::uint64_t first, std::uint64_t count) {
  const std::uint64_t size = rows.shape()[1];
  return TensorView::over(rows.dtype(), {count, size},
                          rows.bytes().subspan(first * size, count * size))
      .value();
}

/// The same rows in slices of at most `longest` each.
inline TensorViews recut(const TensorViews& slices, std::uint64_t longest, Rng& rng) {
  TensorViews result;
  for (const TensorView& slice : slices) {
    for (std::uint64_t first = 0; first < slice.shape()[0];) {
      const std::uint64_t left = slice.shape()[0] - first;
      const std::uint64_t count = 1 + rng.below(std::min(longest, left));
      result.push_back(rows_of(slice, first, count));
      first += count;
    }
  }
  return result;
}

class KvShelf {
 public:
  /// Rows of [capture.rows_from, capture.rows_to) replace all stored rows from there on.
  void add(KvCapture capture) {
    while (!pieces_.empty() && pieces_.back().from >= capture.rows_from) pieces_.pop_back();
    if (!pieces_.empty()) pieces_.back().to = std::min(pieces_.back().to, capture.rows_from);
    AFI_CHECK(pieces_.empty() ? capture.rows_from == TokenCount(0)
                              : pieces_.back().to == capture.rows_from);
    origin_ = capture.origin;
    pieces_.push_back({capture.rows_from, capture.rows_to, std::move(capture.rows)});
    for (KvSnapshot& snapshot : capture.snapshots) snapshots_.push_back(std::move(snapshot));
  }

  /// The latest capture at `at`, which must have been requested as a snapshot. Views into this
  /// object.
  [[nodiscard]] KvState state(TokenCount at) const {
    const auto snapshot = std::find_if(snapshots_.rbegin(), snapshots_.rend(),
                                       [at](const KvSnapshot& s) { return s.at == at; });
    AFI_CHECK(snapshot != snapshots_.rend());
    KvState state{.origin = origin_, .covered = at, .groups = {}};
    for (std::size_t group = 0; group < snapshot->groups.size(); ++group) {
      TensorViews& slices = state.groups.emplace_back();
      const Tensor& own = snapshot->groups[group];
      if (!own.bytes.empty()) slices.push_back(own.view().value());
      for (const Piece& piece : pieces_) {
        if (piece.from >= at || piece.rows[group].bytes.empty()) continue;
        const std::uint64_t count = (std::min(piece.to, at) - piece.from).value();
        slices.push_back(rows_of(piece.rows[group].view().value(), 0, count));
      }
    }
    return state;
  }

 private:
  struct Piece {
    TokenCount from, to;
    std::vector<Tensor> rows;
  };

  KvOrigin origin_{};
  std::vector<Piece> pieces_;  // contiguous, from 0
  std::vector<KvSnapshot> snapshots_;
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
