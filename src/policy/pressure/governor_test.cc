// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/pressure/governor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

#include "afterimage/pressure.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

constexpr Bytes kTotal = 16_GiB;

GovernorOptions options() { return {.cap = 12_GiB, .reserve = 1_GiB}; }

/// Inputs from a correct gauge: `external` plus what we hold.
GovernorInputs truth(Duration now, Bytes external, LedgerView ledger) {
  return {
      .now = now,
      .ledger = ledger,
      .sample = MemorySample{
          .taken_at = now, .total = kTotal, .used = external + ledger.used, .ours = ledger.used}};
}

/// The state after stepping with these inputs for a while.
GovernorState settled(Bytes external, LedgerView ledger, Duration until = 60s) {
  GovernorState state;
  for (Duration now = 0s; now <= until; now += 50ms) {
    state = step(state, truth(now, external, ledger), options()).state;
  }
  return state;
}

TEST(Governor, TheTargetIsTheFreeMemoryLessTheReserve) {
  const struct {
    const char* name;
    Bytes external;
    Bytes budget;
    Bytes target;
  } kCases[] = {
      {"plenty: the cap", 1_GiB, 12_GiB, 12_GiB},
      {"the reserve begins to count", 3_GiB, 12_GiB, 12_GiB},
      {"less than the cap", 6_GiB, 10_GiB, 9_GiB},
      {"only the reserve is left", 15_GiB, 1_GiB, 0_B},
      {"nothing is left", 16_GiB, 0_B, 0_B},
  };
  for (const auto& c : kCases) {
    const auto actions = step({}, truth(0s, c.external, {}), options()).actions;
    EXPECT_EQ(actions.budget, c.budget) << c.name;
    EXPECT_EQ(actions.target, c.target) << c.name;
  }
}

TEST(Governor, OurOwnBytesAreNotPressure) {
  const GovernorState empty = settled(2_GiB, {});
  const GovernorState full = settled(2_GiB, {.used = 12_GiB, .evictable = 1_GiB});
  EXPECT_EQ(empty.external, full.external);
  EXPECT_EQ(empty.target, full.target);
}

TEST(Governor, TheDeficitIsReleasedAndTheRestIsReported) {
  const GovernorState state = settled(4_GiB, {.used = 11_GiB, .evictable = 1_GiB});
  const auto missing = [&](Bytes external, Bytes evictable) {
    GovernorState still = state;
    still.external = external;  // as if it had been constant: no slope
    still.last->used = external + 11_GiB;
    return step(still, truth(60s, external, {.used = 11_GiB, .evictable = evictable}), options())
        .actions;
  };
  const auto covered = missing(4_GiB + 512_MiB, 1_GiB);
  EXPECT_EQ(covered.release, 512_MiB);
  EXPECT_EQ(covered.overrun, 0_B);
  const auto beyond = missing(4_GiB + 768_MiB, 256_MiB);  // the reserve covers it for a moment
  EXPECT_EQ(beyond.release, 256_MiB);
  EXPECT_EQ(beyond.overrun, 0_B);
  GovernorInputs overrun = truth(60s, 4_GiB, {.used = 11_GiB, .evictable = 256_MiB});
  overrun.planned = 3_GiB;
  const auto actions = step(state, overrun, options()).actions;
  EXPECT_EQ(actions.release, 256_MiB);
  EXPECT_EQ(actions.overrun, 11_GiB - 256_MiB - 9_GiB);
}

TEST(Governor, ActsOnARampBeforeItArrives) {
  const LedgerView ledger{.used = 10_GiB, .evictable = 1_GiB};
  const GovernorState state = settled(4_GiB, ledger);
  const auto actions = step(state, truth(60s + 100ms, 5_GiB, ledger), options()).actions;
  EXPECT_EQ(actions.target, 9_GiB) << "5 GiB now, one more expected, one in reserve";
  EXPECT_EQ(actions.budget, 11_GiB) << "expected growth lowers the target only";
  EXPECT_EQ(actions.overrun, 0_B);
  EXPECT_EQ(actions.release, 1_GiB);
  EXPECT_FALSE(actions.speculate);
}

