// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/load_or_compute.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "afterimage/tier.h"
#include "testing/seeds.h"
#include "testing/slow_tier.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using namespace testing;  // NOLINT: tier_key, tier_bytes, for_each_seed

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
Duration of_seconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

TEST(LoadRate, FitsALineWithoutNoise) {
  for_each_seed(100, [](Rng& rng) {
    const double latency = 1e-5 + 1e-2 * rng.uniform();
    const double per_byte = 1e-10 + 1e-8 * rng.uniform();
    LoadRate rate;
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t bytes = 1ULL << (10 + rng.below(14));
      rate.add(Bytes(bytes), of_seconds(latency + per_byte * static_cast<double>(bytes)), i * 10ms);
    }
    for (const std::uint64_t bytes : {1ULL << 10U, 1ULL << 20U, 1ULL << 24U}) {
      const double truth = latency + per_byte * static_cast<double>(bytes);
      // The first loads cannot be distinguished from outliers.
      EXPECT_NEAR(seconds(rate.expected(Bytes(bytes))), truth, 0.01 * truth) << bytes;
    }
  });
}

/// The obvious model: keeps all loads and sums them up each time.
struct ObviousRate {
  struct Load {
    double x;
    double y;
    double at;
  };
  std::vector<Load> loads;

  /// Weighted mean of f over the loads, at the time of the last.
  double mean(auto f) const {
    double sum = 0;
    double weights = 0;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      const double behind = static_cast<double>(loads.size() - 1 - i);
      const double weight = std::pow(31.0 / 32, behind) *
                            std::exp2(-(loads.back().at - loads[i].at) / 30) /
                            (loads[i].x + 65'536);
      sum += weight * f(loads[i]);
      weights += weight;
    }
    return sum / weights;
  }
};

TEST(LoadRateProperty, IsTheWeightedLeastSquaresOfAllLoads) {
  for_each_seed(60, [](Rng& rng) {
    LoadRate rate;
    ObviousRate obvious;
    double now = 0;
    for (int i = 0; i < 120; ++i) {
      now += rng.chance(0.05) ? 40 * rng.uniform() : 0.01;
      const double x = static_cast<double>(1000 + rng.below(4'000'000));
      const Bytes bytes(static_cast<std::uint64_t>(x));
      const double y = (1e-3 + 1e-9 * x) * (0.7 + 0.6 * rng.uniform());
      rate.add(bytes, of_seconds(y), of_seconds(now));
      obvious.loads.push_back({.x = x, .y = y, .at = now});
      if (i < 3) continue;
      const double mean_x = obvious.mean([](auto& l) { return l.x; });
      const double mean_y = obvious.mean([](auto& l) { return l.y; });
      const double variance =
          obvious.mean([&](auto& l) { return (l.x - mean_x) * (l.x - mean_x); });
      const double together =
          obvious.mean([&](auto& l) { return (l.x - mean_x) * (l.y - mean_y); });
      const double slope = together / variance;
      if (variance < 0.26 * mean_x * mean_x || slope <= 0 || slope * mean_x > mean_y) continue;
      for (const double size : {1e4, 1e6, 1e7}) {
        const double expected = mean_y + slope * (size - mean_x);
        ASSERT_NEAR(seconds(rate.expected(Bytes(static_cast<std::uint64_t>(size)))), expected,
                    1e-6 * expected + 1e-8)
            << "load " << i;
      }
    }
  });
}

TEST(LoadRate, WithOneSizeTheLatencyKeepsItsShare) {
  LoadRate rate;
  for (int i = 0; i < 30; ++i) rate.add(1_MiB, 8ms, i * 1ms);
  EXPECT_NEAR(to_milliseconds(rate.expected(1_MiB)), 8, 0.01);
  EXPECT_GT(rate.expected(64_MiB), 64ms) << "larger loads take longer";
  EXPECT_LT(rate.expected(1_KiB), 8ms);
  EXPECT_GT(rate.expected(1_KiB), 1ms) << "and small loads still have a latency";
}

TEST(LoadRate, AHiccupMovesItByAQuarterAndASlowDeviceIsSoonKnown) {
  LoadRate rate;
  for (int i = 0; i < 100; ++i) rate.add(1_MiB, 1ms, i * 1ms);
  rate.add(1_MiB, 10s, 100ms);
  EXPECT_LT(to_milliseconds(rate.expected(1_MiB)), 1.3);
  int more = 0;
  while (rate.expected(1_MiB) < 100ms) rate.add(1_MiB, 10s, 100ms + ++more * 1ms);
  EXPECT_LT(more, 10);
  LoadRate of_none;
  for (int i = 0; i < 100; ++i) of_none.add(1_MiB, Duration(0), i * 1ms);
  for (int i = 0; i < 10; ++i) of_none.add(1_MiB, 1s, 200ms + i * 1s);
  EXPECT_GT(of_none.expected(1_MiB), 100ms) << "even if its loads took no time at all";
}

