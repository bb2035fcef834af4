// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "afterimage/pressure.h"
#include "policy/pressure/governor.h"

/// What every PressureGauge guarantees. To run the suite on your own implementation:
///
///   const GaugeFactory kMine{"mine", [] { return make_working(); }, [] { return make_broken(); }};
///   INSTANTIATE_TEST_SUITE_P(Mine, GaugeConformance, ::testing::Values(kMine));
namespace afterimage::testing {

struct GaugeFactory {
  std::string name;
  std::function<std::unique_ptr<PressureGauge>()> working;  // its source exists
  std::function<std::unique_ptr<PressureGauge>()> broken;   // its source is missing or invalid
};

class GaugeConformance : public ::testing::TestWithParam<GaugeFactory> {};

TEST_P(GaugeConformance, ReadingsArePlausible) {
  const auto gauge = GetParam().working();
  for (int i = 0; i < 3; ++i) {
    const auto reading = gauge->read();
    ASSERT_TRUE(reading.has_value()) << to_string(reading.error());
    EXPECT_GT(reading->total, 0_B);
    EXPECT_LE(reading->used, reading->total);
    EXPECT_GE(reading->stall, 0);
    EXPECT_LE(reading->stall, 1);
  }
}

TEST_P(GaugeConformance, ABrokenSourceIsAnErrorWithItsName) {
  const auto gauge = GetParam().broken();
  for (int i = 0; i < 3; ++i) {
    const auto reading = gauge->read();
    ASSERT_FALSE(reading.has_value()) << "the gauge invented a reading";
    EXPECT_TRUE(reading.error().code == ErrorCode::kUnavailable ||
                reading.error().code == ErrorCode::kCorruption);
    EXPECT_FALSE(reading.error().message.empty());
  }
}

TEST_P(GaugeConformance, ABrokenSourceClosesTheGovernor) {
  const auto gauge = GetParam().broken();
  const ManualClock clock;
  GovernorInputs inputs{.sample = MemorySample{.total = 1_GiB}, .stall = 0.5};
  EXPECT_FALSE(take_reading(*gauge, clock, inputs).has_value());
  EXPECT_EQ(inputs.sample, std::nullopt);
  const auto actions = step({}, inputs, {.cap = 1_GiB, .reserve = 64_MiB}).actions;
  EXPECT_NE(actions.trust, GaugeTrust::kTrusted);
  EXPECT_LE(actions.budget, 512_MiB);
}

TEST_P(GaugeConformance, HasAName) { EXPECT_FALSE(GetParam().working()->name().empty()); }

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GaugeConformance);

}  // namespace afterimage::testing