TEST(Governor, ShrinksAtOnceAndRegrowsSlowly) {
  GovernorState state = settled(10_GiB, {});
  const auto first = step(state, truth(60s + 50ms, 2_GiB, {}), options());
  EXPECT_LT(first.actions.target, 6_GiB) << "5 % of the cap a second";
  state = first.state;
  for (Duration now = 61s; now < 90s; now += 50ms) {
    state = step(state, truth(now, 2_GiB, {}), options()).state;
  }
  EXPECT_EQ(state.target, 12_GiB);
}

TEST(Governor, AFailedAllocationIsAnEmergencyAndFreesItsSize) {
  const GovernorState state = settled(4_GiB, {.used = 11_GiB, .evictable = 2_GiB});
  GovernorInputs inputs = truth(60s, 4_GiB, {.used = 11_GiB, .evictable = 2_GiB});
  inputs.refused = 3_GiB;
  const auto actions = step(state, inputs, options()).actions;
  EXPECT_EQ(actions.mode, PressureMode::kEmergency);
  EXPECT_FALSE(actions.admits);
  EXPECT_EQ(actions.budget, 9_GiB);
  EXPECT_EQ(actions.release, 2_GiB);
}

TEST(Governor, StallsAndAnnouncedAllocationsCount) {
  GovernorInputs inputs = truth(0s, 4_GiB, {});
  inputs.stall = 0.5;
  EXPECT_EQ(step({}, inputs, options()).actions.mode, PressureMode::kPressure);
  inputs = truth(0s, 4_GiB, {});
  inputs.planned = 5_GiB;
  EXPECT_EQ(step({}, inputs, options()).actions.target, 6_GiB);
}

TEST(Governor, m10_a_missing_gauge_is_not_calm) {
  const auto actions = step({}, {.now = 0s}, options()).actions;
  EXPECT_EQ(actions.trust, GaugeTrust::kNone);
  EXPECT_EQ(actions.budget, 6_GiB) << "half the cap";
  EXPECT_GE(actions.mode, PressureMode::kPressure);
  EXPECT_FALSE(actions.speculate);
}

TEST(Governor, ImpossibleReadingsAreNotTrusted) {
  const GovernorState state = settled(2_GiB, {.used = 4_GiB, .evictable = {}}, 10s);
  const Duration now = 10s + 50ms;
  const struct {
    const char* name;
    MemorySample sample;
    GaugeTrust trust;
  } kCases[] = {
      {"nothing in all", {now, 0_B, 0_B, 0_B}, GaugeTrust::kNonsense},
      {"more than there is", {now, kTotal, 17_GiB, 4_GiB}, GaugeTrust::kNonsense},
      {"from the future", {now + 1ns, kTotal, 6_GiB, 4_GiB}, GaugeTrust::kNonsense},
      {"old", {now - 151ms, kTotal, 6_GiB, 4_GiB}, GaugeTrust::kStale},
      {"less than ours", {now, kTotal, 1_GiB, 4_GiB}, GaugeTrust::kDisagrees},
      {"the same though we moved", {now, kTotal, 6_GiB, 5_GiB}, GaugeTrust::kFrozen},
      {"fine", {now, kTotal, 6_GiB, 4_GiB}, GaugeTrust::kTrusted},
  };
  for (const auto& c : kCases) {
    const GovernorStep next =
        step(state, {.now = now, .ledger = {.used = 4_GiB, .evictable = {}}, .sample = c.sample},
             options());
    EXPECT_EQ(next.actions.trust, c.trust) << c.name;
    const bool closed = next.actions.mode >= PressureMode::kPressure && !next.actions.speculate;
    EXPECT_EQ(closed, c.trust != GaugeTrust::kTrusted) << c.name;
  }
}

