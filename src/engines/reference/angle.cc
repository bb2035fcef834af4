// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/angle.h"

#include <cmath>
#include <numbers>

namespace afterimage {
namespace {

constexpr double kLogOf10000 = 9.210340371976184;

// Taylor series around 0: on [-pi, pi] the last term is below 1e-10.
double series(double first, double x_squared, int first_index) {
  double term = first;
  double sum = first;
  for (int n = first_index; n < first_index + 24; n += 2) {
    term *= -x_squared / (n * (n + 1));
    sum += term;
  }
  return sum;
}

}  // namespace

SineCosine sine_cosine(double radians) {
  const double turns = std::nearbyint(radians / (2.0 * std::numbers::pi));
  const double x = radians - turns * (2.0 * std::numbers::pi);
  return {.sine = static_cast<float>(series(x, x * x, 2)),
          .cosine = static_cast<float>(series(1.0, x * x, 1))};
}

std::vector<float> position_frequencies(std::size_t count, const Kernels& kernels) {
  std::vector<float> frequencies(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double exponent = -kLogOf10000 * static_cast<double>(i) / static_cast<double>(count);
    frequencies[i] = kernels.exp(static_cast<float>(exponent));
  }
  return frequencies;
}

std::vector<float> position_wave(std::size_t coordinate, std::size_t size, const Kernels& kernels) {
  const auto frequencies = position_frequencies(size / 2, kernels);
  std::vector<float> wave(size);
  for (std::size_t i = 0; i < size / 2; ++i) {
    const auto [sine, cosine] = sine_cosine(static_cast<double>(coordinate) * frequencies[i]);
    wave[i] = sine;
    wave[size / 2 + i] = cosine;
  }
  return wave;
}

}  // namespace afterimage
