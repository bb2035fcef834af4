// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "afterimage/pressure.h"
#include "afterimage/reuse.h"
#include "afterimage/reuse_stats.h"
#include "caches/prefix/prefix_explanation.h"
#include "caches/prefix/testing/kv_world.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

const KvLayout kLayout{{testing::full(4096)}};

EncoderKey key(unsigned n) {
  EncoderKey k;
  for (std::size_t i = 0; i < 4; ++i) k.bytes[i] = static_cast<std::byte>(n >> (8 * i));
  return k;
}

/// A memory that we share with others, and what its gauge shows: others get no more than is free.
struct Machine final : PressureGauge {
  [[nodiscard]] std::string_view name() const override { return "machine"; }
  Result<GaugeReading> read() override {
    for (hung = hangs.load(); hangs;) std::this_thread::yield();
    if (silent) return fail(ErrorCode::kUnavailable, "off");
    const Reuse* us = ours;
    const Bytes held = us == nullptr ? 0_B : us->stats().used;
    if (!frozen) shown = std::min(Bytes(external.load()) + held, total);
    return GaugeReading{.total = total, .used = shown};
  }

  Bytes total = 256_MiB;
  std::atomic<const Reuse*> ours{nullptr};
  std::atomic<Bytes::rep> external{(64_MiB).value()};
  std::atomic<bool> silent{false};
  std::atomic<bool> frozen{false};
  std::atomic<bool> hangs{false};
  std::atomic<bool> hung{false};  // a reading began while it hangs
  Bytes shown;
};

/// The caches under a keeper that ticks when it is told to. The memory is twice the budget, others
/// begin with a quarter of it, and the reserve is a sixteenth.
struct Fixture {
  explicit Fixture(Bytes budget = 128_MiB,
                   PressureOptions pressure = {.governor = {}, .own_thread = false}) {
    machine->total = budget + budget;
    others(Bytes(budget.value() / 2));
    pressure.gauge = machine;
    pressure.governor.reserve = Bytes(budget.value() / 8);
    reuse = Reuse::create({.budget = budget, .pressure = pressure}, Secret{}, clock).value();
    machine->ours = reuse.get();
  }

  /// One look, `later`.
  GovernorActions tick(Duration later = 50ms, Bytes refused = 0_B) {
    clock.advance(later);
    const GovernorActions actions = reuse->pressure()->tick(refused);
    reuse->encoder().cache().check_invariants();
    reuse->prefix()->cache().check_invariants();
    return actions;
  }
  void others(Bytes bytes) const { machine->external = bytes.value(); }
  /// Others want so much, and take it as it comes free.
  void squeeze(Bytes bytes) {
    others(bytes);
    for (int i = 0; i < 10; ++i) tick();
  }
  void calm(Duration lasts) {
    for (Duration done = 0s; done < lasts; done += 500ms) tick(500ms);
  }
  /// One encoder output; whether it was kept.
  bool put(unsigned n, Bytes bytes = 4_MiB, Duration cost = 0s) {
    const auto got =
        reuse->encoder().get_or_encode(key(n), Modality::kImage, [&]() -> Result<EncoderOutput> {
          clock.advance(cost);
          return EncoderOutput{
              {.dtype = DType::kF32,
               .shape = Shape{bytes.value() / 64, 16},
               .bytes = std::vector<std::byte>(bytes.value(), static_cast<std::byte>(n))}};
        });
    EXPECT_EQ(got->tensors()[0].bytes()[0], static_cast<std::byte>(n));
    return got->resident();
  }
  /// KV of one prompt, 4 KiB a token.
  [[nodiscard]] bool put_kv(int seed, std::uint32_t tokens, Duration cost = 0s) const {
    const Sequence prompt = testing::text_of(tokens, seed);
    testing::Capture capture(testing::space(1), kLayout, prompt, tokens, 0, {});
    capture.kv.cost = cost;
    return reuse->prefix()
        ->cache()
        .insert(testing::space(1), kLayout, prompt, capture.kv)
        .has_value();
  }
  [[nodiscard]] ReuseStats stats() const { return reuse->stats(); }
  [[nodiscard]] PressureControllerStats keeper() const { return reuse->pressure()->stats(); }
  [[nodiscard]] bool holds(unsigned n) const {
    return reuse->encoder().cache().info(key(n)).has_value();
  }

