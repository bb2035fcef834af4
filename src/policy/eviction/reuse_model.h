// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <span>
#include <vector>

namespace afterimage {

/// When will something of this class be used again? Learned while it runs, from nothing.
///
/// For each class and age the model counts reuses and the seconds that members of the class spent
/// at that age: their quotient is the hazard of reuse. Classes refine each other (all → of this
/// kind → … → of this kind, turn, output length …); where a class has seen little, it is believed
/// to be like the one it refines, and where all is unknown, reuse is the less likely the longer ago
/// the last use, as an LRU assumes.
///
/// Unit     Seconds. Ages fall into bins of a quarter octave from two seconds on.
/// Source   Gittins, Bandit processes and dynamic allocation indices, 1979; hazards by age:
/// Beckmann
///          et al., LHD: improving cache hit rate by maximizing hit density, NSDI 2018.
class ReuseModel {
 public:
  using Class = std::uint32_t;
  static constexpr std::size_t kBins = 53;

  /// From how many seconds of age on a bin reaches; that of kBins is beyond all ages.
  [[nodiscard]] static double begin_of(std::size_t bin) { return edges()[bin]; }

  /// The class of what shares `features`, coarsest first. Each must tell apart all that the one
  /// before it tells apart.
  Class classify(std::span<const std::uint64_t> features);

  /// A member spent `seconds` in `bin`; `reused` of it (0 to 1) was used again there.
  void observe(Class finest, std::size_t bin, double seconds, double reused);
  /// A member lived through all of `bin` and was not used.
  void outlived(Class finest, std::size_t bin);
  /// outlived() comes soon: what it will need is fetched meanwhile.
  void expect(Class finest, std::size_t bin) const {
    __builtin_prefetch(&observed_[finest].seconds[bin], /*rw=*/1);
  }

  /// Expected reuses by second of being kept, if it is kept for the best of all spans from that age
  /// on: the Gittins index. As of the last estimate.
  [[nodiscard]] double index(Class finest, std::size_t bin) const { return indices_[finest][bin]; }
  /// Old observations fade. Cheap, and to be called at even intervals.
  void fade();
  /// Lets indices follow what was observed before the last fade. Not needed while nobody asks.
  void estimate();

 private:
  using PerBin = std::array<double, kBins>;
  struct Kin {
    Class coarser = 0;      // itself: it is a coarsest one
    bool observed = false;  // since the last fade
    bool stale = false;     // and before it, since the last estimate
  };
  struct Observed {
    PerBin seconds{};
    PerBin reuses{};
  };

  static const std::array<double, kBins + 1>& edges();
  Class find_or_add(std::uint64_t feature, std::size_t level, Class coarser);
  void estimate(Class which);

  boost::unordered_flat_map<std::uint64_t, Class> by_feature_;
  // By class, coarser ones first. Apart, because observing, ranking and estimating read different
  // things, and each of them often.
  std::vector<Kin> classes_;
  std::vector<Observed> observed_;
  std::vector<PerBin> hazards_;
  std::vector<PerBin> indices_;
};

}  // namespace afterimage
