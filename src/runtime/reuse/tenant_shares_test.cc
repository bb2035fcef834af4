// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Tenants' shares and idle limits over encoder outputs, KV and answers of real requests.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "afterimage/reuse.h"
#include "afterimage/reuse_stats.h"
#include "afterimage/serve.h"
#include "afterimage/tier.h"
#include "engines/reference/reference_engine.h"
#include "runtime/reuse/plan.h"
#include "testing/media_files.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

/// Requests of tenants about pictures, under a budget of a few of them.
struct Tenants {
  explicit Tenants(ReuseOptions options) {
    options.answers = AnswerReuse();
    reuse = Reuse::create(options, Secret{}, clock).value();
  }
  /// Whether the picture was encoded for it.
  bool ask(const std::string& tenant, std::uint32_t picture, const std::string& words = "What?",
           WorkflowHint hint = {}) {
    Request request{.id = RequestId("r"), .tenant = TenantId(tenant)};
    request.hints.workflow = std::move(hint);
    request.messages.push_back(
        {.role = Role::kUser,
         .parts = {testing::media_item(Modality::kImage,
                                       testing::make_png(testing::make_picture(40, 30, picture))),
                   words}});
    const auto served = serve(request, *engine, *reuse, {.max_tokens = TokenCount(2)});
    EXPECT_TRUE(served.has_value());
    clock.advance(1s);
    return served.has_value() && served->encoder_calls > 0;
  }
  [[nodiscard]] Bytes used_by(const std::string& tenant) const {
    for (const TenantMemory& memory : reuse->stats().shares) {
      if (memory.tenant == tenant) return memory.used;
    }
    return 0_B;
  }

  ManualClock clock;
  std::unique_ptr<ReferenceEngine> engine = testing::tiny_engine(clock);
  std::unique_ptr<Reuse> reuse;
};

Bytes times(Bytes bytes, std::uint64_t factor) { return Bytes(bytes.value() * factor); }

/// Bytes of the entries that one request adds.
Bytes of_one_request() {
  Tenants alone({.budget = 64_MiB, .shares = {{.tenant = "calm", .fraction = 0.5}}});
  alone.ask("calm", 1);
  EXPECT_GT(alone.used_by("calm"), 0_B);
  EXPECT_EQ(alone.used_by(""), 0_B);
  return alone.used_by("calm");
}

TEST(TenantShares, AFloodTakesNothingOfAnothersShare) {
  const Bytes one = of_one_request();
  for (const std::string policy : {"worth", "lru"}) {
    // The calm tenant asks about three pictures, whose entries fit into its half.
    Tenants f({.budget = times(one, 10),
               .shares = {{.tenant = "calm", .fraction = 0.5}},
               .policy = policy});
    for (std::uint32_t round = 0; round < 4; ++round) {
      for (std::uint32_t picture = 1; picture <= 3; ++picture) {
        EXPECT_EQ(f.ask("calm", picture, "Round " + std::to_string(round)), round == 0) << policy;
      }
      for (std::uint32_t picture = 100; picture < 115; ++picture) {
        EXPECT_TRUE(f.ask("flood", 1000 * round + picture)) << policy;
      }
    }
    EXPECT_GT(f.used_by(""), times(one, 2)) << "the flood has the rest";
    EXPECT_LE(f.reuse->stats().peak, times(one, 10));
  }
}

TEST(TenantShares, WithoutSharesTheFloodTakesAll) {
  Tenants f({.budget = times(of_one_request(), 10), .policy = "lru"});
  EXPECT_TRUE(f.ask("calm", 1));
  for (std::uint32_t picture = 100; picture < 180; ++picture) f.ask("flood", picture);
  EXPECT_TRUE(f.ask("calm", 1, "Again?"));
}

TEST(TenantShares, AShareThatIsNotUsedServesOthersUntilItIsWanted) {
  const Bytes one = of_one_request();
  Tenants f({.budget = times(one, 10), .shares = {{.tenant = "calm", .fraction = 0.5}}});
  for (std::uint32_t picture = 100; picture < 120; ++picture) f.ask("flood", picture);
  EXPECT_GT(f.used_by(""), times(one, 6)) << "beyond its own half";
  for (std::uint32_t picture = 1; picture <= 4; ++picture) f.ask("calm", picture);
  for (std::uint32_t picture = 1; picture <= 4; ++picture) {
    EXPECT_FALSE(f.ask("calm", picture, "Again?")) << "it got its share back";
  }
}