  ManualClock clock;
  std::shared_ptr<Machine> machine = std::make_shared<Machine>();
  std::unique_ptr<Reuse> reuse;
};

TEST(PressureController, StaysWithinWhatOtherProcessesLeaveFree) {
  Fixture f;
  EXPECT_EQ(f.stats().budget, 128_MiB) << "plenty: all that may be kept";
  for (unsigned n = 0; n < 16; ++n) ASSERT_TRUE(f.put(n));
  f.squeeze(208_MiB);
  EXPECT_EQ(f.stats().budget, 32_MiB);
  EXPECT_EQ(f.stats().used, 32_MiB);
  EXPECT_EQ(f.keeper().given_back, 32_MiB);
  f.calm(20s);
  EXPECT_TRUE(f.put(99)) << "one comes, one goes";
  EXPECT_EQ(f.stats().used, 32_MiB);
}

// M2: set() returned true although the entry was gone already.
TEST(PressureController, m2_what_is_reported_as_kept_is_there_under_pressure) {
  Fixture f;
  f.squeeze(208_MiB);
  f.calm(20s);
  for (unsigned n = 0; n < 40; ++n) {
    ASSERT_TRUE(f.put(n));
    f.tick();
    ASSERT_TRUE(f.holds(n));
  }
  EXPECT_EQ(f.stats().used, 32_MiB)
      << "what fits stays (M1), and no more than is missing leaves (M17)";
}

TEST(PressureController, ExpectedGrowthEvictsNothing) {
  Fixture f;
  for (unsigned n = 0; n < 16; ++n) ASSERT_TRUE(f.put(n));  // 64 MiB
  f.others(120_MiB);  // 56 more at once: as many again are expected, and would cost 32
  f.tick();
  EXPECT_EQ(f.keeper().given_back, 0_B);
  EXPECT_EQ(f.stats().budget, 120_MiB);
  f.calm(5s);
  f.machine->silent = true;
  f.calm(100s);
  EXPECT_EQ(f.keeper().trust, GaugeTrust::kStale);
  EXPECT_EQ(f.stats().used, 64_MiB) << "blind, but nothing was growing";
}

TEST(PressureController, EvictsTheLeastWorthOfAllCaches) {
  for (const bool images_are_dear : {false, true}) {
    Fixture f;
    for (unsigned n = 0; n < 12; ++n) {
      ASSERT_TRUE(f.put(n, 4_MiB, images_are_dear ? 10s : 1ms));  // 48 MiB
    }
    for (int n = 1; n <= 16; ++n) ASSERT_TRUE(f.put_kv(n, 256, 100ms));  // 16 MiB
    f.squeeze(208_MiB);
    EXPECT_EQ(f.stats().used, 32_MiB);
    EXPECT_EQ(f.stats().encoder.resident, images_are_dear ? 32_MiB : 16_MiB);
    EXPECT_EQ(f.stats().prefix.resident, images_are_dear ? 0_B : 16_MiB);
  }
}

TEST(PressureController, PinnedEntriesStayAndOthersAreEvicted) {
  Fixture f;
  const auto held =
      f.reuse->encoder().get_or_encode(key(7), Modality::kImage, []() -> Result<EncoderOutput> {
        return EncoderOutput{{.dtype = DType::kF32,
                              .shape = Shape{std::uint64_t{1} << 18U, 16},
                              .bytes = std::vector<std::byte>(16U << 20U, std::byte{7})}};
      });
  for (int n = 1; n <= 16; ++n) ASSERT_TRUE(f.put_kv(n, 256));
  f.squeeze(256_MiB - 16_MiB);
  EXPECT_EQ(f.stats().used, 16_MiB);
  EXPECT_EQ(f.stats().prefix.resident, 0_B);
  ASSERT_TRUE(f.holds(7));
  EXPECT_EQ(held->tensors()[0].bytes().back(), std::byte{7});
  f.calm(60s);
  EXPECT_EQ(f.keeper().mode, PressureMode::kEmergency) << "held bytes are no headroom";
}

