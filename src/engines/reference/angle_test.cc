// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/angle.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engines/reference/kernel.h"

namespace afterimage {
namespace {

TEST(Angle, AgreesWithTheLibraryForEverySupportedContext) {
  for (int i = -2000; i < 200'000; ++i) {
    const double x = i * 0.37;
    const auto [sine, cosine] = sine_cosine(x);
    ASSERT_NEAR(sine, std::sin(x), 1e-7) << x;
    ASSERT_NEAR(cosine, std::cos(x), 1e-7) << x;
  }
}

TEST(Angle, FrequenciesFallFromOneRadianPerStepToAlmostZero) {
  const auto frequencies = position_frequencies(16, *supported_kernels().front());
  ASSERT_EQ(frequencies.size(), 16U);
  EXPECT_EQ(frequencies[0], 1.0F);
  EXPECT_NEAR(frequencies[8], 0.01, 1e-7);
  EXPECT_NEAR(frequencies[15], std::pow(10'000.0, -15.0 / 16), 1e-9);
}

TEST(Angle, WavesDistinguishCoordinates) {
  const Kernels& kernels = *supported_kernels().front();
  const auto origin = position_wave(0, 8, kernels);
  EXPECT_EQ(origin, (std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_NE(position_wave(1, 8, kernels), position_wave(2, 8, kernels));
}

}  // namespace
}  // namespace afterimage