TEST(LoadRate, DegenerateFitsAreFlatOrThroughTheOrigin) {
  LoadRate falling;
  LoadRate steep;
  for (int i = 0; i < 40; ++i) {
    const std::uint64_t bytes = i % 2 == 0 ? 10'000 : 1'000'000;
    falling.add(Bytes(bytes), i % 2 == 0 ? 5ms : 1ms, i * 1ms);
    steep.add(Bytes(bytes), i % 2 == 0 ? 1us : 10ms, i * 1ms);
  }
  EXPECT_EQ(falling.expected(1_KiB), falling.expected(1_GiB));
  EXPECT_EQ(steep.latency(), Duration(0));
  EXPECT_GT(steep.expected(1_MiB), 9ms);
}

struct Gate {
  explicit Gate(LoadOrComputeOptions options = {}) : choices(clock, options) {}
  ManualClock clock;
  LoadOrCompute choices;

  void measure(int times, Bytes bytes, Duration took) {
    for (int i = 0; i < times; ++i) {
      clock.advance(took);
      choices.loaded(bytes, took);
    }
  }
};

TEST(LoadOrCompute, LoadsWithoutMeasurements) {
  Gate gate;
  const LoadStep step{.bytes = 1_MiB, .cost = 1ns};
  EXPECT_EQ(gate.choices.choose(step).steps, 1U);
  EXPECT_EQ(gate.choices.choose(step).reason, LoadReason::kUnmeasured);
  gate.measure(2, 1_MiB, 10s);
  EXPECT_EQ(gate.choices.choose(step).reason, LoadReason::kUnmeasured);
  gate.measure(1, 1_MiB, 10s);
  EXPECT_EQ(gate.choices.choose(step).reason, LoadReason::kSlower);
  EXPECT_EQ(gate.choices.stats().declined, 1U);
}

TEST(LoadOrCompute, FewLoadsRefuseOnlyMuchSlowerLoads) {
  Gate gate;
  gate.measure(4, 1_MiB, 10ms);
  EXPECT_EQ(gate.choices.choose({.bytes = 1_MiB, .cost = 6ms}).reason, LoadReason::kQuicker);
  EXPECT_EQ(gate.choices.choose({.bytes = 1_MiB, .cost = 4ms}).reason, LoadReason::kSlower);
  gate.measure(4, 1_MiB, 10ms);
  EXPECT_EQ(gate.choices.choose({.bytes = 1_MiB, .cost = 9ms}).reason, LoadReason::kSlower);
  EXPECT_EQ(gate.choices.choose({.bytes = 1_MiB, .cost = 10ms}).reason, LoadReason::kQuicker);
}

TEST(LoadOrCompute, ExpectsTheSameOfEntriesNotStoredYet) {
  Gate gate;
  const LoadStep quick{.bytes = 1_MiB, .cost = 4ms};
  EXPECT_FALSE(gate.choices.expects_slower(quick)) << "nothing was measured";
  gate.measure(4, 1_MiB, 10ms);
  EXPECT_TRUE(gate.choices.expects_slower(quick));
  EXPECT_FALSE(gate.choices.expects_slower({.bytes = 1_MiB, .cost = 6ms}));
  EXPECT_FALSE(gate.choices.expects_slower({.bytes = 1_MiB, .cost = Duration(0)}));
  EXPECT_FALSE(gate.choices.expects_slower({.bytes = 1_MiB, .cost = 4ms, .place = 1}))
      << "nothing is known of the other tier";
  EXPECT_EQ(gate.choices.stats().declined, 0U) << "there was nothing to load";
}

TEST(LoadOrCompute, LoadsEntriesOfUnknownCost) {
  Gate gate;
  gate.measure(20, 1_MiB, 10s);
  EXPECT_EQ(gate.choices.choose({.bytes = 1_MiB, .cost = Duration(0)}).reason,
            LoadReason::kUnmeasured);
  const LoadStep steps[] = {{.bytes = 1_MiB, .cost = 1ms}, {.bytes = 1_MiB, .cost = Duration(0)}};
  EXPECT_EQ(gate.choices.choose(steps).steps, 2U);
}