TEST(PressureController, ShrinksAtOnceGrowsSlowlyAndNeverWithoutAGauge) {
  Fixture f;
  f.squeeze(240_MiB);
  ASSERT_EQ(f.stats().budget, 0_B);
  f.others(64_MiB);
  f.calm(2s);
  const Bytes budget = f.stats().budget;
  EXPECT_GT(budget, 1_MiB);
  EXPECT_LT(budget, 20_MiB) << "5 % of what we could take a second";
  f.machine->silent = true;
  f.calm(100s);
  EXPECT_LE(f.stats().budget, budget);
}

TEST(PressureController, ReturnsFreedMemoryToTheSystemWhileMemoryIsShort) {
  static int returned;
  returned = 0;
  Fixture f(128_MiB, {.governor = {}, .own_thread = false, .return_memory = [] { ++returned; }});
  f.calm(10s);
  EXPECT_EQ(returned, 0) << "who has plenty keeps it for later";
  ASSERT_TRUE(f.put(1));
  f.squeeze(256_MiB);
  ASSERT_EQ(f.stats().used, 0_B);
  const int by_then = returned;
  EXPECT_GE(by_then, 1);
  for (int i = 0; i < 100; ++i) f.tick(50ms);  // nothing is left to evict
  EXPECT_NEAR(returned - by_then, 20, 1) << "four times a second, not at every tick";
  f.others(64_MiB);
  f.calm(60s);
  const int in_calm = returned;
  f.calm(10s);
  EXPECT_EQ(returned, in_calm);
}

// V6: a floor of entries held twenty times the budget.
TEST(PressureController, AFloorYieldsToTheBudget) {
  ManualClock clock;
  MemoryBudget budget(8_MiB);
  EncoderCacheOptions options;
  options.min_entries = EntryCount(100);
  const auto cache = EncoderCache::create(std::move(options), budget).value();
  EncodeOnce front(*cache, clock);
  const auto machine = std::make_shared<Machine>();
  const PressureOptions pressure{
      .gauge = machine, .governor = {.reserve = 1_MiB}, .own_thread = false};
  SharedBudget caches(budget);
  caches.join(*cache);
  const auto keeper = PressureController::create(pressure, caches, clock).value();
  for (unsigned n = 0; n < 8; ++n) {
    static_cast<void>(front.get_or_encode(key(n), Modality::kImage, []() -> Result<EncoderOutput> {
      return EncoderOutput{{.dtype = DType::kF32,
                            .shape = Shape{1U << 14U, 16},
                            .bytes = std::vector<std::byte>(1U << 20U)}};
    }));
  }
  ASSERT_EQ(budget.used(), 8_MiB);
  machine->external = (256_MiB).value();  // full, with us or without
  for (int i = 0; i < 20; ++i) {
    clock.advance(50ms);
    keeper->tick();
  }
  EXPECT_EQ(budget.used(), 0_B);
}

TEST(PressureController, m12_blocked_admission_opens_again_in_calm) {
  Fixture f;
  ASSERT_TRUE(f.put(1));
  f.others(256_MiB - 4_MiB);
  EXPECT_FALSE(f.tick().admits);
  EXPECT_FALSE(f.put(2)) << "served uncached";
  EXPECT_FALSE(f.put_kv(1, 256));
  EXPECT_EQ(f.stats().encodes.blocked, 1U);
  EXPECT_EQ(f.stats().prefix.blocked, 1U);
  f.others(64_MiB);
  f.calm(60s);
  EXPECT_EQ(f.keeper().mode, PressureMode::kRelaxed);
  EXPECT_TRUE(f.put(2));
  EXPECT_TRUE(f.put_kv(1, 256));
  EXPECT_EQ(f.stats().budget, 128_MiB);
}