TEST(Governor, ASilentGaugeEndsInTheBlindCap) {
  const LedgerView ledger{.used = 10_GiB, .evictable = 1_GiB};
  const GovernorState state = settled(1_GiB, ledger);
  const GovernorStep missed = step(state, {.now = 60s + 50ms, .ledger = ledger}, options());
  EXPECT_EQ(missed.actions.trust, GaugeTrust::kTrusted) << "one missed reading is tolerated";
  EXPECT_EQ(missed.actions.target, 12_GiB);
  const auto blind = step(missed.state, {.now = 60s + 200ms, .ledger = ledger}, options()).actions;
  EXPECT_EQ(blind.trust, GaugeTrust::kStale);
  EXPECT_EQ(blind.target, 6_GiB);
  EXPECT_EQ(blind.release, 1_GiB);
  EXPECT_EQ(blind.overrun, 0_B);
  EXPECT_GE(blind.mode, PressureMode::kPressure);
}

TEST(Governor, WithoutAGaugeTheBudgetNeverGrows) {
  for_each_seed(100, [](Rng& rng) {
    GovernorState state = settled(Bytes(rng.below(kTotal.value())), {}, 1s);
    Bytes budget = Bytes::max();
    Duration now = 1s;
    for (int i = 0; i < 200; ++i) {
      now += Duration(rng.below(100'000'000));
      GovernorInputs inputs{.now = now};
      if (rng.chance(0.5)) inputs.sample = MemorySample{now, 0_B, 0_B, 0_B};
      const GovernorStep next = step(state, inputs, options());
      EXPECT_LE(next.actions.budget, budget);
      budget = next.actions.budget;
      state = next.state;
    }
  });
}

TEST(Governor, ARampContinuesWhileTheGaugeIsSilent) {
  GovernorState state = settled(8_GiB, {});
  state = step(state, truth(60s + 50ms, 8_GiB + 512_MiB, {}), options()).state;
  const Bytes before = step(state, {.now = 60s + 100ms}, options()).actions.budget;
  const Bytes after = step(state, {.now = 60s + 400ms}, options()).actions.budget;
  EXPECT_LT(after, before);
}

TEST(Governor, m6_the_ladder_is_monotone) {
  // More external use never allows us more bytes or a milder mode.
  for_each_seed(200, [](Rng& rng) {
    const Bytes used(rng.below((12_GiB).value()) + 1);
    const LedgerView ledger{.used = used, .evictable = Bytes(rng.below(used.value()))};
    const std::uint64_t room = (kTotal - used).value();
    const std::uint64_t low = rng.below(room);
    const std::uint64_t high = low + rng.below(room - low + 1);
    GovernorOptions chosen = options();
    chosen.idle = IdleLimits::seed();
    if (rng.chance(0.5)) chosen.modes = kSeedModes;
    const auto mild = step({}, truth(0s, Bytes(low), ledger), chosen).actions;
    const auto hard = step({}, truth(0s, Bytes(high), ledger), chosen).actions;
    EXPECT_LE(mild.mode, hard.mode);
    EXPECT_GE(mild.budget, hard.budget);
    EXPECT_LE(mild.release, hard.release);
    EXPECT_LE(mild.release + mild.overrun, hard.release + hard.overrun);
    EXPECT_GE(mild.expire_idle.value(), hard.expire_idle.value());
    EXPECT_LE(mild.offload_idle.has_value(), hard.offload_idle.has_value());
  });
}

