// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/context_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

struct ContextFixture {
  explicit ContextFixture(const ContextCache::Options& options = {}, Bytes capacity = 1_MiB)
      : budget(capacity) {
    cache = ContextCache::create(options, budget, clock).value();
  }
  Result<void> set(std::string_view name, std::string_view text,
                   const ContextCache::Facts& facts = {}) {
    return cache->set(name, std::as_bytes(std::span(text)), facts);
  }
  std::string get(std::string_view name, const WorkflowHint& step = {}) {
    const auto held = cache->get(name, step);
    if (!held.has_value()) return "(nothing)";
    return {reinterpret_cast<const char*>(held->bytes().data()), held->bytes().size()};
  }

  ManualClock clock;
  MemoryBudget budget;
  std::unique_ptr<ContextCache> cache;
};

TEST(ContextCache, GivesBackWhatWasSetUnderAName) {
  ContextFixture f;
  EXPECT_EQ(f.get("agent1"), "(nothing)");
  ASSERT_TRUE(f.set("agent1", "what it knows", {.tokens = 500}).has_value());
  ASSERT_TRUE(f.set("empty", "").has_value());
  EXPECT_EQ(f.get("agent1"), "what it knows");
  EXPECT_EQ(f.get("empty"), "");
  ASSERT_TRUE(f.set("agent1", "something else", {.tokens = 20}).has_value());
  EXPECT_EQ(f.get("agent1"), "something else");
  const EncoderCacheStats stats = f.cache->stats();
  EXPECT_EQ(stats.entries.value(), 2U);
  EXPECT_EQ(stats.tokens, 20U);
  EXPECT_TRUE(f.cache->erase("agent1"));
  EXPECT_FALSE(f.cache->erase("agent1"));
  EXPECT_EQ(f.cache->stats().tokens, 0U);
}

TEST(ContextCache, TheTokenBudgetHolds) {
  ContextFixture f({.max_tokens = 1000, .policy = "lru"});
  ASSERT_TRUE(f.set("a", "a", {.tokens = 400}).has_value());
  ASSERT_TRUE(f.set("b", "b", {.tokens = 400}).has_value());
  EXPECT_EQ(f.get("a"), "a");
  ASSERT_TRUE(f.set("c", "c", {.tokens = 400}).has_value());
  EXPECT_EQ(f.get("b"), "(nothing)") << "used least recently";
  EXPECT_EQ(f.get("a"), "a");
  EXPECT_EQ(f.cache->stats().tokens, 800U);
  EXPECT_EQ(f.set("large", "large", {.tokens = 1001}).error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(f.cache->stats().entries.value(), 2U) << "nothing was evicted in vain";
  ASSERT_TRUE(f.set("a", "a longer one", {.tokens = 600}).has_value());
  EXPECT_EQ(f.cache->stats().tokens, 1000U) << "what it replaces is not counted";
}

TEST(ContextCache, NothingIsAdmittedWhileMemoryIsShort) {
  ContextFixture f;
  ASSERT_TRUE(f.set("before", "b").has_value());
  f.cache->client().block_admission(true);
  EXPECT_EQ(f.set("new", "n").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(f.get("before"), "b");
  f.cache->client().block_admission(false);
  EXPECT_TRUE(f.set("new", "n").has_value());
  EXPECT_EQ(f.cache->stats().blocked, 1U);
}

TEST(ContextCache, TheStepThatComesLastGivesWay) {
  ContextFixture f({.max_entries = EntryCount(2)});
  const auto step = [](std::string name, std::string next) {
    return WorkflowHint{.workflow = "w", .step = std::move(name), .next_steps = {std::move(next)}};
  };
  ASSERT_TRUE(f.set("look", "1", {.step = step("look", "plan")}).has_value());
  ASSERT_TRUE(f.set("plan", "2", {.step = step("plan", "act")}).has_value());
  EXPECT_EQ(f.get("look", step("look", "plan")), "1");  // the workflow begins again: act is far
  ASSERT_TRUE(f.set("act", "3", {.step = step("act", "look")}).has_value());
  EXPECT_EQ(f.get("look"), "1") << "comes next";
  EXPECT_EQ(f.get("plan"), "(nothing)") << "comes after it";
}

}  // namespace
}  // namespace afterimage