// Without hints the picture that was used longest ago leaves, with them that of the step which never comes
// again. Hints of one tenant say nothing of another's entries.
TEST(Workflows, TheStepThatComesLastGivesWay) {
  const auto hint = [](std::string step, std::string next) {
    return WorkflowHint{.workflow = "w", .step = std::move(step), .next_steps = {std::move(next)}};
  };
  ReuseOptions options{.budget = 64_MiB, .policy = "lru", .prefixes = false};
  Tenants alone(options);
  alone.ask("t", 1);
  options.budget = Bytes(alone.reuse->stats().used.value() * 7 / 2);
  for (const std::string hinting : {"nobody", "t", "another"}) {
    Tenants f(options);
    const auto said = [&](const WorkflowHint& it) { return hinting == "t" ? it : WorkflowHint(); };
    f.ask("t", 1, "Act", said(hint("act", "plan")));
    f.ask("t", 2, "Plan", said(hint("plan", "act")));
    f.ask("t", 3, "Act", said(hint("act", "act")));
    if (hinting == "another") f.ask("another", 3, "Act", hint("act", "act"));
    f.ask("u", 4);
    EXPECT_EQ(f.ask("t", 1, "Again?"), hinting != "t") << hinting;
    if (hinting == "t") EXPECT_TRUE(f.ask("t", 2, "Again?"));
  }
}

/// A gauge that shows a calm machine.
struct Calm final : PressureGauge {
  [[nodiscard]] std::string_view name() const override { return "calm"; }
  Result<GaugeReading> read() override { return GaugeReading{.total = 1_GiB, .used = used}; }
  Bytes used;
};

TEST(IdleLimits, WhatNobodyUsedForSoLongLeavesMemoryAndStaysBelow) {
  MemoryBudget below_budget(64_MiB);
  HostTier below(below_budget);
  const auto gauge = std::make_shared<Calm>();
  PressureOptions pressure{.gauge = gauge, .governor = {.reserve = 1_MiB}, .own_thread = false};
  pressure.governor.idle.relaxed = 60s;
  Tenants f({.budget = 16_MiB, .tier = &below, .weigh_loads = false, .pressure = pressure});
  EXPECT_TRUE(f.ask("t", 1));
  f.clock.advance(40s);
  EXPECT_TRUE(f.ask("t", 2));
  const Bytes both = f.reuse->stats().used;
  f.reuse->pressure()->tick();
  EXPECT_EQ(f.reuse->stats().used, both) << "nothing is idle for a minute yet";
  f.clock.advance(30s);
  f.reuse->pressure()->tick();
  const ReuseStats after = f.reuse->stats();
  EXPECT_LT(after.used, both);
  EXPECT_EQ(after.encoder.entries, EntryCount(1));
  EXPECT_EQ(after.answers.entries, EntryCount(1));
  EXPECT_EQ(after.prefix.sequences, EntryCount(1));
  EXPECT_EQ(after.governed->idle, both - after.used);
  EXPECT_FALSE(f.ask("t", 1, "Again?")) << "the tier below has it";
  f.clock.advance(1h);
  f.reuse->pressure()->tick();
  EXPECT_EQ(f.reuse->stats().used, 0_B);
}

// M6: the original VRAMAwareCache set a flag in critical modes, moved nothing and freed nothing.
TEST(IdleLimits, m6_critical_modes_offload_what_is_idle) {
  for (const bool critical : {false, true}) {
    MemoryBudget below_budget(64_MiB);
    HostTier below(below_budget);
    const auto gauge = std::make_shared<Calm>();
    PressureOptions pressure{.gauge = gauge, .governor = {.reserve = 1_MiB}, .own_thread = false};
    pressure.governor.idle.offload = 30s;
    pressure.governor.modes = kSeedModes;
    Tenants f({.budget = 16_MiB, .tier = &below, .weigh_loads = false, .pressure = pressure});
    EXPECT_TRUE(f.ask("t", 1));
    f.clock.advance(31s);
    gauge->used = critical ? 960_MiB : 512_MiB;  // of 1024: 93 %, and enough for us
    f.reuse->pressure()->tick();
    EXPECT_EQ(f.reuse->pressure()->stats().mode,
              critical ? PressureMode::kCritical : PressureMode::kRelaxed);
    EXPECT_EQ(f.reuse->stats().used == 0_B, critical);
    EXPECT_FALSE(f.ask("t", 1, "Again?")) << "it comes back from below";
  }
}

TEST(IdleLimits, NoneWithoutALimit) {
  const auto gauge = std::make_shared<Calm>();
  Tenants f({.budget = 16_MiB,
             .pressure = {.gauge = gauge, .governor = {.reserve = 1_MiB}, .own_thread = false}});
  EXPECT_TRUE(f.ask("t", 1));
  f.clock.advance(1h);
  f.reuse->pressure()->tick();
  EXPECT_FALSE(f.ask("t", 1, "Again?"));
}

}  // namespace
}  // namespace afterimage
