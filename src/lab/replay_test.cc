// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/lab/replay.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "afterimage/testing/seeds.h"

namespace afterimage {
namespace {

/// Requests of whole blocks of ten tokens, one a second.
Trace chains(const std::vector<std::vector<std::uint32_t>>& rows, std::uint32_t distinct) {
  Trace trace{.block_tokens = 10, .distinct_blocks = distinct};
  for (const auto& row : rows) {
    trace.requests.push_back({.at = std::chrono::seconds(trace.requests.size()),
                              .input_tokens = static_cast<std::uint32_t>(10 * row.size()),
                              .blocks = row});
  }
  return trace;
}

ReplayResult one(const Trace& trace, const std::string& policy, std::uint64_t blocks,
                 ReplayOptions options = {}) {
  options.policies = {policy};
  options.capacities = {{.name = "c", .blocks = blocks}};
  return replay(trace, options, ManualClock()).value().at(0);
}

TEST(Replay, OnlyTheLeadingResidentBlocksAreHits) {
  const Trace trace = chains({{0, 1, 2}, {0, 1, 3}, {0, 1, 2}}, 4);
  const ReplayResult result = one(trace, "infinite", 1);
  EXPECT_EQ(result.hits, 0U + 2 + 3);
  EXPECT_EQ(result.misses, 3U + 1);
  EXPECT_DOUBLE_EQ(result.token_hit_ratio, 50.0 / 90);
  EXPECT_EQ(result.evictions, 0U);
}

TEST(Replay, LruLetsTheDeepestBlockOfTheOldestRequestGoFirst) {
  // Three places: the second request pushes out 1, the tail of the first, and keeps 0, its root.
  const Trace trace = chains({{0, 1}, {2, 3}, {0, 1}}, 4);
  const ReplayResult result = one(trace, "lru", 3);
  EXPECT_EQ(result.hits, 1U);
  EXPECT_EQ(result.evictions, 2U);
}

TEST(Replay, MinKeepsWhatComesBack) {
  const Trace trace = chains({{0, 1}, {2, 3}, {4, 5}, {0, 1}}, 6);
  EXPECT_EQ(one(trace, "min", 2).hits, 2U);
  EXPECT_EQ(one(trace, "lru", 2).hits, 0U);
}

TEST(Replay, APromptLargerThanTheCacheKeepsItsBeginning) {
  const Trace trace = chains({{0, 1, 2, 3}, {0, 1, 2, 3}}, 4);
  for (const char* policy : {"lru", "lfu", "min"}) EXPECT_EQ(one(trace, policy, 2).hits, 2U);
}

TEST(Replay, LateTokensCostMore) {
  const Trace trace = chains({{0, 1}, {0, 2}}, 3);
  const ReplayResult result =
      one(trace, "infinite", 1, {.tokens_per_second = 1, .attention_tokens = 10});
  // Ten tokens from 0 on take 10 + 100/20 seconds, twenty 20 + 400/20.
  EXPECT_DOUBLE_EQ(result.seconds_saved, 15);
  EXPECT_DOUBLE_EQ(result.compute_saved_ratio, 15.0 / 80);
}

TEST(Replay, MediaInThePrefixThatWasHitAreNotLookedUp) {
  Trace trace = chains({{0, 1}, {0, 2}, {3}}, 4);
  trace.items = {{.tokens = 8, .encode = std::chrono::seconds(2)}};
  trace.requests[0].media = {{.item = 0, .offset = 0}};   // not there yet
  trace.requests[1].media = {{.item = 0, .offset = 1},    // covered
                             {.item = 0, .offset = 10}};  // behind the prefix, but encoded before
  trace.requests[2].media = {{.item = 0, .offset = 0}};
  const ReplayResult result =
      one(trace, "infinite", 1, {.tokens_per_second = 1e9, .attention_tokens = 1e9});
  EXPECT_EQ(result.item_hits, 2U);
  EXPECT_EQ(result.item_misses, 1U);
  EXPECT_NEAR(result.seconds_saved, 3 * 2, 1e-6) << "the covered one was not encoded either";
}

TEST(Replay, TheWarmUpFillsTheCacheAndIsNotCounted) {
  const Trace trace = chains({{0, 1}, {0, 1}}, 2);
  const ReplayResult result = one(trace, "lru", 2, {.warm_up = 0.5});
  EXPECT_EQ(result.hits, 2U);
  EXPECT_EQ(result.misses, 0U);
  EXPECT_EQ(result.bytes_written, Bytes(0));
}

TEST(Replay, WrongCallsAreNamed) {
  const Trace trace = chains({{0}}, 1);
  const ReplayCapacity some{.name = "c", .blocks = 1};
  const auto wrong = replay(trace, {.policies = {"oracle"}, .capacities = {some}}, ManualClock());
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().message.find("\"oracle\"; there are"), std::string::npos)
      << wrong.error().message;
  EXPECT_FALSE(replay(trace, {.policies = {"lru"}}, ManualClock()).has_value());
  EXPECT_FALSE(
      replay(trace, {.policies = {"lru"}, .capacities = {some}, .warm_up = 2}, ManualClock())
          .has_value());
}

/// The most blocks that any sequence of decisions can hit: all subsets, request by request.
class Exhaustive {
 public:
  Exhaustive(const Trace& trace, std::uint64_t capacity) : trace_(trace), capacity_(capacity) {}

  std::uint64_t best(std::size_t i, std::uint32_t resident) {
    if (i == trace_.requests.size()) return 0;
    if (const auto it = known_.find({i, resident}); it != known_.end()) return it->second;
    std::uint64_t hits = 0;
    std::uint32_t after = resident;
    for (const std::uint32_t block : trace_.requests[i].blocks) {
      if ((resident >> block & 1U) == 0) break;
      ++hits;
    }
    for (const std::uint32_t block : trace_.requests[i].blocks) after |= 1U << block;
    std::uint64_t later = 0;
    for (std::uint32_t kept = after;; kept = (kept - 1) & after) {
      if (static_cast<std::uint64_t>(std::popcount(kept)) <= capacity_) {
        later = std::max(later, best(i + 1, kept));
      }
      if (kept == 0) break;
    }
    return known_[{i, resident}] = hits + later;
  }

 private:
  const Trace& trace_;
  std::uint64_t capacity_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::uint64_t> known_;
};

TEST(ReplayProperty, MinIsTheBestThatAnybodyCouldDoAndNoPolicyIsBetter) {
  testing::for_each_seed(60, [](Rng& rng) {
    std::vector<std::vector<std::uint32_t>> rows;
    std::vector<std::vector<std::uint32_t>> known = {{}};
    std::uint32_t distinct = 0;
    for (int i = 0; i < 5; ++i) {
      auto row = known[rng.below(known.size())];
      row.resize(rng.below(row.size() + 1));
      while (row.size() < 3 && distinct < 6 && (row.empty() || rng.chance(0.5))) {
        row.push_back(distinct++);
      }
      if (row.empty()) row.push_back(0);
      known.push_back(row);
      rows.push_back(row);
    }
    const Trace trace = chains(rows, std::max(distinct, 1U));
    const std::uint64_t capacity = 1 + rng.below(4);
    const std::uint64_t bound = Exhaustive(trace, capacity).best(0, 0);
    EXPECT_EQ(one(trace, "min", capacity).hits, bound);
    for (const std::string_view policy : replay_policies()) {
      if (policy == "infinite") continue;
      EXPECT_LE(one(trace, std::string(policy), capacity).hits, bound) << policy;
    }
    EXPECT_GE(one(trace, "infinite", capacity).hits, bound);
  });
}

}  // namespace
}  // namespace afterimage
