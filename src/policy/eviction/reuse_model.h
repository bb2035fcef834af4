// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <span>
#include <vector>

namespace afterimage {

/// Predicts when members of a class will be used again. Learned online, without prior training.
///
/// For each class and age the model counts reuses and the seconds that members of the class spent
/// at that age; their quotient is the hazard of reuse. Classes refine each other (all → of this
/// kind → … → of this kind, turn, output length …). A class with few observations is assumed to be
/// like the one it refines. Without observations, reuse becomes less likely with age, as an LRU
/// assumes.
///
/// Unit     Seconds. Ages fall into bins of a quarter octave from two seconds on.
/// Source   Gittins, Bandit processes and dynamic allocation indices, 1979; hazards by age:
///          Beckmann et al., LHD: improving cache hit rate by maximizing hit density, NSDI 2018.
class ReuseModel {
 public:
  using Class = std::uint32_t;
  static constexpr std::size_t kBins = 53;

  /// The age in seconds at which a bin begins; begin_of(kBins) is beyond all ages.
  [[nodiscard]] static double begin_of(std::size_t bin) { return edges()[bin]; }

  /// The class with these features, coarsest first. Each feature must refine the one before it.
  Class classify(std::span<const std::uint64_t> features);

  /// A member spent `seconds` in `bin`; `reused` of it (0 to 1) was used again there.
  void observe(Class finest, std::size_t bin, double seconds, double reused);
  /// A member lived through all of `bin` and was not used.
  void outlived(Class finest, std::size_t bin);
  /// Prefetches the memory that outlived() will need.
  void expect(Class finest, std::size_t bin) const {
    __builtin_prefetch(&observed_[finest].seconds[bin], /*rw=*/1);
  }

  /// The Gittins index as of the last estimate(): the expected reuses per second of residence, for
  /// the best of all time spans from that age on.
  [[nodiscard]] double index(Class finest, std::size_t bin) const { return indices_[finest][bin]; }
  /// Discounts old observations. Cheap; call it at even intervals.
  void fade();
  /// Recomputes the indices from the observations before the last fade. Needed only before index().
  void estimate();

 private:
  using PerBin = std::array<double, kBins>;
  struct ClassState {
    Class coarser = 0;      // itself if it is a coarsest class
    bool observed = false;  // since the last fade
    bool stale = false;     // observed before the last fade, and not estimated since
  };
  struct Observed {
    PerBin seconds{};
    PerBin reuses{};
  };

  static const std::array<double, kBins + 1>& edges();
  Class find_or_add(std::uint64_t feature, std::size_t level, Class coarser);
  void estimate(Class which);

  boost::unordered_flat_map<std::uint64_t, Class> by_feature_;
  // By class, coarser ones first. Separate arrays, because observing, ranking and estimating read
  // different fields, each of them often.
  std::vector<ClassState> classes_;
  std::vector<Observed> observed_;
  std::vector<PerBin> hazards_;
  std::vector<PerBin> indices_;
};

}  // namespace afterimage