TEST(Governor, TheSeedsThresholdsAndIdleLimitsCanBeChosen) {
  GovernorOptions seed = options();
  seed.modes = kSeedModes;
  seed.idle = IdleLimits::seed();
  const struct {
    double used;
    PressureMode mode;
    Duration idle;
    bool offload;
  } kCases[] = {{0.50, PressureMode::kRelaxed, 10min, false},
                {0.75, PressureMode::kNormal, 120s, false},
                {0.90, PressureMode::kPressure, 120s, false},
                {0.94, PressureMode::kCritical, 120s, true},
                {0.97, PressureMode::kEmergency, 30s, true}};
  for (const auto& c : kCases) {
    const Bytes external(static_cast<Bytes::rep>(c.used * static_cast<double>(kTotal.value())));
    const auto actions = step({}, truth(0s, external, {}), seed).actions;
    EXPECT_EQ(actions.mode, c.mode) << c.used;
    EXPECT_EQ(actions.expire_idle, c.idle) << c.used;
    EXPECT_EQ(actions.offload_idle.has_value(), c.offload) << c.used;
  }
}

// M15: thresholds that are fractions mean 320 MB on one card and 7.7 GB on another.
TEST(Governor, m15_modes_compare_bytes_of_need_with_headroom) {
  const auto mode_of = [](Bytes total) {
    GovernorInputs inputs = truth(0s, 0_B, {});
    inputs.sample->total = total;
    inputs.sample->used = total - 4_GiB;
    return step({}, inputs, options()).actions.mode;
  };
  EXPECT_EQ(mode_of(8_GiB), mode_of(192_GiB));
}

TEST(Governor, m7_a_plateau_is_acted_on_in_every_step) {
  GovernorOptions seed = options();
  seed.idle = IdleLimits::seed();
  GovernorState state;
  for (int tick = 0; tick < 100; ++tick) {
    const GovernorStep next =
        step(state, truth(tick * 50ms, 15_GiB + 512_MiB, {.used = 512_MiB, .evictable = {}}), seed);
    EXPECT_EQ(next.actions.mode, PressureMode::kEmergency);
    EXPECT_EQ(next.actions.expire_idle, 30s) << "tick " << tick;
    EXPECT_EQ(next.actions.target, 0_B);
    state = next.state;
  }
}

