// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/replay/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "afterimage/eviction_policy.h"
#include "afterimage/prefix_cache.h"
#include "caches/prefix/prefix_draft.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

/// The cost of a block in a replay.
constexpr Duration kBlockCost(20'480'000);

using Requests = std::vector<std::vector<std::uint32_t>>;

/// One request per second; every block is full.
Trace trace_of(const Requests& requests) {
  Trace trace;
  std::uint32_t second = 0;
  for (const auto& blocks : requests) {
    TraceRequest request;
    request.at = std::chrono::seconds(second++);
    request.input_tokens = static_cast<std::uint32_t>(blocks.size()) * trace.block_tokens;
    request.blocks = blocks;
    for (const std::uint32_t block : blocks) {
      trace.distinct_blocks = std::max(trace.distinct_blocks, block + 1);
    }
    trace.requests.push_back(std::move(request));
  }
  return trace;
}

ReplayResult replay_one(const Trace& trace, const std::string& policy, std::uint64_t blocks) {
  ReplayOptions options;
  options.policies = {policy};
  options.capacities = {{"some", blocks}};
  return replay(trace, options, ManualClock()).value().front();
}

/// Conversations of up to eight turns, each adding three blocks after one block that all share; the
/// next turn comes soon or never. Times are random, so that ages differ.
Trace chat(std::uint64_t seed, std::size_t requests, int blocks_a_turn = 3) {
  struct Conversation {
    std::vector<std::uint32_t> blocks;
    bool tool = false;
  };
  Rng rng(seed);
  Trace trace;
  trace.distinct_blocks = 1;
  std::multimap<std::int64_t, Conversation> waiting;  // by the time of their next turn, in seconds
  for (std::int64_t second = 0; trace.requests.size() < requests; ++second) {
    waiting.emplace(second, Conversation{.blocks = {0}});
    while (!waiting.empty() && waiting.begin()->first <= second) {
      Conversation talk = std::move(waiting.extract(waiting.begin()).mapped());
      for (int i = 0; i < blocks_a_turn; ++i) talk.blocks.push_back(trace.distinct_blocks++);
      talk.tool = rng.chance(0.5);
      TraceRequest request;
      request.at = std::chrono::seconds(second);
      request.input_tokens = static_cast<std::uint32_t>(talk.blocks.size()) * trace.block_tokens;
      request.stop = talk.tool ? StopReason::kToolUse : StopReason::kEndTurn;
      request.blocks = talk.blocks;
      trace.requests.push_back(std::move(request));
      const bool goes_on = talk.blocks.size() < 1 + 8 * static_cast<std::size_t>(blocks_a_turn) &&
                           rng.chance(talk.tool ? 0.95 : 0.2);
      const auto wait = static_cast<std::int64_t>(talk.tool ? 10 + rng.below(10) : rng.below(200));
      if (goes_on) waiting.emplace(second + 1 + wait, std::move(talk));
    }
  }
  return trace;
}

TEST(Replay, EvictedBlocksAreReadFromTheTierBelow) {
  // Two alternating prompts of three blocks; the cache holds one, the tier below both.
  const Trace trace = trace_of({{0, 1, 2}, {3, 4, 5}, {0, 1, 2}, {3, 4, 5}});
  ReplayOptions options{
      .below = {"6", 6}, .policies = {"lru", "infinite"}, .capacities = {{"3", 3}}};
  const auto two = replay(trace, options, ManualClock()).value();
  const Bytes block(trace.block_tokens * options.bytes_per_token.value());
  EXPECT_EQ(two[0].hits, 0U);
  EXPECT_EQ(two[0].below_hits, 6U);
  EXPECT_EQ(two[0].misses, 6U);
  EXPECT_EQ(two[0].token_hit_ratio, 0.5);
  EXPECT_EQ(two[0].below_read, Bytes(6 * block.value()));
  EXPECT_EQ(two[0].bytes_read, two[0].below_read);
  EXPECT_EQ(two[0].below_written, Bytes(6 * block.value())) << "each block once";
  EXPECT_EQ(two[0].bytes_written, Bytes(12 * block.value()));
  EXPECT_EQ(two[1].hits, 6U) << "an infinite cache evicts nothing";
  EXPECT_EQ(two[1].below_hits, 0U);
  // The tier below evicts the oldest too: four of 0 1 2 3 4 5 remain.
  options.below.blocks = 4;
  const auto small = replay(trace, options, ManualClock()).value();
  EXPECT_EQ(small[0].below_hits, 0U) << "without its beginning the rest of a prefix cannot hit";
  EXPECT_EQ(small[0].below_written, Bytes(12 * block.value()));
}

