// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/segment_shelf.h"

#include <utility>

namespace afterimage {
namespace {

constexpr std::uint64_t kDiskUnit = 4096;

Bytes on_disk(Bytes bytes) {
  return Bytes((bytes.value() + 2 * kDiskUnit - 1) / kDiskUnit * kDiskUnit);
}

}  // namespace

void SegmentShelf::read(std::uint64_t key) {
  const std::uint32_t at = index_.at(key);
  Segment& segment = segments_[at];
  const std::uint64_t now = ++uses_;
  if (!has_open_ || at != open_) {
    order_.erase({segment.last_use, at});
    order_.emplace(now, at);
  }
  segment.last_use = now;
}

bool SegmentShelf::append(std::uint64_t key, Bytes bytes) {
  const Bytes size = on_disk(bytes);
  if (size > segment_ || holds(key)) return false;
  if (!has_open_ || segments_[open_].size + size > segment_) begin_segment();
  Segment& segment = segments_[open_];
  segment.keys.push_back(key);
  segment.size += size;
  index_.emplace(key, open_);
  return true;
}

void SegmentShelf::begin_segment() {
  if (has_open_) {
    Segment& full = segments_[open_];
    used_ -= segment_ - full.size;
    order_.emplace(full.last_use, open_);
    has_open_ = false;
  }
  while (used_ + segment_ > capacity_) evict_one();
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(segments_.size()));
    segments_.emplace_back();
  }
  open_ = free_.back();
  free_.pop_back();
  segments_[open_] = {.keys = {}, .size = {}, .last_use = ++uses_};
  used_ += segment_;
  has_open_ = true;
}

void SegmentShelf::evict_one() {
  const auto [use, at] = *order_.begin();
  order_.erase(order_.begin());
  Segment gone = std::exchange(segments_[at], Segment());
  for (const std::uint64_t key : gone.keys) index_.erase(key);
  evictions_ += gone.keys.size();
  used_ -= gone.size;
  free_.push_back(at);
}

}  // namespace afterimage
