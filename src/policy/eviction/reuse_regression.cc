// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/reuse_regression.h"

#include <algorithm>
#include <cmath>

#include "afterimage/result.h"

namespace afterimage {
namespace {

constexpr double kFirstReusesByOctave = 0.1;  // hazard × age before anything was learned
constexpr double kHighestLog = 2;             // no hazard above e^2 per second
// Weight of what was assumed before, as a sum of squared gradients.
constexpr double kPriorCurvature = 10;
// Trait 0 is the same for all members: what it learns is not left to the others.
constexpr double kHasteOfFirst = 4;
// One member that waited far longer than predicted must not upset the weights.
constexpr double kLeastGradient = -2;

}  // namespace

double ReuseRegression::begin_of(std::size_t octave) {
  return octave == 0 ? 0 : std::exp2(static_cast<double>(octave));
}

ReuseRegression::ReuseRegression() : weights_(kKinds * kTraits * kValues) {}

double ReuseRegression::log_hazard(const Traits& traits, std::size_t octave) const {
  double sum = std::log(kFirstReusesByOctave / (1.5 * std::max(1.0, begin_of(octave))));
  for (std::size_t trait = 0; trait < kTraits; ++trait) {
    const Weights& weights = weights_[place(traits, trait)];
    sum += static_cast<double>(weights[octave].value) + weights[kOctaves].value;
  }
  return std::min(sum, kHighestLog);
}

ReuseRegression::LogHazards ReuseRegression::log_hazards(const Traits& traits) const {
  LogHazards logs{};
  for (std::size_t octave = 0; octave < kOctaves; ++octave) {
    logs[octave] = log_hazard(traits, octave);
  }
  return logs;
}

// The sum of squared gradients stands for the likelihood's curvature: steps shrink as 1/n, so that a
// weight becomes the mean of what it has seen. Steps that shrink as 1/√n stay noisy.
void ReuseRegression::step(Weight& weight, double gradient, double haste) {
  weight.curvature += static_cast<float>(gradient * gradient);
  weight.value += static_cast<float>(haste * gradient / (weight.curvature + kPriorCurvature));
}

void ReuseRegression::learn(const Traits& traits, std::size_t octave, double seconds,
                            double reused) {
  AFI_CHECK(traits.kind < kKinds && octave < kOctaves);
  const double expected = std::exp(log_hazard(traits, octave)) * seconds;
  const double gradient = std::max(reused - expected, kLeastGradient);
  for (std::size_t trait = 0; trait < kTraits; ++trait) {
    Weights& weights = weights_[place(traits, trait)];
    const double haste = trait == 0 ? kHasteOfFirst : 1;
    step(weights[octave], gradient, haste);
    step(weights[kOctaves], gradient, haste);
  }
}

}  // namespace afterimage