// M11: in an emergency even an overwrite by something smaller was refused.
TEST(PressureController, m11_hits_and_erasures_work_while_admission_is_blocked) {
  Fixture f;
  ASSERT_TRUE(f.put(1));
  ASSERT_TRUE(f.put(2));
  const GovernorActions actions = f.tick(50ms, 150_MiB);
  ASSERT_FALSE(actions.admits) << "an allocation has failed";
  EXPECT_TRUE(f.put(1)) << "a hit";
  EXPECT_TRUE(f.reuse->encoder().cache().erase(key(2)));
  EXPECT_EQ(f.reuse->encoder().cache().evict_bytes(1_B), 4_MiB);
  EXPECT_EQ(f.stats().used, 0_B);
}

TEST(PressureController, AFailedAllocationFreesMemoryBeforeTheCallReturns) {
  Fixture f;
  for (unsigned n = 0; n < 32; ++n) ASSERT_TRUE(f.put(n));  // 128 MiB, others 64
  f.tick(50ms, 128_MiB);
  EXPECT_LE(f.stats().used + 64_MiB + 128_MiB, 256_MiB);
  EXPECT_GE(f.stats().used, 256_MiB - 64_MiB - 128_MiB - 16_MiB - 4_MiB) << "and the reserve";
}

TEST(PressureController, ABrokenGaugeLetsNothingGrow) {
  const struct {
    const char* name;
    std::function<void(Machine&)> breaks;
    GaugeTrust trust;
  } kCases[] = {
      {"silent", [](Machine& m) { m.silent = true; }, GaugeTrust::kStale},
      {"frozen", [](Machine& m) { m.frozen = true; }, GaugeTrust::kFrozen},
      {"shows less than we hold",
       [](Machine& m) {
         m.frozen = true;
         m.shown = 1_MiB;
       },
       GaugeTrust::kDisagrees},
  };
  for (const auto& c : kCases) {
    Fixture f(512_MiB);
    for (unsigned n = 0; n < 10; ++n) ASSERT_TRUE(f.put(n, 16_MiB));
    f.others(704_MiB);
    f.calm(5s);
    const Bytes before = f.stats().budget;
    ASSERT_EQ(before, 256_MiB);
    c.breaks(*f.machine);
    f.others(0_B);  // nobody sees it
    for (unsigned n = 10; n < 15; ++n) ASSERT_TRUE(f.put(n, 16_MiB)) << c.name;
    for (int i = 0; i < 200; ++i) {
      f.tick(i < 4 ? 60ms : 500ms);
      ASSERT_LE(f.stats().budget, before) << c.name << ", tick " << i;
    }
    EXPECT_EQ(f.keeper().trust, c.trust) << c.name;
    EXPECT_GT(f.keeper().ticks, 200U);
    EXPECT_EQ(f.stats().used, 240_MiB) << c.name << ": nobody pays for a broken gauge";
    f.machine->silent = f.machine->frozen = false;
    f.calm(60s);
    EXPECT_EQ(f.stats().budget, 512_MiB) << c.name << ": and it grows again";
  }
}

TEST(PressureController, UsesHalfTheBudgetUntilAGaugeWasRead) {
  const auto machine = std::make_shared<Machine>();
  machine->silent = true;
  const ManualClock clock;
  PressureOptions pressure{.gauge = machine, .governor = {.reserve = 1_MiB}, .own_thread = false};
  const auto reuse = Reuse::create({.budget = 512_MiB, .pressure = pressure}, {}, clock).value();
  EXPECT_EQ(reuse->stats().budget, 256_MiB);
  EXPECT_EQ(reuse->pressure()->stats().failed_readings, 1U);
  pressure.governor.reserve = 0_B;  // to be measured
  const auto refused = Reuse::create({.budget = 512_MiB, .pressure = pressure}, {}, clock);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
}

