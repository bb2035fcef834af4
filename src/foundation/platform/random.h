// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "afterimage/result.h"

namespace afterimage {

/// Reproducible pseudo-random numbers: the same seed gives the same numbers on every machine
/// (SplitMix64). For workloads, weights and tests; never for secrets.
class Rng {
 public:
  using result_type = std::uint64_t;

  explicit Rng(std::uint64_t seed) : state_(seed) {}

  result_type operator()() { return next(); }
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  std::uint64_t next();
  /// Uniform in [0, bound). Requires bound > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [0, 1).
  double uniform();
  /// Normally distributed with mean 0 and standard deviation 1.
  double normal();
  /// True with probability p.
  bool chance(double p) { return uniform() < p; }
  /// An independent stream; the same label always gives the same stream.
  [[nodiscard]] Rng split(std::uint64_t label) const;

 private:
  std::uint64_t state_;
};

}  // namespace afterimage
