// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "afterimage/encode_once.h"
#include "afterimage/prefill_once.h"
#include "afterimage/reuse.h"
#include "afterimage/serve.h"
#include "afterimage/tier.h"
#include "engines/reference/reference_engine.h"
#include "testing/media_files.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

/// A real engine with a tier: an evicted prompt is in memory again before the next request.
TEST(Prefetch, WhatAStepUsedIsInMemoryBeforeItComesAgain) {
  MemoryBudget below_budget(64_MiB);
  HostTier below(below_budget);
  ManualClock clock;
  const auto engine = testing::tiny_engine(clock);
  const auto reuse =
      Reuse::create({.budget = 16_MiB, .tier = &below, .weigh_loads = false}, Secret{}, clock)
          .value();
  const auto ask = [&](std::uint32_t picture, const std::string& words) {
    Request request{.id = RequestId("r")};
    request.messages.push_back(
        {.role = Role::kUser,
         .parts = {testing::media_item(Modality::kImage,
                                       testing::make_png(testing::make_picture(40, 30, picture))),
                   std::string(400, 'x') + words}});
    return serve(request, *engine, *reuse, {.max_tokens = TokenCount(2)}).value();
  };
  const Served first = ask(1, "What is it?");
  ASSERT_NE(first.target, nullptr);
  reuse->encoder().cache().clear();
  reuse->prefix()->cache().clear();
  const Prefetched loaded = reuse->prefetch(*first.target, engine->kv_layout()).value();
  EXPECT_GT(loaded.kv_tokens, 128U);
  const std::uint64_t read = below.stats().hits;
  const Served again = ask(1, "What is it?");
  EXPECT_EQ(below.stats().hits, read) << "nothing is read from below any more";
  EXPECT_GE(again.completion.resumed_from.value(), loaded.kv_tokens);
  EXPECT_EQ(again.encoder_calls, 0U);
  EXPECT_EQ(again.completion.logits, first.completion.logits);
  EXPECT_EQ(reuse->prefetch(*first.target, engine->kv_layout()).value().kv_tokens, 0U)
      << "memory has it";
}

}  // namespace
}  // namespace afterimage
