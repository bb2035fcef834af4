// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "afterimage/check.h"
#include "foundation/platform/huge_pages.h"
#include "policy/eviction/reuse_model.h"

namespace afterimage {

/// How old are runs? In a line by last use, in which each age bin of a ReuseModel is a stretch.
/// Growing older moves the stretches' borders and no run: what passes a border is read in order,
/// and nothing else is touched.
///
/// Threads  One.
/// Cost     O(1) amortised for each border that a run passes; bin() is O(log bins).
class RunAges {
 public:
  using Run = std::uint32_t;
  using Place = std::uint32_t;
  static constexpr std::size_t kBins = ReuseModel::kBins;
  static constexpr Run kNobody = std::numeric_limits<Run>::max();

  /// 16 bytes: four to a cache line.
  struct Standing {
    double since = 0;
    Run run = kNobody;
    std::uint32_t word = 0;  // class, and in the lowest bit whether it is listed

    [[nodiscard]] ReuseModel::Class reuse_class() const { return word >> 1U; }
    /// Its owner keeps it in a list by age, too.
    [[nodiscard]] bool listed() const { return (word & 1U) != 0; }
    void set_class(ReuseModel::Class it) { word = it << 1U | (word & 1U); }
    void set_listed(bool is) { word = (word & ~1U) | (is ? 1U : 0U); }
  };

  /// Used last at `since`, which never falls.
  Place append(double since, Run run, ReuseModel::Class reuse_class) {
    AFI_CHECK(line_.size() < kNobody && (line_.empty() || line_.back().since <= since));
    if (borders_[0] == line_.size()) set_due(0, since);
    line_.push_back({.since = since, .run = run, .word = reuse_class << 1U});
    ++standing_;
    return static_cast<Place>(line_.size() - 1);
  }
  void remove(Place place) {
    line_[place].run = kNobody;
    --standing_;
  }
  [[nodiscard]] Standing& at(Place place) { return line_[place]; }
  [[nodiscard]] std::size_t bin(Place place) const {
    const auto passed = std::ranges::partition_point(
        borders_, [place](std::size_t border) { return border > place; });
    return static_cast<std::size_t>(passed - borders_.begin());
  }

  /// Calls `passes(standing, bin)` for each that is now too old for the bin: bin by bin, in each
  /// those used longest ago first. Those that will pass are announced by `soon(standing, bin)`.
  template <typename Soon, typename Passes>
  void age(double now, const Soon& soon, const Passes& passes) {
    if (now < next_) return;
    for (std::size_t bin = 0; bin < borders_.size(); ++bin) {
      if (now < due_[bin]) continue;
      for (std::size_t i = borders_[bin]; i < line_.size() && too_old(i, bin, now); ++i) {
        if (line_[i].run != kNobody) soon(line_[i], bin);
      }
    }
    next_ = kNever;
    bool arrived = false;
    for (std::size_t bin = 0; bin < borders_.size(); ++bin) {
      if (now >= due_[bin] || arrived) arrived = age_bin(bin, now, passes);
      next_ = std::min(next_, due_[bin]);
    }
  }

  /// Gives back the places of those removed, if they are many: `moved(run, place)` for the others.
  template <typename Moved>
  void tidy(const Moved& moved) {
    if (line_.size() <= 2 * standing_ + kFew) return;
    std::size_t kept = 0;
    std::array<std::size_t, kBins - 1> borders{};
    for (std::size_t i = 0; i < line_.size(); ++i) {
      if (line_[i].run == kNobody) continue;
      moved(line_[i].run, static_cast<Place>(kept));
      line_[kept++] = line_[i];
    }
    // A border stands before the first that is kept behind it; since tells which that is, and where
    // several are equally old, none has passed or all have.
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
      if (standing.run != kNobody) passes(standing, bin);
    }
    find_due(bin);
    return borders_[bin] > from;
  }

  std::vector<Standing, HugePageAllocator<Standing>> line_;
  std::size_t standing_ = 0;
  std::array<std::size_t, kBins - 1> borders_{};  // those before have left the bin
  std::array<double, kBins - 1> passed_{};        // `since` of the last of these
  std::array<double, kBins - 1> due_ = never();   // when the next does
  double next_ = kNever;                          // the first of these

  static constexpr std::array<double, kBins - 1> never() {
    std::array<double, kBins - 1> all{};
    all.fill(kNever);
    return all;
  }
};

}  // namespace afterimage