TEST(Replay, PassesTheTracesHintsToThePolicy) {
  // Conversations of two turns among many of one; only the hint distinguishes them.
  Trace trace;
  const auto ask = [&](std::uint32_t second, std::vector<std::uint32_t> blocks,
                       ContinuationHint hint) {
    TraceRequest request;
    request.at = std::chrono::seconds(second);
    request.input_tokens = static_cast<std::uint32_t>(blocks.size()) * trace.block_tokens;
    for (const std::uint32_t b : blocks) {
      trace.distinct_blocks = std::max(trace.distinct_blocks, b + 1);
    }
    request.blocks = std::move(blocks);
    request.hint = hint;
    trace.requests.push_back(std::move(request));
  };
  for (std::uint32_t i = 0; i < 3000; ++i) {
    const std::uint32_t old = (i - 20) * 2;
    if (i >= 20 && (i - 20) % 4 == 0) ask(i, {old, old + 1}, ContinuationHint::kEnds);
    ask(i, {i * 2}, i % 4 == 0 ? ContinuationHint::kGoesOn : ContinuationHint::kEnds);
  }
  const double told = replay_one(trace, "worth", 10).token_hit_ratio;
  for (TraceRequest& request : trace.requests) request.hint = ContinuationHint::kNone;
  const double untold = replay_one(trace, "worth", 10).token_hit_ratio;
  EXPECT_GT(told, 0.12) << "of 0.167 at most";
  EXPECT_LT(untold, 0.08);
}

TEST(Replay, HitsTheLeadingResidentBlocks) {
  const Trace trace = trace_of({{0, 1}, {0, 1, 2}, {0, 3, 4}});
  const ReplayResult result = replay_one(trace, "lru", 10);
  EXPECT_EQ(result.hits, 3U);
  EXPECT_EQ(result.misses, 5U);
  EXPECT_DOUBLE_EQ(result.token_hit_ratio, 3.0 / 8);
  EXPECT_EQ(result.evictions, 0U);
}

TEST(Replay, APartialLastBlockCountsItsTokens) {
  Trace trace = trace_of({{0, 1}, {0, 1}});
  for (TraceRequest& request : trace.requests) request.input_tokens = 600;
  EXPECT_DOUBLE_EQ(replay_one(trace, "lru", 10).token_hit_ratio, 0.5);
}

