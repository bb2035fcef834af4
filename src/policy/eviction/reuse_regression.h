// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace afterimage {

/// A log-linear model of the hazard of reuse: its logarithm is a sum of one weight per trait, each
/// with a part for every octave of age and a part for all ages. Learned online, one observation at
/// a time. It judges combinations of traits that were never seen, which a table of classes cannot.
///
/// Unit     Seconds. Octave 0 is the ages below two seconds; octave n begins at 2^n seconds.
/// Cost     `learn` and one octave of `log_hazards`: one weight per trait, and a logarithm.
/// Source   Hazan, Agarwal, Kale: Logarithmic regret algorithms for online convex optimization,
///          Machine Learning 2007 (the online Newton step, here of each weight by itself); the
///          likelihood is that of a piecewise exponential model.
class ReuseRegression {
 public:
  static constexpr std::size_t kTraits = 12;
  static constexpr std::size_t kKinds = 5;    // have their own weights
  static constexpr std::size_t kValues = 24;  // of a trait
  static constexpr std::size_t kOctaves = 14;

  /// The first value should be the same for all members: its weights learn faster.
  struct Traits {
    std::uint8_t kind = 0;                       // below kKinds
    std::array<std::uint8_t, kTraits> values{};  // each below kValues
    bool operator==(const Traits&) const = default;
  };
  using LogHazards = std::array<double, kOctaves>;

  [[nodiscard]] static double begin_of(std::size_t octave);

  ReuseRegression();
  /// A member with these traits spent `seconds` in `octave`; `reused` of it (0 to 1) was used again
  /// at the end of them.
  void learn(const Traits& traits, std::size_t octave, double seconds, double reused);
  [[nodiscard]] LogHazards log_hazards(const Traits& traits) const;

 private:
  struct Weight {
    float value = 0;
    float curvature = 0;  // sum of squared gradients
  };
  using Weights = std::array<Weight, kOctaves + 1>;  // the last one: for all ages

  [[nodiscard]] static std::size_t place(const Traits& traits, std::size_t trait) {
    return (traits.kind * kTraits + trait) * kValues + traits.values[trait];
  }
  static void step(Weight& weight, double gradient, double haste);
  [[nodiscard]] double log_hazard(const Traits& traits, std::size_t octave) const;

  std::vector<Weights> weights_;
};

}  // namespace afterimage
