// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/reuse_regression.h"

#include <gtest/gtest.h>

#include <cmath>

namespace afterimage {
namespace {

using Traits = ReuseRegression::Traits;

Traits traits(std::uint8_t first, std::uint8_t second, std::uint8_t kind = 0) {
  Traits made{.kind = kind};
  made.values[1] = first;
  made.values[2] = second;
  return made;
}

double hazard(const ReuseRegression& regression, const Traits& of, std::size_t octave) {
  return std::exp(regression.log_hazards(of)[octave]);
}

TEST(ReuseRegression, BeforeItLearnsReuseBecomesLessLikelyWithAge) {
  const ReuseRegression regression;
  const auto logs = regression.log_hazards({});
  for (std::size_t octave = 1; octave < logs.size(); ++octave) {
    EXPECT_LE(logs[octave], logs[octave - 1]) << octave;
  }
}

TEST(ReuseRegression, LearnsTheHazardOfAnAge) {
  ReuseRegression regression;
  // Half of the members are reused after four seconds in octave 3, the others live through it.
  for (int i = 0; i < 20'000; ++i) regression.learn({}, 3, i % 2 == 0 ? 4 : 8, i % 2 == 0 ? 1 : 0);
  EXPECT_NEAR(hazard(regression, {}, 3), 0.5 / 6, 0.01);
}

// Later observations move what many earlier ones have taught less and less.
TEST(ReuseRegression, ManyObservationsLeaveLittleNoise) {
  ReuseRegression regression;
  const auto observe = [&](int times) {
    for (int i = 0; i < times; ++i) regression.learn({}, 4, 16, i % 4 == 0 ? 1 : 0);
  };
  observe(20'000);
  const double before = hazard(regression, {}, 4);
  EXPECT_NEAR(before, 1.0 / 64, 0.0005);
  for (int i = 0; i < 10; ++i) regression.learn({}, 4, 16, 1);
  EXPECT_LT(hazard(regression, {}, 4) / before, 1.1);
}

// Each trait doubles the hazard; both together were never seen, and should quadruple it.
TEST(ReuseRegression, JudgesCombinationsThatWereNeverSeen) {
  ReuseRegression regression;
  for (int i = 0; i < 40'000; ++i) {
    regression.learn(traits(0, 0), 4, 16, i % 16 == 0 ? 1 : 0);
    regression.learn(traits(1, 0), 4, 16, i % 8 == 0 ? 1 : 0);
    regression.learn(traits(0, 1), 4, 16, i % 8 == 0 ? 1 : 0);
  }
  const double base = hazard(regression, traits(0, 0), 4);
  EXPECT_NEAR(hazard(regression, traits(1, 0), 4) / base, 2, 0.3);
  EXPECT_NEAR(hazard(regression, traits(1, 1), 4) / base, 4, 1);
}

TEST(ReuseRegression, WhatHoldsAtOneAgeIsExpectedAtOthers) {
  ReuseRegression regression;
  for (int i = 0; i < 2'000; ++i) {
    regression.learn(traits(0, 0), 4, 16, 0);
    regression.learn(traits(1, 0), 4, 16, i % 2 == 0 ? 1 : 0);
  }
  EXPECT_GT(hazard(regression, traits(1, 0), 5), 1.5 * hazard(regression, traits(0, 0), 5));
}

TEST(ReuseRegression, KindsHaveTheirOwnWeights) {
  ReuseRegression regression;
  const double before = hazard(regression, traits(1, 0, /*kind=*/2), 4);
  for (int i = 0; i < 1'000; ++i) regression.learn(traits(1, 0, /*kind=*/1), 4, 16, 1);
  EXPECT_EQ(hazard(regression, traits(1, 0, /*kind=*/2), 4), before);
  EXPECT_GT(hazard(regression, traits(1, 0, /*kind=*/1), 4), 2 * before);
}

TEST(ReuseRegression, ExtremeObservationsLeaveItFinite) {
  ReuseRegression regression;
  for (int i = 0; i < 10'000; ++i) {
    regression.learn({}, 0, 0, 1);
    regression.learn({}, ReuseRegression::kOctaves - 1, 1e17, 0);
  }
  for (const double log : regression.log_hazards({})) EXPECT_TRUE(std::isfinite(log)) << log;
}

}  // namespace
}  // namespace afterimage