TEST(Replay, LateTokensCostMoreToComputeByAttention) {
  const Trace trace = trace_of({{0}, {0, 1, 2}});
  const ReplayResult result = replay_one(trace, "lru", 10);
  EXPECT_DOUBLE_EQ(result.token_hit_ratio, 0.25);
  const auto cost = [](double tokens) { return tokens * (1 + tokens / 2 / 30'500); };
  EXPECT_NEAR(result.compute_saved_ratio, cost(512) / (cost(512) + cost(1536)), 1e-12);
  EXPECT_NEAR(result.seconds_saved, cost(512) / 25'000, 1e-12);
}

TEST(Replay, WarmUpIsReplayedAndNotCounted) {
  ReplayOptions options{.policies = {"lru"}, .capacities = {{"all", 10}}, .warm_up = 0.5};
  const auto result = replay(trace_of({{0, 1}, {0, 1}}), options, ManualClock()).value().front();
  EXPECT_DOUBLE_EQ(result.token_hit_ratio, 1);
}

TEST(Replay, LooksUpImagesUnlessThePrefixCoversThem) {
  Trace trace = trace_of({{0}, {1}, {1}, {1, 2}});
  trace.items.push_back({.content = {}, .tokens = 100, .encode = std::chrono::seconds(2)});
  for (TraceRequest& request : trace.requests) request.media.push_back({.item = 0, .offset = 5});
  trace.requests.back().media.front().offset = 500;  // its last rows are in block 2
  const ReplayResult result = replay_one(trace, "lru", 10);
  EXPECT_EQ(result.item_misses, 1U);
  EXPECT_EQ(result.item_hits, 2U);                // in the second and the last request
  EXPECT_NEAR(result.seconds_saved, 3 * 2, 0.1);  // the third covers it by KV
}

TEST(Replay, APromptLargerThanTheCacheKeepsItsBeginning) {
  const Trace trace = trace_of({{0, 1, 2, 3}, {0, 1, 2, 3}});
  for (const std::string_view policy : replay_policies()) {
    if (policy == "infinite") continue;
    EXPECT_EQ(replay_one(trace, std::string(policy), 2).hits, 2U) << policy;
  }
}

TEST(Replay, RejectsInvalidOptionsWithAdvice) {
  const Trace trace = trace_of({{0}});
  const auto refused = [&](const ReplayOptions& options) {
    const auto result = replay(trace, options, ManualClock());
    return result.has_value() ? std::string("accepted") : result.error().message;
  };
  EXPECT_NE(refused({.policies = {"lru2"}, .capacities = {{"1", 1}}}).find("infinite"),
            std::string::npos);
  EXPECT_NE(refused({.policies = {"lru"}}).find("capacity"), std::string::npos);
  EXPECT_NE(refused({.policies = {"lru"}, .capacities = {{"0%", 0}}}).find("0%"),
            std::string::npos);
  EXPECT_NE(refused({.policies = {"lru"}, .capacities = {{"1", 1}}, .warm_up = 2}).find("warm-up"),
            std::string::npos);
}

/// The maximum number of block hits, by brute force over all prefix-closed sets of at most
/// `capacity` blocks after each request.
std::uint64_t most_hits(const Trace& trace, std::size_t capacity) {
  std::vector<int> parent(trace.distinct_blocks, -1);
  std::map<unsigned, std::uint64_t> reached = {{0U, 0}};  // best hits so far by set of blocks
  for (const TraceRequest& request : trace.requests) {
    for (std::size_t i = 1; i < request.blocks.size(); ++i) {
      parent[request.blocks[i]] = static_cast<int>(request.blocks[i - 1]);
    }
    std::map<unsigned, std::uint64_t> next;
    for (const auto& [set, hits] : reached) {
      unsigned all = set;
      std::uint64_t now = hits;
      bool leading = true;
      for (const std::uint32_t block : request.blocks) {
        leading = leading && (set >> block & 1U) != 0;
        if (leading) ++now;
        all |= 1U << block;
      }
      for (unsigned kept = all;; kept = (kept - 1) & all) {
        bool whole = static_cast<std::size_t>(std::popcount(kept)) <= capacity;
        for (unsigned b = 0; whole && b < parent.size(); ++b) {
          whole = (kept >> b & 1U) == 0 || parent[b] < 0 || (kept >> parent[b] & 1U) != 0;
        }
        if (whole) next[kept] = std::max(next[kept], now);
        if (kept == 0) break;
      }
    }
    reached = std::move(next);
  }
  std::uint64_t most = 0;
  for (const auto& [set, hits] : reached) most = std::max(most, hits);
  return most;
}

TEST(Replay, MinMatchesBruteForce) {
  testing::for_each_seed(20, [](Rng& rng) {
    Requests requests;
    for (int r = 0; r < 12; ++r) {  // block b's parent is block (b - 1) / 2
      std::vector<std::uint32_t> blocks;
      for (auto b = static_cast<int>(rng.below(9)); b >= 0; b = b == 0 ? -1 : (b - 1) / 2) {
        blocks.push_back(static_cast<std::uint32_t>(b));
      }
      std::ranges::reverse(blocks);
      requests.push_back(blocks);
    }
    const Trace trace = trace_of(requests);
    for (const std::uint64_t capacity : {1U, 3U, 5U}) {
      const std::uint64_t most = most_hits(trace, capacity);
      ASSERT_EQ(replay_one(trace, "min", capacity).hits, most) << capacity;
      for (const std::string_view policy : replay_policies()) {
        if (policy == "infinite") continue;
        ASSERT_LE(replay_one(trace, std::string(policy), capacity).hits, most) << policy;
      }
    }
  });
}

// If these numbers change, a policy changed: check why before updating them.
TEST(Replay, GoldenHits) {
  const Trace trace = chat(/*seed=*/1, 3000);
  std::map<std::string, std::vector<std::uint64_t>> hits;
  for (const std::string_view policy : replay_policies()) {
    for (const std::uint64_t capacity : {50U, 150U, 500U}) {
      hits[std::string(policy)].push_back(replay_one(trace, std::string(policy), capacity).hits);
    }
  }
  const std::map<std::string, std::vector<std::uint64_t>> expected = {
      {"arc", {3066, 4793, 12903}},    {"fifo", {3084, 3296, 3756}},
      {"gdsf", {3027, 3637, 12851}},   {"infinite", {14264, 14264, 14264}},
      {"lfu", {3027, 3524, 13047}},    {"lru", {3027, 3523, 13049}},
      {"min", {7143, 12605, 14264}},   {"s3-fifo", {3071, 5439, 8729}},
      {"sieve", {3047, 3253, 3971}},   {"w-tinylfu", {3079, 3602, 7964}},
      {"worth", {6404, 12054, 13082}},
  };
  EXPECT_EQ(hits, expected);
}

TEST(Replay, WorthClosesMostOfTheGapWithLittleMemory) {
  const Trace trace = chat(/*seed=*/2, 6000);
  for (const std::uint64_t capacity : {60U, 120U}) {
    const double lru = replay_one(trace, "lru", capacity).token_hit_ratio;
    const double min = replay_one(trace, "min", capacity).token_hit_ratio;
    const double worth = replay_one(trace, "worth", capacity).token_hit_ratio;
    EXPECT_GT(worth - lru, 0.5 * (min - lru)) << capacity;
  }
}

TEST(Replay, HintsThatAreWrongOneTimeInTenHelp) {
  const Trace trace = chat(/*seed=*/3, 4000);
  ReplayOptions options{.policies = {"worth"}, .capacities = {{"some", 100}}};
  const double without = replay(trace, options, ManualClock()).value().front().token_hit_ratio;
  options.hint_error = 0.1;
  const double with = replay(trace, options, ManualClock()).value().front().token_hit_ratio;
  EXPECT_GT(with, without);
}

/// The real prefix cache, driven by a trace: a block is 16 tokens of 64 bytes. Its policy gets the
/// same information as in a replay.
class ServingCache {
 public:
  ServingCache(std::string_view policy, std::uint64_t blocks)
      : budget_(Bytes(blocks * kTokens * kRow)) {
    PrefixCacheOptions options;
    options.policy = make_policy(policy).value();
    cache_ = PrefixCache::create(std::move(options), budget_).value();
  }

  /// Returns the number of blocks hit.
  std::uint64_t use(const TraceRequest& request) {
    Sequence prompt;
    for (const std::uint32_t block : request.blocks) {
      prompt.tokens.insert(prompt.tokens.end(), kTokens, TokenId(static_cast<int>(block)));
    }
    PrefixMatch match =
        cache_->match({}, prompt, {.now = request.at, .stop = request.stop}).value();
    const auto size = static_cast<std::uint32_t>(prompt.tokens.size());
    const std::uint32_t had = match.matched().value();
    const std::vector<std::byte> rows((size - had) * kRow);
    const KvSlice kv{.begin = TokenCount(had),
                     .end = TokenCount(size),
                     .rows = {{rows_before(TokenCount(size), layout_.groups[0], rows)}},
                     .cost = kBlockCost * ((size - had) / kTokens)};
    // Lack of space is not an error.
    static_cast<void>(cache_->insert({}, layout_, prompt, kv, &match));
    return had / kTokens;
  }

 private:
  static constexpr std::uint32_t kTokens = 16;
  static constexpr std::uint64_t kRow = 64;

  const KvLayout layout_{{{.kind = KvKind::kFull, .row_bytes = Bytes(kRow)}}};
  MemoryBudget budget_;
  std::unique_ptr<PrefixCache> cache_;
};

/// A model of a block cache that evicts before it inserts a request's new blocks, never evicts
/// blocks in use by the request, and evicts leaves first.
class EvictFirstCache {
 public:
  EvictFirstCache(std::string_view policy, std::uint64_t capacity)
      : policy_(make_policy(policy).value()), capacity_(capacity) {}

  [[nodiscard]] std::uint64_t hits(const TraceRequest& request) const {
    std::uint64_t hits = 0;
    while (hits < request.blocks.size() && here_.contains(request.blocks[hits])) ++hits;
    return hits;
  }
  std::uint64_t use(const TraceRequest& request) {
    const std::uint64_t hits = this->hits(request);
    make_room(request, request.blocks.size() - hits);
    policy_->begin_request({.now = request.at, .stop = request.stop});
    for (std::size_t i = request.blocks.size(); i-- > 0;) {
      const std::uint32_t block = request.blocks[i];
      const SlotId slot{.index = block};
      if (i < hits) {
        policy_->touch(slot);
        continue;
      }
      policy_->insert(slot, {.bytes = 1_KiB, .cost = kBlockCost, .key = block + 1U});
      here_[block] = {.above = i == 0 ? block : request.blocks[i - 1]};
    }
    for (std::size_t i = hits; i < request.blocks.size(); ++i) {
      if (i > 0) ++here_[request.blocks[i - 1]].children;
    }
    return hits;
  }

 private:
  struct Block {
    std::uint32_t above = 0;  // its own index: it is a root
    std::uint32_t children = 0;
    bool parked = false;
  };

  void make_room(const TraceRequest& request, std::size_t blocks) {
    const std::set<std::uint32_t> used(request.blocks.begin(), request.blocks.end());
    while (here_.size() + blocks > capacity_) {
      const SlotId victim = policy_->victim().value();
      Block& block = here_[victim.index];
      if (block.children > 0 || used.contains(victim.index)) {
        block.parked = true;
        policy_->park(victim);
        continue;
      }
      policy_->erase(victim, RemovalReason::kEvicted);
      const std::uint32_t above = block.above;
      here_.erase(victim.index);
      if (above != victim.index && --here_[above].children == 0) unpark(above);
    }
    for (const std::uint32_t block : used) {
      if (here_.contains(block) && here_[block].children == 0) unpark(block);
    }
  }
  void unpark(std::uint32_t block) {
    if (std::exchange(here_[block].parked, false)) policy_->unpark({.index = block});
  }

  std::unique_ptr<EvictionPolicy> policy_;
  std::uint64_t capacity_;
  std::map<std::uint32_t, Block> here_;
};

/// Starts with a request for the shared beginning, so that it becomes a segment of its own.
Trace shared_first(Trace trace) {
  TraceRequest first;
  first.blocks = {0};
  first.input_tokens = trace.block_tokens;
  trace.requests.insert(trace.requests.begin(), first);
  return trace;
}

// With one block per insert, the cache's segments are blocks, and its policy gets the same calls as
// the model's: both evict the same blocks. (Policies that use a key's hash, or lose the position of
// a parked entry, may differ.)
TEST(Replay, TheRealCacheEvictsWhatItsPolicyChooses) {
  const Trace trace = shared_first(chat(/*seed=*/4, 2000));
  for (const std::string_view policy : {"worth", "lru", "lfu", "fifo", "gdsf"}) {
    for (const std::uint64_t blocks : {50U, 150U}) {
      EvictFirstCache model(policy, blocks);
      ServingCache cache(policy, blocks);
      std::uint64_t differ = 0;
      for (const TraceRequest& request : trace.requests) {
        TraceRequest part = request;
        for (std::size_t n = model.hits(request) + 1; n <= request.blocks.size(); ++n) {
          part.blocks.assign(request.blocks.begin(), request.blocks.begin() + std::ptrdiff_t(n));
          if (cache.use(part) != model.use(part)) ++differ;
        }
      }
      EXPECT_EQ(differ, 0U) << policy << ", " << blocks;
    }
  }
}

// A replay inserts all blocks of a request and then evicts, possibly a new block; the cache evicts
// first, so a useless new block can displace a useful one. The smaller the cache, the more this
// costs. Also, its segments (turns) are evicted whole.
TEST(Replay, TheRealCacheHitsNearlyAsOftenAsTheReplay) {
  for (const int blocks_a_turn : {1, 3}) {
    const Trace trace = shared_first(chat(/*seed=*/4, 5000, blocks_a_turn));
    for (const auto& [turns, at_least] : {std::pair(20U, 0.8), {50U, 0.95}, {150U, 0.99}}) {
      const std::uint64_t blocks = std::uint64_t{turns} * static_cast<unsigned>(blocks_a_turn);
      for (const std::string policy : {"lru", "worth"}) {
        const auto replayed = static_cast<double>(replay_one(trace, policy, blocks).hits);
        ServingCache cache(policy, blocks);
        std::uint64_t hits = 0;
        for (const TraceRequest& request : trace.requests) hits += cache.use(request);
        const auto served = static_cast<double>(hits);
        EXPECT_GT(served / replayed, at_least) << policy << ", " << turns << " turns";
        EXPECT_LT(served / replayed, 1.02) << policy << ", " << turns << " turns";
      }
    }
  }
}

}  // namespace
}  // namespace afterimage
