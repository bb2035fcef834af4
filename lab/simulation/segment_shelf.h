// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <set>
#include <vector>

#include "afterimage/units.h"

namespace afterimage {

/// A disk without bytes: entries are appended to segments, which are evicted whole, least recently
/// read first, as in SegmentLog.
///
/// Threads  One.
/// Cost     About 30 bytes per entry.
class SegmentShelf {
 public:
  /// Requires segment ≤ capacity, both above 0.
  SegmentShelf(Bytes capacity, Bytes segment) : capacity_(capacity), segment_(segment) {}

  [[nodiscard]] bool holds(std::uint64_t key) const { return index_.contains(key); }
  [[nodiscard]] std::uint64_t entries() const { return index_.size(); }
  [[nodiscard]] Bytes used() const { return used_; }
  [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

  /// Requires holds(key).
  void read(std::uint64_t key);
  /// False: already present, or larger than a segment.
  bool append(std::uint64_t key, Bytes bytes);

 private:
  struct Segment {
    std::vector<std::uint64_t> keys;
    Bytes size;
    std::uint64_t last_use = 0;
  };
  void begin_segment();
  void evict_one();

  Bytes capacity_;
  Bytes segment_;
  Bytes used_;  // of all segments, the open one counted at its full size
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> free_;
  std::set<std::pair<std::uint64_t, std::uint32_t>> order_;  // closed segments, by last use
  std::uint32_t open_ = 0;
  bool has_open_ = false;
  std::uint64_t uses_ = 0;
  std::uint64_t evictions_ = 0;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> index_;
};

}  // namespace afterimage