// M13: the sensor was read in the loop that served requests, and forked a program for it.
TEST(PressureController, m13_a_hanging_gauge_delays_no_request) {
  Fixture f;
  ASSERT_TRUE(f.put(1));
  f.machine->hangs = true;
  std::jthread watcher([&] { f.reuse->pressure()->tick(); });
  while (!f.machine->hung) std::this_thread::yield();
  EXPECT_TRUE(f.put(1));
  EXPECT_TRUE(f.put(2));
  EXPECT_EQ(f.keeper().ticks, 1U) << "the first";
  EXPECT_EQ(f.stats().used, 8_MiB);
  f.clock.advance(10s);
  f.machine->hangs = false;
  watcher.join();
  EXPECT_EQ(f.keeper().trust, GaugeTrust::kStale) << "what it says at last is of long ago";
}

// M14: every look at an entry, by anybody, counted as its use.
TEST(PressureController, m14_reading_statistics_is_not_a_use) {
  Fixture f;
  for (unsigned n = 0; n < 16; ++n) ASSERT_TRUE(f.put(n));
  ASSERT_TRUE(f.put_kv(1, 256) && f.put_kv(2, 256));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(f.reuse->encoder().cache().info(key(0))->access_count, 0U);
    static_cast<void>(
        f.reuse->prefix()->cache().explain(testing::space(1), testing::text_of(256, 1)));
    static_cast<void>(f.stats());
  }
  EXPECT_EQ(f.stats().prefix.hits, 0U);
  f.reuse->encoder().cache().evict_bytes(1_B);
  EXPECT_FALSE(f.holds(0)) << "still the oldest";
  f.reuse->prefix()->cache().evict_bytes(1_B);
  const auto length = [&](int seed) {
    return f.reuse->prefix()
        ->cache()
        .explain(testing::space(1), testing::text_of(256, seed))
        ->matched;
  };
  EXPECT_EQ(length(1), TokenCount(0));
  EXPECT_EQ(length(2), TokenCount(256));
}

// M19: evictions were counted only when somebody evicted by hand, and the gauges were never set.
TEST(PressureController, m19_counts_evictions_under_pressure_and_reports_the_mode) {
  Fixture f;
  for (unsigned n = 0; n < 16; ++n) ASSERT_TRUE(f.put(n));
  f.squeeze(256_MiB - 24_MiB);
  const ReuseStats stats = f.stats();
  EXPECT_EQ(stats.encoder.evictions, 14U);
  EXPECT_EQ(stats.governed->given_back, Bytes(14 * (4_MiB).value()));
  EXPECT_EQ(stats.governed->budget, 8_MiB);
  EXPECT_EQ(stats.governed->lowest_budget, 8_MiB);
  EXPECT_EQ(stats.governed->external, 256_MiB - 24_MiB);
  EXPECT_EQ(to_string(stats.governed->mode), "emergency");
  EXPECT_GE(stats.governed->transitions, 1U);
  EXPECT_GE(stats.governed->blocked_ticks, 1U);
  EXPECT_LE(stats.governed->blocked_ticks, 10U) << "of eleven";
  ASSERT_GE(stats.governed->releases.size(), 1U);
  EXPECT_EQ(stats.governed->releases.back().left, 8_MiB);
}

// Q9: stability was reported of a pool of two blocks that there was not.
TEST(PressureController, q9_reports_the_memory_that_the_gauge_read) {
  Fixture f;
  EXPECT_EQ(f.keeper().memory, 256_MiB);
  EXPECT_EQ(f.keeper().gauge, "machine");
  const auto machine = std::make_shared<Machine>();
  machine->silent = true;
  const PressureOptions pressure{
      .gauge = machine, .governor = {.reserve = 1_MiB}, .own_thread = false};
  const auto blind = Reuse::create({.budget = 1_GiB, .pressure = pressure}, {}, f.clock)
                         .value()
                         ->pressure()
                         ->stats();
  EXPECT_EQ(blind.memory, 0_B) << "never read: unknown";
  EXPECT_EQ(blind.trust, GaugeTrust::kNone);
}