TEST(Governor, m12_the_block_is_never_stuck) {
  for_each_seed(100, [](Rng& rng) {
    GovernorState state;
    Duration now = 0s;
    for (int i = 0; i < 300; ++i) {
      now += Duration(rng.below(2'000'000'000));
      GovernorInputs inputs = truth(now, Bytes(rng.below(kTotal.value())), {});
      if (rng.chance(0.2)) inputs.sample.reset();
      if (rng.chance(0.1)) inputs.refused = 1_GiB;
      state = step(state, inputs, options()).state;
    }
    GovernorActions last;
    for (const Duration until = now + 130s; now < until; now += 50ms) {
      const GovernorStep next = step(state, truth(now, 1_GiB, {}), options());
      state = next.state;
      last = next.actions;
    }
    EXPECT_EQ(last.mode, PressureMode::kRelaxed);
    EXPECT_TRUE(last.admits);
    EXPECT_EQ(last.target, 12_GiB);
  });
}

// Q1: called twice within 100 ms, the original QueueingController evicted 156 blocks and then none.
TEST(Governor, q1_a_second_step_demands_the_same) {
  const LedgerView ledger{.used = 6_GiB, .evictable = 5_GiB};
  const GovernorStep first = step({}, truth(0s, 10_GiB, ledger), options());
  const GovernorStep second = step(first.state, truth(1ms, 10_GiB, ledger), options());
  EXPECT_EQ(first.actions.release, 1_GiB);
  EXPECT_EQ(second.actions.release, 1_GiB);
}

// Q2: load was clamped to .9999, so that a twentyfold overload was stable while blocks were free.
TEST(Governor, q2_overload_is_an_emergency_however_much_is_free) {
  GovernorInputs inputs = truth(0s, 0_B, {});
  inputs.planned = Bytes(20 * kTotal.value());
  const auto actions = step({}, inputs, options()).actions;
  EXPECT_EQ(actions.mode, PressureMode::kEmergency);
  EXPECT_EQ(actions.target, 0_B);
}

// Q3: it evicted 166 blocks of a pool of 100.
TEST(GovernorProperty, q3_never_asks_for_more_than_there_is) {
  for_each_seed(300, [](Rng& rng) {
    GovernorState state;
    for (int i = 0; i < 40; ++i) {
      const Bytes used(rng.below((12_GiB).value()));
      const Bytes evictable(rng.below(used.value() + 1));
      GovernorInputs inputs = truth(i * 50ms, Bytes(rng.below((4_GiB).value())),
                                    {.used = used, .evictable = evictable});
      inputs.planned = Bytes(rng.below(UINT64_MAX));
      inputs.refused = rng.chance(0.2) ? Bytes(rng.below(UINT64_MAX)) : 0_B;
      const GovernorStep next = step(state, inputs, options());
      ASSERT_LE(next.actions.release, evictable);
      ASSERT_LE(next.actions.release + next.actions.overrun, used);
      ASSERT_LE(next.actions.target, next.actions.budget);
      state = next.state;
    }
  });
}

// Q4: the arrival rate was updated at arrivals only, and was unchanged an hour after the last one.
TEST(Governor, q4_growth_that_stopped_is_forgotten) {
  GovernorState state = settled(2_GiB, {});
  state = step(state, truth(60s + 50ms, 6_GiB, {}), options()).state;
  EXPECT_LT(*state.target, 6_GiB) << "the same growth again is expected";
  for (Duration now = 60s + 100ms; now < 62s; now += 50ms) {
    state = step(state, truth(now, 6_GiB, {}), options()).state;
  }
  EXPECT_LT(state.growth, 1e6);
}

// Q5: it averaged over its whole life: after a long calm, a change was not noticed.
TEST(Governor, q5_a_long_past_does_not_outweigh_the_last_moment) {
  const auto target_after = [](Duration calm) {
    const GovernorState state = settled(6_GiB, {}, calm);
    return step(state, truth(calm + 50ms, 7_GiB, {}), options()).actions.target;
  };
  EXPECT_EQ(target_after(1s), 7_GiB);
  EXPECT_EQ(target_after(1h), 7_GiB);
}

// Q8: each arrival copied a list of all arrivals of the last minute. The state holds only numbers.
static_assert(std::is_trivially_copyable_v<GovernorState> && sizeof(GovernorState) < 512,
              "q8: the state does not grow with what it has seen");

TEST(Governor, TheSameInputsGiveTheSameActions) {
  const auto run = [](Rng rng) {
    GovernorState state;
    std::vector<std::uint64_t> seen;
    for (int i = 0; i < 500; ++i) {
      const GovernorStep next =
          step(state,
               truth(i * 50ms, Bytes(rng.below(kTotal.value() / 2)),
                     {.used = Bytes(rng.below((4_GiB).value())), .evictable = {}}),
               options());
      state = next.state;
      seen.push_back(next.actions.target.value() ^ next.actions.overrun.value());
    }
    return seen;
  };
  EXPECT_EQ(run(Rng(3)), run(Rng(3)));
}

TEST(Governor, OptionsAreChecked) {
  EXPECT_TRUE(check(options()).has_value());
  const auto refused = [](auto change) {
    GovernorOptions wrong = options();
    change(wrong);
    return !check(wrong).has_value() && !check(wrong).error().message.empty();
  };
  EXPECT_TRUE(refused([](auto& o) { o.cap = 0_B; }));
  EXPECT_TRUE(refused([](auto& o) { o.reserve = 0_B; }));
  EXPECT_TRUE(refused([](auto& o) { o.blind_cap = o.cap + 1_B; }));
  EXPECT_TRUE(refused([](auto& o) { o.horizon = 0s; }));
  EXPECT_TRUE(refused([](auto& o) { o.tick = -1ns; }));
  EXPECT_TRUE(refused([](auto& o) { o.regrow_per_second = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.stall_limit = 1.0 / 0.0; }));
}

}  // namespace
}  // namespace afterimage
