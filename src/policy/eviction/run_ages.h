// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "afterimage/result.h"
#include "foundation/platform/huge_pages.h"
#include "policy/eviction/reuse_model.h"

namespace afterimage {

/// Tracks the age bin of every run. Runs are stored in one array by last use, in which each age bin
/// of a ReuseModel is a range. Ageing moves the borders of these ranges and no run: runs that cross
/// a border are read in order, and no others are touched.
///
/// Threads  Not thread-safe.
/// Cost     O(1) amortised for each border that a run crosses; bin() is O(log bins).
class RunAges {
 public:
  using Run = std::uint32_t;
  using Place = std::uint32_t;
  static constexpr std::size_t kBins = ReuseModel::kBins;
  static constexpr Run kNone = std::numeric_limits<Run>::max();

  /// 16 bytes: four to a cache line.
  struct Standing {
    double since = 0;
    Run run = kNone;
    std::uint32_t word = 0;  // class, and in the lowest bit listed()

    [[nodiscard]] ReuseModel::Class reuse_class() const { return word >> 1U; }
    /// The owner also has the run in a list by age.
    [[nodiscard]] bool listed() const { return (word & 1U) != 0; }
    void set_class(ReuseModel::Class it) { word = it << 1U | (word & 1U); }
    void set_listed(bool is) { word = (word & ~1U) | (is ? 1U : 0U); }
  };

  /// Appends a run last used at `since`, which must not decrease.
  Place append(double since, Run run, ReuseModel::Class reuse_class) {
    AFI_CHECK(line_.size() < kNone && (line_.empty() || line_.back().since <= since));
    if (borders_[0] == line_.size()) set_due(0, since);
    line_.push_back({.since = since, .run = run, .word = reuse_class << 1U});
    ++standing_;
    return static_cast<Place>(line_.size() - 1);
  }
  void remove(Place place) {
    line_[place].run = kNone;
    --standing_;
  }
  [[nodiscard]] Standing& at(Place place) { return line_[place]; }
  [[nodiscard]] std::size_t bin(Place place) const {
    const auto passed = std::ranges::partition_point(
        borders_, [place](std::size_t border) { return border > place; });
    return static_cast<std::size_t>(passed - borders_.begin());
  }

  /// Calls `passes(standing, bin)` for each run that is now too old for its bin: bin by bin, least
  /// recently used first. Calls `soon(standing, bin)` for these runs beforehand, for prefetching.
  template <typename Soon, typename Passes>
  void age(double now, const Soon& soon, const Passes& passes) {
    if (now < next_) return;
    for (std::size_t bin = 0; bin < borders_.size(); ++bin) {
      if (now < due_[bin]) continue;
      for (std::size_t i = borders_[bin]; i < line_.size() && too_old(i, bin, now); ++i) {
        if (line_[i].run != kNone) soon(line_[i], bin);
      }
    }
    next_ = kNever;
    bool arrived = false;
    for (std::size_t bin = 0; bin < borders_.size(); ++bin) {
      if (now >= due_[bin] || arrived) arrived = age_bin(bin, now, passes);
      next_ = std::min(next_, due_[bin]);
    }
  }

  /// Compacts the array if many runs were removed; calls `moved(run, place)` for the others.
  template <typename Moved>
  void tidy(const Moved& moved) {
    if (line_.size() <= 2 * standing_ + kFew) return;
    std::size_t kept = 0;
    std::array<std::size_t, kBins - 1> borders{};
    for (std::size_t i = 0; i < line_.size(); ++i) {
      if (line_[i].run == kNone) continue;
      moved(line_[i].run, static_cast<Place>(kept));
      line_[kept++] = line_[i];
    }
    // A border is the index of the first run that has not crossed it. `since` finds it, because of
    // equally old runs either all have crossed or none.
    for (std::size_t bin = 0; bin < borders.size(); ++bin) {
      if (borders_[bin] == 0) continue;
      const double last = passed_[bin];
      const auto end = line_.begin() + static_cast<std::ptrdiff_t>(kept);
      borders[bin] = static_cast<std::size_t>(
          std::partition_point(line_.begin(), end,
                               [last](const Standing& s) { return s.since <= last; }) -
          line_.begin());
    }
    borders_ = borders;
    line_.resize(kept);
    for (std::size_t bin = 0; bin < borders_.size(); ++bin) find_due(bin);
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr std::size_t kFew = 4096;

  [[nodiscard]] bool too_old(std::size_t place, std::size_t bin, double now) const {
    return line_[place].since + ReuseModel::begin_of(bin + 1) <= now;
  }
  [[nodiscard]] std::size_t stretch_end(std::size_t bin) const {
    return bin == 0 ? line_.size() : borders_[bin - 1];
  }
  void set_due(std::size_t bin, double since) {
    due_[bin] = since + ReuseModel::begin_of(bin + 1);
    next_ = std::min(next_, due_[bin]);
  }
  void find_due(std::size_t bin) {
    due_[bin] = kNever;
    if (borders_[bin] < stretch_end(bin)) set_due(bin, line_[borders_[bin]].since);
  }
  template <typename Passes>
  bool age_bin(std::size_t bin, double now, const Passes& passes) {
    const std::size_t from = borders_[bin];
    const std::size_t end = stretch_end(bin);
    while (borders_[bin] < end && too_old(borders_[bin], bin, now)) {
      Standing& standing = line_[borders_[bin]];
      passed_[bin] = standing.since;
      ++borders_[bin];
      if (standing.run != kNone) passes(standing, bin);
    }
    find_due(bin);
    return borders_[bin] > from;
  }

  std::vector<Standing, HugePageAllocator<Standing>> line_;
  std::size_t standing_ = 0;
  std::array<std::size_t, kBins - 1> borders_{};  // runs before a border have left the bin
  std::array<double, kBins - 1> passed_{};        // `since` of the last run that left
  std::array<double, kBins - 1> due_ = never();   // when the next run leaves
  double next_ = kNever;                          // the earliest of these

  static constexpr std::array<double, kBins - 1> never() {
    std::array<double, kBins - 1> all{};
    all.fill(kNever);
    return all;
  }
};

}  // namespace afterimage
