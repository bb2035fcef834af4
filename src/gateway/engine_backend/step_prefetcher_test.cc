// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/step_prefetcher.h"

#include <gtest/gtest.h>

#include <mutex>

namespace afterimage {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<const PrefetchTarget> target_of(TokenId first, std::size_t tokens = 8) {
  const Namespace space =
      Namespace::of({.model = "m", .weights_epoch = "1", .encoder = "e"}, TenantId("t"), Secret{})
          .value();
  auto target = std::make_shared<PrefetchTarget>(
      PrefetchTarget{.prints = {}, .space = space, .root = {}, .prompt = {}});
  target->prompt.tokens.assign(tokens, first);
  return target;
}

/// A prefetcher whose loads are seen.
struct Steps {
  explicit Steps(StepPrefetcher::Options options = {})
      : prefetcher(
            options,
            [this](const PrefetchTarget& target) -> Result<Prefetched> {
              const std::lock_guard lock(mutex);
              loads.push_back(static_cast<int>(target.prompt.tokens.front()));
              return Prefetched{.kv_tokens = found, .encoder_outputs = 0};
            },
            clock) {}
  /// A whole step; `next` as the client says.
  void take(const std::string& step, const std::vector<std::string>& next = {},
            const std::string& tenant = "t") {
    const ClientStep name{.tenant = tenant, .workflow = "w", .step = step};
    prefetcher.begins(name);
    prefetcher.ends(name, next, target_of(static_cast<TokenId>(step.back())));
  }
  std::vector<int> seen() {
    prefetcher.await_loads();
    const std::lock_guard lock(mutex);
    return loads;
  }

  ManualClock clock;
  std::mutex mutex;
  std::vector<int> loads;
  std::uint64_t found = 5;    // what a load finds
  StepPrefetcher prefetcher;  // last: its thread uses the others
};

TEST(StepPrefetcher, LoadsWhatTheClientSaysComesNext) {
  Steps f;
  f.take("b");
  f.take("a", {"b", "unknown"});
  f.prefetcher.await_loads();
  EXPECT_EQ(f.seen(), std::vector<int>{'b'});
  f.take("b");
  EXPECT_EQ(f.prefetcher.counts().useful, 1U);
}

TEST(StepPrefetcher, ListsTheStepsThatWereUsedLast) {
  Steps f;
  for (const char* step : {"a", "b", "a", "b"}) f.take(step);
  f.take("c", {"a"});
  f.prefetcher.await_loads();
  const std::vector<SeenStep> seen = f.prefetcher.steps(2);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].step, "c");
  EXPECT_EQ(seen[1].step, "b");
  EXPECT_EQ(seen[1].requests, 2U);
  EXPECT_EQ(seen[1].prompt_tokens, 8U);
  EXPECT_EQ(seen[1].followed_by,
            (std::vector<std::pair<std::string, std::uint32_t>>{{"a", 1}, {"c", 1}}));
  EXPECT_FALSE(seen[1].loaded);
  EXPECT_TRUE(f.prefetcher.steps(3)[2].loaded) << "the client said that it comes next";
}

TEST(StepPrefetcher, LearnsWhatMostlyFollows) {
  Steps f;
  for (int round = 0; round < 2; ++round) {
    f.take("a");
    f.take("b");
  }
  EXPECT_EQ(f.seen(), std::vector<int>()) << "once is not a habit";
  f.take("a");  // the third time: b has followed twice
  f.prefetcher.await_loads();
  EXPECT_EQ(f.seen(), std::vector<int>{'b'});
}

TEST(StepPrefetcher, OtherTenantsAndWorkflowsAreOthers) {
  Steps f;
  f.take("b", {}, "other");
  f.take("a", {"b"});
  f.prefetcher.begins({.tenant = "t", .workflow = "other", .step = "b"});
  EXPECT_EQ(f.seen(), std::vector<int>());
}

TEST(StepPrefetcher, AStepIsLoadedOnceUntilItComes) {
  Steps f;
  f.take("b");
  for (int i = 0; i < 5; ++i) {
    f.prefetcher.ends({.tenant = "t", .workflow = "w", .step = "a"}, {"b"},
                      target_of(TokenId('a')));
    f.prefetcher.await_loads();
  }
  EXPECT_EQ(f.seen().size(), 1U);
}

TEST(StepPrefetcher, WrongHintsAreSoonIgnored) {
  Steps f;
  f.take("b");
  f.take("c");
  f.take("c", {}, "honest");
  for (int i = 0; i < 200; ++i) {
    f.take("a", {"b"});
    f.prefetcher.await_loads();
    f.clock.advance(1h);
  }
  const PrefetchCounts wrong = f.prefetcher.counts();
  EXPECT_EQ(wrong.useful, 0U);
  EXPECT_LT(f.seen().size(), 40U) << "eight, then one in eight";
  EXPECT_GT(wrong.declined, 150U);
  f.take("a", {"c"}, "honest");
  f.prefetcher.await_loads();
  EXPECT_EQ(f.seen().back(), 'c') << "another tenant's hints are taken";
  // Right hints are believed again.
  for (int i = 0; i < 60; ++i) {
    f.take("b");
    f.take("a", {"b"});
    f.prefetcher.await_loads();
  }
  const PrefetchCounts before = f.prefetcher.counts();
  for (int i = 0; i < 8; ++i) {
    f.take("b");
    f.take("a", {"b"});
    f.prefetcher.await_loads();
  }
  EXPECT_EQ(f.prefetcher.counts().declined, before.declined);
}

TEST(StepPrefetcher, AStepThatComesLaterThanTheNextWasNotWorthIt) {
  Steps f;
  f.take("b");
  f.take("c");
  f.take("a", {"b"});
  f.prefetcher.await_loads();
  f.take("c");
  EXPECT_EQ(f.prefetcher.counts().useless, 1U);
  f.take("b");
  EXPECT_EQ(f.prefetcher.counts().useful, 0U);
}

TEST(StepPrefetcher, WhatLoadsNothingIsNotJudged) {
  Steps f;
  f.found = 0;
  f.take("b");
  for (int i = 0; i < 20; ++i) {
    f.take("a", {"b"});
    f.prefetcher.await_loads();
    f.clock.advance(1h);
  }
  EXPECT_EQ(f.prefetcher.counts().declined, 0U);
}

TEST(StepPrefetcher, ClientsThatInventStepsGrowNothing) {
  Steps f({.steps = 8, .tokens = 100});
  f.take("a");
  for (int i = 0; i < 1000; ++i) f.take("step" + std::to_string(i));
  f.take("z", {"step1", "step999"});
  f.prefetcher.await_loads();
  EXPECT_LE(f.seen().size(), 1U) << "the first is forgotten";
  f.prefetcher.ends({.tenant = "t", .workflow = "w", .step = "long"}, {},
                    target_of(TokenId(1), 101));
  f.take("y", {"long", "z"});
  f.prefetcher.await_loads();
  EXPECT_EQ(std::ranges::count(f.seen(), 1), 0) << "too long to be remembered";
}

}  // namespace
}  // namespace afterimage
