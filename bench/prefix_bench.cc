// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What does it cost to find the longest cached prefix of a prompt, as the cache and the prompt
// grow? Beside it: reading the prompt once, the seed's linear scan, and a map of 16-token block
// hashes as in vLLM.
#include <benchmark/benchmark.h>
#include <xxhash.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <numeric>
#include <vector>

#include "afterimage/platform/random.h"
#include "afterimage/prefix/prefix_cache.h"

namespace afterimage {
namespace {

constexpr std::int64_t kMaxCachedTokens = 1'200'000'000;  // 4.8 GB of index

/// As many system prompts as one application has. With more of them the linear scan parts earlier.
constexpr std::uint64_t kSystemPrompts = 1;

/// The i-th of the cached sequences: `length` tokens of a 128k vocabulary, the first eighth of them
/// one of the system prompts. The same on every call.
Sequence cached_sequence(std::uint64_t i, std::size_t length) {
  Sequence sequence;
  sequence.tokens.resize(length);
  Rng shared(1'000'003 + i % kSystemPrompts);
  Rng own(i);
  for (std::size_t t = 0; t < length; ++t) {
    Rng& rng = t < length / 8 ? shared : own;
    sequence.tokens[t] = TokenId(static_cast<std::int32_t>(rng.below(128'000)));
  }
  return sequence;
}

enum Question : std::int64_t { kHit, kPartial, kMiss };

/// Prompts in an order that no branch predictor or prefetcher has seen. Few enough that asking
/// costs the same memory however many sequences are cached.
std::vector<Sequence> questions(std::uint64_t cached, std::size_t length, std::int64_t kind) {
  Rng rng(2);
  std::vector<Sequence> asked(std::max<std::size_t>(8, (std::size_t{1} << 20U) / length));
  for (Sequence& prompt : asked) {
    prompt = cached_sequence(rng.below(cached), length);
    if (kind == kPartial) prompt.tokens[length / 2] = TokenId(200'000);
    if (kind == kMiss) prompt.tokens[0] = TokenId(200'000);
  }
  return asked;
}

NamespaceId space() { return {}; }

/// KV of one byte a token: the question is the index.
class Cache {
 public:
  Cache() : budget_(16_GiB), cache_(PrefixCache::create({}, budget_).value()) {}
  void put(const Sequence& sequence) {
    const std::vector<std::byte> bytes(sequence.tokens.size());
    const CapturedKv kv{.covered = TokenCount(static_cast<std::uint32_t>(bytes.size())),
                        .rows = {bytes}};
    if (!cache_->insert(space(), layout_, sequence, kv).has_value()) std::abort();
  }
  PrefixCache& operator*() { return *cache_; }

 private:
  KvLayout layout_{{{.kind = KvKind::kFull, .row_bytes = 1_B}}};
  MemoryBudget budget_;
  std::unique_ptr<PrefixCache> cache_;
};

bool too_large(benchmark::State& state) {
  if (state.range(0) * state.range(1) <= kMaxCachedTokens) return false;
  state.SkipWithError("larger than this bench's memory");
  return true;
}

/// The limit: every token of the prompt, read once from memory.
void BM_ReadThePromptOnce(benchmark::State& state) {
  const auto asked = questions(1000, static_cast<std::size_t>(state.range(0)), kHit);
  std::size_t next = 0;
  for (auto _ : state) {
    const Sequence& prompt = asked[next++ % asked.size()];
    // Four vectors at a time: as fast as the machine loads.
    using Vector [[gnu::vector_size(16), gnu::may_alias]] = std::uint32_t;
    const auto* words = reinterpret_cast<const Vector*>(prompt.tokens.data());
    Vector sums[4] = {};
    for (std::size_t i = 0; i < prompt.tokens.size() / 4; i += 4) {
      for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += words[i + lane];
    }
    benchmark::DoNotOptimize(sums);
  }
}

void BM_PrefixCacheMatch(benchmark::State& state) {
  if (too_large(state)) return;
  const auto cached = static_cast<std::uint64_t>(state.range(0));
  const auto length = static_cast<std::size_t>(state.range(1));
  Cache cache;
  for (std::uint64_t i = 0; i < cached; ++i) cache.put(cached_sequence(i, length));
  const auto asked = questions(cached, length, state.range(2));
  std::size_t next = 0;
  std::uint64_t reused = 0;
  for (auto _ : state) {
    const auto match = (*cache).match(space(), asked[next++ % asked.size()]);
    reused += match->resume().value();
  }
  state.counters["tokens_reused"] =
      static_cast<double>(reused) / static_cast<double>(state.iterations());
  state.counters["index_bytes_per_token"] = static_cast<double>((*cache).index_bytes().value()) /
                                            static_cast<double>((*cache).stats().tokens);
}

/// The seed's look-up: every entry compared with the prompt, the longest kept.
void BM_PeerLinearScan(benchmark::State& state) {
  if (too_large(state)) return;
  const auto cached = static_cast<std::uint64_t>(state.range(0));
  const auto length = static_cast<std::size_t>(state.range(1));
  std::vector<std::vector<TokenId>> entries;
  for (std::uint64_t i = 0; i < cached; ++i) entries.push_back(cached_sequence(i, length).tokens);
  const auto asked = questions(cached, length, state.range(2));
  std::size_t next = 0;
  for (auto _ : state) {
    const std::vector<TokenId> prompt = asked[next++ % asked.size()].tokens;  // the seed copies it
    std::size_t best = 0;
    for (const auto& entry : entries) {
      const auto parting = std::ranges::mismatch(entry, prompt);
      best = std::max(best, static_cast<std::size_t>(parting.in1 - entry.begin()));
    }
    benchmark::DoNotOptimize(best);
  }
}

/// vLLM's look-up: a chain of hashes over blocks of 16 tokens, each asked of one map until one is
/// unknown.
class BlockMap {
 public:
  static constexpr std::size_t kBlock = 16;
  void put(const std::vector<TokenId>& tokens) {
    std::uint64_t parent = 0;
    for (std::size_t at = 0; at + kBlock <= tokens.size(); at += kBlock) {
      parent = hash(parent, tokens.data() + at);
      blocks_.emplace(parent, static_cast<std::uint32_t>(blocks_.size()));
    }
  }
  [[nodiscard]] std::size_t match(const std::vector<TokenId>& tokens) const {
    std::uint64_t parent = 0;
    std::size_t at = 0;
    for (; at + kBlock <= tokens.size(); at += kBlock) {
      parent = hash(parent, tokens.data() + at);
      if (!blocks_.contains(parent)) break;
    }
    return at;
  }

 private:
  static std::uint64_t hash(std::uint64_t parent, const TokenId* block) {
    return XXH3_64bits_withSeed(block, kBlock * sizeof(TokenId), parent);
  }
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> blocks_;
};

void BM_PeerBlockHashMap(benchmark::State& state) {
  if (too_large(state)) return;
  const auto cached = static_cast<std::uint64_t>(state.range(0));
  const auto length = static_cast<std::size_t>(state.range(1));
  BlockMap map;
  for (std::uint64_t i = 0; i < cached; ++i) map.put(cached_sequence(i, length).tokens);
  const auto asked = questions(cached, length, state.range(2));
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(map.match(asked[next++ % asked.size()].tokens));
  }
}

/// A new sequence among `range(0)`, and in the steady state one that leaves for it.
void BM_PrefixCacheInsert(benchmark::State& state) {
  const auto cached = static_cast<std::uint64_t>(state.range(0));
  const auto length = static_cast<std::size_t>(state.range(1));
  const std::uint64_t each = (length + 63) / 64 * 64 + 64;
  MemoryBudget budget(state.range(2) == 1 ? Bytes(cached * each) : 16_GiB);
  const KvLayout layout{{{.kind = KvKind::kFull, .row_bytes = 1_B}}};
  const auto cache = PrefixCache::create({}, budget).value();
  const std::vector<std::byte> bytes(length);
  const CapturedKv kv{.covered = TokenCount(static_cast<std::uint32_t>(length)), .rows = {bytes}};
  std::uint64_t next = 0;
  const auto put = [&] {
    const Sequence sequence = cached_sequence(next++, length);
    if (!cache->insert(space(), layout, sequence, kv).has_value()) std::abort();
  };
  while (next < cached) put();
  std::vector<Sequence> fresh;
  for (std::uint64_t i = 0; i < 4096; ++i) fresh.push_back(cached_sequence(next + i, length));
  for (auto _ : state) {
    Sequence& sequence = fresh[next++ % fresh.size()];
    sequence.tokens[length / 8] = TokenId(static_cast<std::int32_t>(next % 2'000'000'000));
    benchmark::DoNotOptimize(cache->insert(space(), layout, sequence, kv));
  }
  state.counters["evicted"] = static_cast<double>(cache->stats().evictions);
}

void lengths(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t length : {512, 4096, 32'768, 131'072}) bench->Arg(length);
  bench->ArgName("tokens");
}
void match_matrix(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t cached : {10, 1'000, 10'000, 100'000, 1'000'000}) {
    for (const std::int64_t length : {512, 4096, 32'768, 131'072}) {
      if (cached * length > kMaxCachedTokens) continue;
      for (const Question kind : {kHit, kPartial, kMiss}) bench->Args({cached, length, kind});
    }
  }
  bench->ArgNames({"cached", "tokens", "kind"});
}
void peer_matrix(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t cached : {1'000, 10'000}) {
    for (const std::int64_t length : {512, 32'768}) bench->Args({cached, length, kHit});
  }
  bench->ArgNames({"cached", "tokens", "kind"});
}

BENCHMARK(BM_ReadThePromptOnce)->Apply(lengths);
BENCHMARK(BM_PrefixCacheMatch)->Apply(match_matrix);
BENCHMARK(BM_PeerBlockHashMap)->Apply(peer_matrix)->Args({1'000'000, 512, kHit});
BENCHMARK(BM_PeerLinearScan)->Apply(peer_matrix);
BENCHMARK(BM_PrefixCacheInsert)
    ->ArgNames({"cached", "tokens", "evicting"})
    ->Args({10'000, 512, 0})
    ->Args({10'000, 512, 1})
    ->Args({10'000, 4096, 0})
    ->Args({10'000, 4096, 1});

}  // namespace
}  // namespace afterimage