TEST(LoadOrComputeProperty, AgreesWithTryingEveryLength) {
  for_each_seed(300, [](Rng& rng) {
    Gate gate;
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t bytes = 1ULL << (10 + rng.below(12));
      gate.measure(1, Bytes(bytes), of_seconds(2e-3 + 2e-9 * static_cast<double>(bytes)));
    }
    const LoadOrComputeStats rates = gate.choices.stats();
    std::vector<LoadStep> steps(rng.below(9));
    for (LoadStep& step : steps) {
      step.bytes = Bytes(1 + rng.below(8'000'000));
      step.gets = 1 + static_cast<std::uint32_t>(rng.below(3));
      step.cost = of_seconds(1e-4 + 0.03 * rng.uniform());
    }
    double best = 0;
    std::size_t longest = 0;
    double saved = 0;
    for (std::size_t n = 0; n < steps.size(); ++n) {
      saved += seconds(steps[n].cost) - steps[n].gets * seconds(rates.places[0].latency) -
               rates.places[0].seconds_per_byte * static_cast<double>(steps[n].bytes.value());
      if (saved >= best) {
        best = saved;
        longest = n + 1;
      }
    }
    const LoadChoice choice = gate.choices.choose(steps);
    if (choice.reason == LoadReason::kProbe) {
      EXPECT_EQ(longest, 0U);
      EXPECT_EQ(choice.steps, 1U);
    } else {
      EXPECT_EQ(choice.steps, longest);
    }
  });
}

