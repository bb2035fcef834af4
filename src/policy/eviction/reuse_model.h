// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "policy/eviction/reuse_regression.h"

namespace afterimage {

/// Predicts when members of a class will be used again. Learned online, without prior training.
///
/// For each table and age the model counts reuses and the seconds that its members spent at that
/// age; their quotient is the hazard of reuse. Tables refine each other: from common ones (all → of
/// this kind …) two branches lead to finer ones (→ of this turn, output length …; → of this growth
/// of the prompt, pace …). A table with few observations is assumed to be like the one it refines.
/// Without observations, reuse becomes less likely with age, as an LRU assumes.
///
/// A class is the finest table of each branch, and traits. Its hazard is the geometric mean of the
/// two tables' and that of a ReuseRegression, which knows more traits than tables have room for.
///
/// Evidence about one member (a hint) multiplies the odds that it is reused at all, within
/// begin_of(kResolved), and moves no time of reuse.
///
/// Memory   1.3 KB a table, at most kMostTables. After that, classes share the tables there are.
/// Unit     Seconds. Ages fall into bins of a quarter octave from two seconds on.
/// Source   Gittins, Bandit processes and dynamic allocation indices, 1979; hazards by age:
///          Beckmann et al., LHD: improving cache hit rate by maximizing hit density, NSDI 2018.
class ReuseModel {
 public:
  using Class = std::uint32_t;
  static constexpr std::size_t kBins = 53;
  /// From this age on, about an hour, a member that was not reused counts as never reused.
  static constexpr std::size_t kResolved = 41;
  static constexpr std::size_t kBranches = 2;
  static constexpr std::size_t kMostTables = 32768;

  /// The age in seconds at which a bin begins; begin_of(kBins) is beyond all ages.
  [[nodiscard]] static double begin_of(std::size_t bin) { return edges()[bin]; }

  using Traits = ReuseRegression::Traits;
  /// Coarsest first; each feature must refine the one before it, the first of a branch the last
  /// common one. There must be a common one.
  struct Features {
    std::span<const std::uint64_t> common;
    std::array<std::span<const std::uint64_t>, kBranches> branches{};
  };
  /// The class with these features and traits. It exists until it was released as often as it was
  /// asked for. `evidence`: the logarithm of a likelihood ratio, in quarters of a nat.
  Class classify(const Features& features, const Traits& traits = {}, int evidence = 0);
  /// The class may be another one after the next estimate().
  void release(Class released);
  [[nodiscard]] std::size_t released() const { return released_.size(); }
  [[nodiscard]] std::size_t classes() const { return by_profile_.size(); }
  [[nodiscard]] std::size_t tables() const { return tables_.size(); }

  /// A member spent `seconds` in `bin`; `reused` of it (0 to 1) was used again there.
  void observe(Class member, std::size_t bin, double seconds, double reused);
  /// A member lived through all of `bin` and was not used.
  void outlived(Class member, std::size_t bin);
  /// Prefetches the memory that outlived() will need.
  void expect(Class member, std::size_t bin) const {
    for (const Table finest : profiles_[member].finest) {
      __builtin_prefetch(&observed_[finest].seconds[bin], /*rw=*/1);
    }
  }

  /// The Gittins index as of the last estimate(): the expected reuses per second of residence, for
  /// the best of all time spans from that age on.
  [[nodiscard]] double index(Class member, std::size_t bin) {
    Profile& profile = profiles_[member];
    if (std::exchange(profile.estimated, estimated_) != estimated_) estimate(profile);
    return profile.indices[bin];
  }
  /// The probability, as of the last estimate(), that a new member is reused before
  /// begin_of(kResolved); without the evidence.
  [[nodiscard]] double probability(Class member) {
    static_cast<void>(index(member, 0));
    return profiles_[member].probability;
  }
  /// Discounts old observations. Cheap; call it at even intervals.
  void fade();
  /// Lets index() use what was observed before the last fade, and released classes be used again.
  void estimate();

 private:
  using Table = std::uint32_t;
  using PerBin = std::array<double, kBins>;
  struct TableState {
    Table coarser = 0;      // itself if it is a coarsest table
    bool common = false;    // to both branches
    bool observed = false;  // since the last fade
    bool stale = false;     // observed before the last fade, and not estimated since
  };
  struct Observed {
    PerBin seconds{};
    PerBin reuses{};
  };
  struct Hazards {
    std::array<float, kBins> values{};
    std::array<float, kBins> logs{};
  };
  using PerBranch = std::array<Table, kBranches>;
  struct Key {
    PerBranch finest{};
    Traits traits;
    int evidence = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Profile {
    PerBranch finest{};
    std::uint32_t users = 0;
    std::uint64_t estimated = 0;  // the number of the estimate() that `indices` are of; 0: of none
    Traits traits;
    int evidence = 0;
    float probability = 0;
    std::array<float, kBins> indices{};
  };

  static const std::array<double, kBins + 1>& edges();
  Table find_or_add(std::uint64_t feature, std::size_t level, Table coarser, bool common);
  template <typename Function>
  void for_each_table(const Profile& profile, const Function& function);
  void estimate(Table which);
  void estimate(Profile& profile) const;
  static void weigh(const Profile& profile, PerBin& hazards);

  boost::unordered_flat_map<std::uint64_t, Table> by_feature_;
  // By table, coarser ones first. Separate arrays, because observing and estimating read different
  // fields, each of them often.
  std::vector<TableState> tables_;
  std::vector<Observed> observed_;
  std::vector<Hazards> hazards_;

  ReuseRegression regression_;
  std::vector<Profile> profiles_;  // by class
  boost::unordered_flat_map<Key, Class, KeyHash> by_profile_;
  std::vector<Class> free_;
  std::vector<Class> released_;  // since the last estimate()
  std::uint64_t estimated_ = 1;
};

}  // namespace afterimage
