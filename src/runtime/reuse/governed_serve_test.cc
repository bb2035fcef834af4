// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Memory may come and go, between requests and in the middle of them: answers stay what they are.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "afterimage/reuse_stats.h"
#include "afterimage/serve.h"
#include "afterimage/tier.h"
#include "engines/reference/reference_engine.h"
#include "testing/forwarding_engine.h"
#include "testing/media_files.h"
#include "testing/seeds.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

constexpr Bytes kMemory = 64_MiB;

/// Others hold what the test says, or a gauge that is out of order.
struct Neighbours final : PressureGauge {
  [[nodiscard]] std::string_view name() const override { return "neighbours"; }
  Result<GaugeReading> read() override {
    if (silent) return fail(ErrorCode::kUnavailable, "off");
    const Reuse* us = ours;
    const Bytes held = us == nullptr ? 0_B : us->stats().used;
    return GaugeReading{.total = kMemory, .used = std::min(Bytes(external.load()) + held, kMemory)};
  }
  std::atomic<const Reuse*> ours{nullptr};
  std::atomic<Bytes::rep> external{0};
  std::atomic<bool> silent{false};
};

/// Calls back before it encodes and before it generates: the middle of a request.
class InterruptedEngine final : public testing::ForwardingEngine {
 public:
  InterruptedEngine(const Engine& good, std::function<void()> interrupt)
      : ForwardingEngine(good), interrupt_(std::move(interrupt)) {}
  Result<EncoderOutput> encode(const MediaItem& item) const override {
    interrupt_();
    return ForwardingEngine::encode(item);
  }

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    interrupt_();
    return ForwardingEngine::run(prompt, embeddings, options, use);
  }

 private:
  std::function<void()> interrupt_;
};

/// A few conversations about a few pictures, and what an engine alone answers to them.
struct Conversations {
  Conversations() {
    for (std::uint32_t i = 0; i < 12; ++i) {
      Request request{.id = RequestId("r" + std::to_string(i))};
      request.messages.push_back({.role = Role::kSystem, .parts = {std::string("Look closely.")}});
      for (std::uint32_t turn = 0; turn <= i % 3; ++turn) {
        const std::uint32_t picture = 1 + (i + turn) % 5;
        request.messages.push_back(
            {.role = Role::kUser,
             .parts = {
                 testing::media_item(Modality::kImage,
                                     testing::make_png(testing::make_picture(40, 30, picture))),
                 std::string("What is it?")}});
        if (turn < i % 3) {
          request.messages.push_back(
              {.role = Role::kAssistant, .parts = {std::string("A picture.")}});
        }
      }
      alone.push_back(serve_without_reuse(request, *engine, clock, options).value().completion);
      requests.push_back(std::move(request));
    }
  }
  [[nodiscard]] bool same(std::size_t i, const Result<Served>& served) const {
    return served.has_value() && served->completion.tokens == alone[i].tokens &&
           served->completion.logits == alone[i].logits;
  }

  SystemClock clock;
  std::unique_ptr<ReferenceEngine> engine = testing::tiny_engine(clock);
  GenerateOptions options{.max_tokens = TokenCount(3)};
  std::vector<Request> requests;
  std::vector<Completion> alone;
};

struct Governed {
  explicit Governed(const Clock& clock, bool own_thread = false) {
    PressureOptions pressure{
        .gauge = gauge, .governor = {.reserve = 1_MiB}, .own_thread = own_thread};
    pressure.governor.tick = pressure.governor.busy_tick = 1ms;
    reuse = Reuse::create({.budget = 32_MiB, .pressure = pressure}, Secret{}, clock).value();
    gauge->ours = reuse.get();
  }
  std::shared_ptr<Neighbours> gauge = std::make_shared<Neighbours>();
  std::unique_ptr<Reuse> reuse;
};