/// A tier with one entry and simulated load time, and a request that loads or computes it.
struct World {
  World() {
    const auto put = inner.put(key, {.tensors = {}, .cost = 50ms}, tier_bytes(1, 100'000));
    EXPECT_TRUE(put.has_value());
  }
  MemoryBudget memory{16_MiB};
  HostTier inner{memory};
  ManualClock clock;
  SlowTier tier{inner, clock};
  LoadOrCompute choices{clock};
  MemoryBudget room{16_MiB};
  TierKey key = tier_key(1);

  /// Serves one request and returns how long it took.
  Duration ask() {
    const Duration began = clock.now();
    const LoadStep step = choices.step_of(key.entry_class, tier.metadata(key));
    const LoadChoice choice = choices.choose(step);
    bool loaded = false;
    if (choice.steps > 0) {
      const auto entry = choices.get(tier, key, room, step, choice);
      loaded = entry.has_value() && entry->has_value();
    }
    if (!loaded) clock.advance(50ms);
    return clock.now() - began;
  }
};

TEST(LoadOrCompute, AvoidsASlowTierAndReturnsWhenItIsFast) {
  World world;
  world.tier.latency = 1ms;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(world.ask(), 1ms);
  world.tier.latency = 400ms;
  for (int i = 0; i < 50; ++i) world.ask();
  EXPECT_GT(world.choices.stats().declined, 25U);
  const std::uint64_t gets = world.tier.gets;
  for (int i = 0; i < 100; ++i) world.ask();
  EXPECT_LT(world.tier.gets - gets, 4U) << "only probes";
  world.tier.latency = 1ms;
  int until_back = 0;
  while (world.ask() != 1ms && until_back < 2'000) ++until_back;
  EXPECT_LT(until_back, 400);
  int quick = 0;
  for (int i = 0; i < 100; ++i) quick += world.ask() == 1ms ? 1 : 0;
  EXPECT_EQ(quick, 100) << "one good probe is followed by the next";
}

TEST(LoadOrComputeProperty, ProbesLoseAtMostTheirShareOfTheTime) {
  for_each_seed(30, [](Rng& rng) {
    World world;
    world.tier.latency = of_seconds(0.06 + 2 * rng.uniform());
    for (int i = 0; i < 12; ++i) world.ask();
    const Duration began = world.clock.now();
    Duration lost{0};
    for (int i = 0; i < 3'000; ++i) lost += world.ask() - 50ms;
    EXPECT_LE(seconds(lost), seconds(world.clock.now() - began) / 32 + seconds(world.tier.latency));
    EXPECT_GT(world.choices.stats().probes, 0U);
  });
}

TEST(LoadOrCompute, ProbesOnceForConcurrentRequests) {
  Gate gate;
  gate.measure(20, 1_MiB, 100ms);
  const LoadStep step{.bytes = 1_MiB, .cost = 50ms};
  gate.clock.advance(10s);
  EXPECT_EQ(gate.choices.choose(step).reason, LoadReason::kProbe);
  EXPECT_EQ(gate.choices.choose(step).reason, LoadReason::kSlower);
  EXPECT_EQ(gate.choices.stats().probes, 1U);
}

TEST(LoadOrCompute, OnlyAProbeWithoutLossIsRepeatedAtOnce) {
  for (const bool fast : {true, false}) {
    Gate gate;
    gate.measure(20, 1_MiB, 100ms);
    const LoadStep step{.bytes = 1_MiB, .cost = 50ms};
    gate.clock.advance(10s);
    const LoadChoice probe = gate.choices.choose(step);
    ASSERT_EQ(probe.reason, LoadReason::kProbe);
    gate.choices.loaded(1_MiB, fast ? 40ms : 100ms, probe);
    EXPECT_EQ(gate.choices.choose(step).reason, fast ? LoadReason::kProbe : LoadReason::kSlower);
  }
}

TEST(LoadOrCompute, AvoidsATierThatOnlyFails) {
  World world;
  world.tier.fails = true;
  world.tier.latency = 20ms;
  for (int i = 0; i < 40; ++i) world.ask();
  EXPECT_EQ(world.ask(), 50ms) << "a load that misses costs more than computing alone";
  world.tier.fails = false;
  int until_back = 0;
  while (world.ask() != 20ms && until_back < 1'000) ++until_back;
  EXPECT_LT(until_back, 200);
}

TEST(LoadOrCompute, EstimatesUnknownEntriesFromTheirClass) {
  World world;
  world.tier.says_nothing = true;
  const EntryClass kind = world.key.entry_class;
  EXPECT_EQ(world.choices.step_of(kind, std::nullopt).cost, Duration(0));
  world.choices.learn(kind, Bytes(1'000), 10ms);
  world.choices.learn(kind, Bytes(1'000), 10ms);
  const LoadStep step = world.choices.step_of(kind, std::nullopt);
  EXPECT_NEAR(static_cast<double>(step.bytes.value()), 1'000, 1);
  EXPECT_NEAR(to_milliseconds(step.cost), 10, 0.01);
  EXPECT_NEAR(
      to_milliseconds(world.choices.step_of(kind, EntryMetadata{.bytes = Bytes(4'000)}).cost), 40,
      0.04)
      << "larger entries cost more";
  EXPECT_EQ(world.choices.step_of(kind, EntryMetadata{.bytes = Bytes(4'000), .cost = 7ms}).cost,
            7ms)
      << "its own cost takes precedence";
  EXPECT_EQ(world.choices.cost_of(EntryClass::kPrefixKv, 1_MiB), Duration(0)) << "another class";
  for (int i = 0; i < 100; ++i) world.choices.learn(kind, Bytes(2'000), 10ms);
  EXPECT_GT(world.choices.step_of(kind, std::nullopt).bytes, Bytes(1'900))
      << "old measurements are forgotten";
}

TEST(LoadOrCompute, EachTierOfAStackHasItsOwnRate) {
  MemoryBudget near_memory(16_MiB);
  MemoryBudget far_memory(16_MiB);
  HostTier near(near_memory);
  HostTier far(far_memory);
  ManualClock clock;
  SlowTier quick(near, clock);
  SlowTier slow(far, clock);
  quick.latency = 1ms;
  slow.latency = 200ms;
  TierStack stack({&quick, &slow});
  const EntryMeta meta{.tensors = {}, .cost = 50ms};
  ASSERT_TRUE(near.put(tier_key(1), meta, tier_bytes(1, 1'000)).has_value());
  ASSERT_TRUE(far.put(tier_key(2), meta, tier_bytes(2, 1'000)).has_value());
  EXPECT_EQ(stack.metadata(tier_key(1))->place, 0U);
  EXPECT_EQ(stack.metadata(tier_key(2))->place, 1U);
  EXPECT_FALSE(stack.metadata(tier_key(3)).has_value());

  LoadOrCompute choices(clock);
  MemoryBudget room(16_MiB);
  const auto choose = [&](std::uint64_t n) {
    const LoadStep step = choices.step_of(EntryClass::kEncoderOutput, stack.metadata(tier_key(n)));
    const LoadChoice choice = choices.choose(step);
    if (choice.steps > 0) static_cast<void>(choices.get(stack, tier_key(n), room, step, choice));
    // The promoted entry would be found in the near tier next time.
    EXPECT_TRUE(near.erase(tier_key(2)).has_value());
    return choice.reason;
  };
  for (int i = 0; i < 20; ++i) {
    choose(1);
    choose(2);
  }
  EXPECT_EQ(choose(1), LoadReason::kQuicker);
  EXPECT_EQ(choose(2), LoadReason::kSlower);
  EXPECT_NEAR(to_milliseconds(choices.stats().places[0].latency), 1, 0.5);
  EXPECT_GT(choices.stats().places[1].loads, 2U);

  const LoadStep both[] = {{.bytes = Bytes(1'000), .cost = 50ms, .place = 0},
                           {.bytes = Bytes(1'000), .cost = 50ms, .place = 1}};
  EXPECT_EQ(choices.choose(both).steps, 1U) << "as far as it saves time";
}

TEST(LoadOrCompute, IsThreadSafe) {
  World world;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&world, t] {
      for (int i = 0; i < 500; ++i) {
        world.choices.loaded(Bytes(1'000 + 100 * static_cast<unsigned>(t)), 3ms);
        world.choices.learn(EntryClass::kEncoderOutput, Bytes(1'000), 2ms);
        static_cast<void>(world.choices.choose({.bytes = 1_KiB, .cost = 1ms}));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(world.choices.stats().places[0].loads, 2'000U);
}

}  // namespace
}  // namespace afterimage
