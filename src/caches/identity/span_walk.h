// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace afterimage {

/// Finds the spans that overlap each block of a sequence, for blocks in ascending order.
///
/// Shape    Spans have `offset` and `length`, are not empty, in order and disjoint.
/// Cost     O(spans + blocks) for a whole walk.
template <typename Span>
class SpanWalk {
 public:
  explicit SpanWalk(std::span<const Span> spans) : spans_(spans) {}

  /// The spans that share a token with [begin, end). `begin` never decreases from call to call.
  std::span<const Span> overlapping(std::uint64_t begin, std::uint64_t end) {
    while (first_ < spans_.size() && end_of(spans_[first_]) <= begin) ++first_;
    std::size_t last = first_;
    while (last < spans_.size() && spans_[last].offset.value() < end) ++last;
    return spans_.subspan(first_, last - first_);
  }

 private:
  static std::uint64_t end_of(const Span& span) {
    return std::uint64_t{span.offset.value()} + span.length.value();
  }

  std::span<const Span> spans_;
  std::size_t first_ = 0;
};

}  // namespace afterimage