TEST(GovernedServeProperty, AnswersStayTheSameUnderAnyPressure) {
  const Conversations all;
  std::uint64_t hits = 0;
  Bytes given_back;
  for_each_seed(10, [&](Rng& rng) {
    ManualClock clock;
    Governed governed(clock);
    const auto disturb = [&] {
      if (rng.chance(0.5)) return;
      // From plenty to nothing, often in the range where what is cached decides.
      const Bytes left = rng.chance(0.3) ? 48_MiB : Bytes(rng.below((2_MiB).value()));
      governed.gauge->external = (kMemory - left).value();
      governed.gauge->silent = rng.chance(0.1);
      clock.advance(Duration(static_cast<Duration::rep>(rng.below(4'000'000'000))));
      governed.reuse->pressure()->tick(rng.chance(0.1) ? 1_MiB : 0_B);
    };
    const InterruptedEngine engine(*all.engine, disturb);
    for (int i = 0; i < 40; ++i) {
      disturb();
      const std::size_t n = rng.below(all.requests.size());
      const auto served = serve(all.requests[n], engine, *governed.reuse, all.options);
      ASSERT_TRUE(all.same(n, served)) << "request " << n << ", step " << i;
      ASSERT_FALSE(served->restore_failed);
      governed.reuse->encoder().cache().check_invariants();
      governed.reuse->prefix()->cache().check_invariants();
    }
    governed.gauge->silent = false;
    clock.advance(50ms);
    governed.reuse->pressure()->tick();
    const ReuseStats stats = governed.reuse->stats();
    ASSERT_LE(stats.used, stats.budget) << "nothing is in use any more";
    ASSERT_LE(stats.peak, 32_MiB);
    hits += stats.prefix.hits + stats.encoder.hits;
    given_back += stats.governed->given_back;
  });
  EXPECT_GT(hits, 0U) << "otherwise nothing was proved";
  EXPECT_GT(given_back, 256_KiB);
}

// KV was read from the disk, refused by the cache, and computed again.
TEST(GovernedServe, InAnEmergencyKvFromATierServesTheRequestThatLoadedIt) {
  MemoryBudget below_budget(64_MiB);
  HostTier below(below_budget);
  ManualClock clock;
  const auto engine = testing::tiny_engine(clock);
  Request request{.id = RequestId("r")};
  request.messages.push_back({.role = Role::kUser, .parts = {std::string(600, 'x')}});
  const GenerateOptions options{.max_tokens = TokenCount(3)};
  const auto alone = serve_without_reuse(request, *engine, clock, options).value().completion;
  const ReuseOptions with_tier{.budget = 32_MiB, .tier = &below, .weigh_loads = false};
  ASSERT_TRUE(serve(request, *engine, *Reuse::create(with_tier, Secret{}, clock).value(), options)
                  .has_value());
  ReuseOptions governed = with_tier;
  const auto gauge = std::make_shared<Neighbours>();
  governed.pressure = {.gauge = gauge, .governor = {.reserve = 1_MiB}, .own_thread = false};
  const auto reuse = Reuse::create(governed, Secret{}, clock).value();
  gauge->ours = reuse.get();
  gauge->external = kMemory.value();
  clock.advance(50ms);
  ASSERT_EQ(reuse->pressure()->tick().mode, PressureMode::kEmergency);
  for (int i = 0; i < 2; ++i) {
    const auto served = serve(request, *engine, *reuse, options);
    ASSERT_TRUE(served.has_value());
    EXPECT_GE(served->completion.resumed_from, TokenCount(512));
    EXPECT_EQ(served->completion.tokens, alone.tokens);
    EXPECT_EQ(served->completion.logits, alone.logits);
    EXPECT_EQ(reuse->stats().prefix.tokens, 0U) << "nothing new is kept";
  }
}

TEST(GovernedServe, ConcurrentRequestsStayRightWhileTheGovernorEvicts) {
  const Conversations all;
  Governed governed(all.clock, /*own_thread=*/true);
  std::atomic<int> wrong{0};
  std::atomic<int> serving{3};
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 1; t <= 3; ++t) {
      threads.emplace_back([&, t] {
        Rng rng(t);
        for (int i = 0; i < 60; ++i) {
          const std::size_t n = rng.below(all.requests.size());
          if (!all.same(n, serve(all.requests[n], *all.engine, *governed.reuse, all.options))) {
            ++wrong;
          }
        }
        --serving;
      });
    }
    Rng rng(9);
    while (serving > 0) {
      const Bytes left = rng.chance(0.3) ? 48_MiB : Bytes(rng.below((2_MiB).value()));
      governed.gauge->external = (kMemory - left).value();
      const auto ticks = governed.reuse->pressure()->stats().ticks;
      while (serving > 0 && governed.reuse->pressure()->stats().ticks < ticks + 2) {
        std::this_thread::yield();
      }
    }
  }
  EXPECT_EQ(wrong, 0);
  governed.reuse->encoder().cache().check_invariants();
  governed.reuse->prefix()->cache().check_invariants();
}

}  // namespace
}  // namespace afterimage