TEST(PressureControllerProperty, TheBudgetHoldsWhateverOtherProcessesDo) {
  for_each_seed(10, [](Rng& rng) {
    Fixture f(32_MiB);
    std::vector<std::pair<unsigned, Embeddings>> held;
    for (int i = 0; i < 120; ++i) {
      const auto n = static_cast<unsigned>(rng.below(60));
      switch (rng.below(8)) {
        case 0:
          f.others(Bytes(rng.below((64_MiB).value())));
          break;
        case 1:
          f.machine->silent = rng.chance(0.3);
          break;
        case 2: {
          const Bytes before = f.stats().used;
          f.tick(Duration(static_cast<Duration::rep>(rng.below(400'000'000))),
                 rng.chance(0.1) ? 4_MiB : 0_B);
          ASSERT_LE(f.stats().used, held.empty() ? f.stats().budget : before);
          break;
        }
        case 3:
          if (held.size() > 6 || rng.chance(0.3)) held.clear();
          break;
        case 4:
          static_cast<void>(f.put_kv(static_cast<int>(n) + 1, 64 * (1 + n % 8)));
          break;
        default: {
          const bool kept = f.put(n, Bytes((64_KiB).value() * (1 + n % 16)));
          if (!kept || !rng.chance(0.2)) break;
          auto claim = f.reuse->encoder().claim(key(n));
          if (auto* found = std::get_if<Embeddings>(&claim))
            held.emplace_back(n, std::move(*found));
        }
      }
      ASSERT_LE(f.stats().budget, 32_MiB);
      for (const auto& [name, embeddings] : held) {
        ASSERT_TRUE(f.holds(name)) << "what is in use stays";
        const auto bytes = embeddings.tensors()[0].bytes();
        ASSERT_EQ(bytes.front(), static_cast<std::byte>(name));
        ASSERT_EQ(bytes.back(), static_cast<std::byte>(name));
      }
    }
    ASSERT_LE(f.stats().peak, 32_MiB);
    held.clear();
    f.machine->silent = false;
    f.others(8_MiB);
    f.calm(200s);
    EXPECT_EQ(f.keeper().mode, PressureMode::kRelaxed);
    EXPECT_EQ(f.stats().budget, 32_MiB);
    EXPECT_TRUE(f.put(1000));
  });
}

TEST(PressureController, GovernsFromItsOwnThreadWhileOthersServe) {
  PressureOptions pressure{.own_thread = true};
  pressure.governor.tick = 1ms;
  pressure.governor.busy_tick = 1ms;
  Fixture f(8_MiB, pressure);
  std::atomic<bool> done{false};
  std::vector<std::jthread> requests;
  for (unsigned t = 0; t < 3; ++t) {
    requests.emplace_back([&, t] {
      for (unsigned i = 0; !done; ++i) {
        f.put(i * 7 % 50 + t, Bytes((64_KiB).value() * (1 + (i * 7 % 50 + t) % 5)));
        static_cast<void>(f.put_kv(static_cast<int>(1 + i % 9), 64));
        static_cast<void>(f.stats());
      }
    });
  }
  while (f.stats().used < 6_MiB) std::this_thread::yield();
  for (const Bytes external : {12_MiB, 16_MiB, 2_MiB, 14_MiB}) {
    f.others(external);
    for (const auto from = f.keeper().ticks; f.keeper().ticks < from + 20;) {
      f.clock.advance(10ms);
      std::this_thread::yield();
    }
  }
  done = true;
  requests.clear();
  f.tick();
  EXPECT_LE(f.stats().used, f.stats().budget);
  EXPECT_GT(f.keeper().given_back, 0_B);
}

}  // namespace
}  // namespace afterimage
