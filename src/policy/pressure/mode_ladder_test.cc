// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <limits>

#include "afterimage/pressure.h"
#include "policy/pressure/governor.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

const LadderOptions kSeed = LadderOptions::by_use(kSeedModes);

PressureMode mode_at(double stress) { return climb({}, stress, 0s, kSeed).mode; }

TEST(ModeLadder, EntersTheSeedsModesAtTheSeedsThresholds) {
  const struct {
    double used;
    PressureMode mode;
  } kCases[] = {
      {0.0, PressureMode::kRelaxed},
      {0.6999, PressureMode::kRelaxed},
      {0.70, PressureMode::kNormal},
      {0.8499, PressureMode::kNormal},
      {0.85, PressureMode::kPressure},
      {0.9199, PressureMode::kPressure},
      {0.92, PressureMode::kCritical},
      {0.9599, PressureMode::kCritical},
      {0.96, PressureMode::kEmergency},
      {std::numeric_limits<double>::infinity(), PressureMode::kEmergency},
  };
  for (const auto& c : kCases) EXPECT_EQ(mode_at(c.used), c.mode) << c.used;
}

TEST(ModeLadder, OperatorsSayWhenModesBegin) {
  EXPECT_EQ(parse_modes("headroom").value(), std::nullopt);
  EXPECT_EQ(parse_modes("seed").value(), kSeedModes);
  EXPECT_EQ(parse_modes("70,85,92,96").value(), kSeedModes);
  EXPECT_EQ(parse_modes("60, 75.5, 85, 100").value(), (ModesByUse{0.60, 0.755, 0.85, 1.0}));
  for (const char* wrong : {"", "often", "70,85,92", "70,85,92,96,99", "70,85,92,", "70;85;92;96",
                            "0,85,92,96", "70,85,85,96", "70,85,92,101", "nan,85,92,96"}) {
    EXPECT_EQ(parse_modes(wrong).error().code, ErrorCode::kInvalidArgument) << wrong;
  }
}

TEST(ModeLadder, GoesUpAtOnceAndDownOneStepPerDwell) {
  LadderState state = climb({}, 0.97, 0s, kSeed);
  EXPECT_EQ(state.mode, PressureMode::kEmergency);
  state = climb(state, 0.1, 1s, kSeed);  // calm begins
  state = climb(state, 0.1, 3s - 1ns, kSeed);
  EXPECT_EQ(state.mode, PressureMode::kEmergency);
  state = climb(state, 0.1, 3s, kSeed);
  EXPECT_EQ(state.mode, PressureMode::kCritical);
  state = climb(state, 0.1, 3s + 1ns, kSeed);
  EXPECT_EQ(state.mode, PressureMode::kCritical) << "one mode per dwell";
}

TEST(ModeLadder, CalmMustLast) {
  LadderState state = climb({}, 0.86, 0s, kSeed);
  state = climb(state, 0.5, 1s, kSeed);
  state = climb(state, 0.845, 2s, kSeed);  // not below `leave`: calm is over
  state = climb(state, 0.5, 3s, kSeed);
  state = climb(state, 0.5, 4900ms, kSeed);
  EXPECT_EQ(state.mode, PressureMode::kPressure);
  state = climb(state, 0.5, 5s, kSeed);
  EXPECT_EQ(state.mode, PressureMode::kNormal);
}

TEST(ModeLadder, AModeEnteredAgainSoonIsLeftLater) {
  LadderState state;
  Duration now = 0s;
  Duration waited = 0s;
  const auto out_and_in = [&] {
    state = climb(state, 0.86, now, kSeed);
    const Duration start = now;
    while (state.mode == PressureMode::kPressure)
      state = climb(state, 0.84 - 1e-9, now += 100ms, kSeed);
    waited = now - start;
  };
  out_and_in();
  EXPECT_LE(waited, 2200ms);
  out_and_in();
  EXPECT_GE(waited, 4s);
  for (int i = 0; i < 5; ++i) out_and_in();
  EXPECT_GE(waited, 30s);
  EXPECT_LE(waited, 31s) << "the dwell is bounded by longest_dwell";
}

// M8 of the original VRAMAwareCache: ± 0.0001 around .85 ran the policy 40 times.
TEST(ModeLadder, m8_hover_makes_one_transition) {
  for_each_seed(50, [](Rng& rng) {
    LadderState state = climb({}, 0.80, 0s, kSeed);
    int transitions = 0;
    for (int tick = 1; tick <= 4000; ++tick) {
      const LadderState next =
          climb(state, 0.85 + (rng.uniform() - 0.5) * 0.0198, tick * 50ms, kSeed);
      transitions += next.mode != state.mode;
      state = next;
    }
    EXPECT_LE(transitions, 1);
  });
}

TEST(ModeLadder, CalmLeadsBackToRelaxedFromAnywhere) {
  for_each_seed(50, [](Rng& rng) {
    LadderState state;
    Duration now = 0s;
    for (int tick = 0; tick < 2000; ++tick) {
      state = climb(state, rng.uniform() * 1.2, now += Duration(rng.below(1'000'000'000)), kSeed);
    }
    const Duration until = now + 4 * kSeed.longest_dwell + 1s;
    while (now < until) state = climb(state, 0.1, now += 50ms, kSeed);
    EXPECT_EQ(state.mode, PressureMode::kRelaxed);
  });
}

TEST(ModeLadder, AnUndefinedStressIsNotCalm) {
  LadderState state = climb({}, 0.97, 0s, kSeed);
  for (int s = 1; s < 100; ++s) {
    state = climb(state, std::numeric_limits<double>::quiet_NaN(), s * 1s, kSeed);
  }
  EXPECT_EQ(state.mode, PressureMode::kEmergency);
}

TEST(ModeLadder, BordersAreChecked) {
  EXPECT_TRUE(check(LadderOptions::by_use(kSeedModes)).has_value());
  EXPECT_TRUE(check(LadderOptions::headroom()).has_value());
  LadderOptions falling = LadderOptions::by_use(kSeedModes);
  falling.borders[2].enter = 0.8;
  EXPECT_EQ(check(falling).error().code, ErrorCode::kInvalidArgument);
  LadderOptions no_gap = LadderOptions::by_use(kSeedModes);
  no_gap.borders[1].leave = no_gap.borders[1].enter;
  EXPECT_EQ(check(no_gap).error().code, ErrorCode::kInvalidArgument);
  LadderOptions restless = LadderOptions::by_use(kSeedModes);
  restless.dwell = Duration(0);
  EXPECT_EQ(check(restless).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace afterimage
