// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What does it cost to find the longest cached prefix of a prompt, as the cache and the prompt
// grow? Compared with reading that many tokens once, the seed's linear scan, and a map of 16-token
// block hashes as in vLLM.
//
// Memory is in the state of a server: prompts are produced right before the look-up, as by a
// tokenizer, so they are in the core's cache; each continues a random cached one. A batch is timed
// as a whole, in processor time, and the median batch is reported, because other work on the
// machine affects the mean. Caches are built once per process and kept side by side, so that
// --benchmark_enable_random_interleaving mixes all sizes.
#include <benchmark/benchmark.h>
#include <time.h>
#include <xxhash.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <map>
#include <memory>
#include <vector>

#include "afterimage/prefill_once.h"
#include "caches/prefix/prefix_draft.h"
#include "foundation/platform/random.h"
#include "policy/eviction/lru.h"
#include "policy/eviction/worth.h"

namespace afterimage {
namespace {

/// N stops here for long prompts: 2.7 GB of index and rows; the largest process stays below 6 GB.
constexpr std::int64_t kMaxCachedTokens = std::int64_t{1} << 29U;

/// As many system prompts as one application has. With more, the linear scan diverges earlier.
constexpr std::uint64_t kSystemPrompts = 1;

/// The i-th of the cached sequences: `length` tokens of a 128k vocabulary, the first eighth of them
/// one of the system prompts. The same on every call.
void make_sequence(std::uint64_t i, std::size_t length, std::vector<TokenId>& tokens) {
  tokens.resize(length);
  Rng shared(1'000'003 + i % kSystemPrompts);
  Rng own(i);
  for (std::size_t t = 0; t < length; ++t) {
    Rng& rng = t < length / 8 ? shared : own;
    tokens[t] = TokenId(static_cast<std::int32_t>(rng() % (1U << 17U)));
  }
}
Sequence cached_sequence(std::uint64_t i, std::size_t length) {
  Sequence sequence;
  make_sequence(i, length, sequence.tokens);
  return sequence;
}

enum Question : std::int64_t { kHit, kPartial, kMiss };

struct Case {
  std::int64_t cached;
  std::int64_t length;
  std::int64_t kind = kHit;
  bool washed = false;  // all CPU caches are cold before each batch, as after a model's step
};
Case case_of(const benchmark::State& state) {
  return {.cached = state.range(0), .length = state.range(1)};
}

/// Times `match` on batches of prompts.
template <typename Match>
void ask(benchmark::State& state, const Case& asked, Match match) {
  static Rng rng(2);  // continues across runs, so that prompts do not repeat soon
  const auto cached = static_cast<std::uint64_t>(asked.cached);
  const auto length = static_cast<std::size_t>(asked.length);
  // 256 KiB of prompts, or one prompt: what a core's second-level cache holds.
  std::vector<Sequence> batch(std::max<std::size_t>(1, (std::size_t{1} << 16U) / length));
  std::vector<double> times;
  for (auto _ : state) {
    if (asked.washed) {
      static std::vector<std::uint64_t> other_work(std::size_t{8} << 20U, 1);  // 64 MiB
      for (std::uint64_t& word : other_work) ++word;
      benchmark::DoNotOptimize(other_work.data());
    }
    for (Sequence& prompt : batch) {
      make_sequence(rng.below(cached), length, prompt.tokens);
      if (asked.kind == kPartial) prompt.tokens[length / 2] = TokenId(200'000);
      if (asked.kind == kMiss) prompt.tokens[0] = TokenId(200'000);
    }
    const auto now = [] {
      timespec time{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
    };
    const double begin = now();
    for (const Sequence& prompt : batch) match(prompt);
    times.push_back((now() - begin) / static_cast<double>(batch.size()));
    state.SetIterationTime(times.back() * 1e-9);
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  state.counters["median_ns"] = times[times.size() / 2];
}

/// One object of each kind, count and length, created on first use.
template <typename Thing>
Thing& the(std::int64_t cached, std::int64_t length) {
  static std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<Thing>> all;
  std::unique_ptr<Thing>& thing = all[{cached, length}];
  if (thing == nullptr) {
    thing = std::make_unique<Thing>();
    Sequence sequence;
    for (std::int64_t i = 0; i < cached; ++i) {
      make_sequence(static_cast<std::uint64_t>(i), static_cast<std::size_t>(length),
                    sequence.tokens);
      thing->put(sequence);
    }
  }
  return *thing;
}

NamespaceId space() { return {}; }

/// KV of one byte per token: this measures the index.
template <typename Policy>
class CacheUnder {
 public:
  CacheUnder()
      : budget_(16_GiB),
        cache_(PrefixCache::create({.policy = std::make_unique<Policy>()}, budget_).value()) {}
  void put(const Sequence& sequence) {
    const std::vector<std::byte> bytes(sequence.tokens.size());
    const TokenCount end(static_cast<std::uint32_t>(bytes.size()));
    const KvSlice kv{.end = end, .rows = {{rows_before(end, layout_.groups[0], bytes)}}};
    if (!cache_->insert(space(), layout_, sequence, kv).has_value()) std::abort();
  }
  PrefixCache& operator*() { return *cache_; }

 private:
  KvLayout layout_{{{.kind = KvKind::kFull, .row_bytes = 1_B}}};
  MemoryBudget budget_;
  std::unique_ptr<PrefixCache> cache_;
};

/// This measures the index, so the policy is the one that does least.
using Cache = CacheUnder<Lru>;

template <typename Caches>
void match(benchmark::State& state) {
  PrefixCache& cache = *the<Caches>(state.range(0), state.range(1));
  std::uint64_t reused = 0;
  std::uint64_t matches = 0;
  const Case asked{state.range(0), state.range(1), state.range(2), state.range(3) == 1};
  ask(state, asked, [&](const Sequence& prompt) {
    const auto match = cache.match(space(), prompt);
    reused += match->resume().value();
    ++matches;
  });
  state.counters["tokens_reused"] = static_cast<double>(reused) / static_cast<double>(matches);
  state.counters["index_bytes_per_token"] =
      static_cast<double>(cache.index_bytes().value()) / static_cast<double>(cache.stats().tokens);
}
void BM_PrefixCacheMatch(benchmark::State& state) { match<Cache>(state); }
/// With the default policy, which learns from every request when its match is released.
void BM_PrefixCacheMatchUnderWorth(benchmark::State& state) { match<CacheUnder<Worth>>(state); }

/// The sequences as stored.
struct Bare {
  void put(const Sequence& sequence) { entries.push_back(sequence.tokens); }
  std::vector<std::vector<TokenId>> entries;
};

void read_once(const std::vector<TokenId>& tokens) {
  // As fast as the machine loads: four vectors at a time.
  using Vector [[gnu::vector_size(16), gnu::may_alias]] = std::uint32_t;
  const auto* words = reinterpret_cast<const Vector*>(tokens.data());
  Vector a{}, b{}, c{}, d{};
  for (std::size_t i = 0; i + 4 <= tokens.size() / 4; i += 4) {
    a += words[i];
    b += words[i + 1];
    c += words[i + 2];
    d += words[i + 3];
  }
  Vector sum = a + b + c + d;
  benchmark::DoNotOptimize(sum);
}

/// The limit: the prompt is in the CPU cache, but the index's data is in memory. Reads one cached
/// sequence at a known place once.
void BM_ReadTheCachedOnce(benchmark::State& state) {
  const auto& entries = the<Bare>(state.range(0), state.range(1)).entries;
  Rng rng(3);
  ask(state, case_of(state),
      [&](const Sequence&) { read_once(entries[rng.below(entries.size())]); });
}

/// The prompt itself, which is in the CPU cache.
void BM_ReadThePromptOnce(benchmark::State& state) {
  ask(state, {.cached = 1000, .length = state.range(0)},
      [](const Sequence& prompt) { read_once(prompt.tokens); });
}

/// The seed's look-up: compares every entry with the prompt and keeps the longest match.
void BM_PeerLinearScan(benchmark::State& state) {
  const auto& entries = the<Bare>(state.range(0), state.range(1)).entries;
  ask(state, case_of(state), [&](const Sequence& sequence) {
    const std::vector<TokenId> prompt = sequence.tokens;  // the seed copies it
    std::size_t best = 0;
    for (const auto& entry : entries) {
      const auto parting = std::ranges::mismatch(entry, prompt);
      best = std::max(best, static_cast<std::size_t>(parting.in1 - entry.begin()));
    }
    benchmark::DoNotOptimize(best);
  });
}

/// vLLM's look-up: a chain of hashes over blocks of 16 tokens, looked up in one map until the first
/// miss.
class BlockMap {
 public:
  static constexpr std::size_t kBlock = 16;
  void put(const Sequence& sequence) {
    const std::vector<TokenId>& tokens = sequence.tokens;
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
  const BlockMap& map = the<BlockMap>(state.range(0), state.range(1));
  ask(state, case_of(state),
      [&](const Sequence& prompt) { benchmark::DoNotOptimize(map.match(prompt.tokens)); });
}

/// One cache and `threads` readers through its lock; the time is wall-clock time for one match of
/// one thread.
void BM_PrefillOnceMatch(benchmark::State& state) {
  static std::unique_ptr<PrefillOnce> front;
  static std::vector<Sequence> prompts;
  const auto length = static_cast<std::size_t>(state.range(1));
  if (state.thread_index() == 0) {
    PrefixCache& cache = *the<Cache>(state.range(0), state.range(1));
    front = std::make_unique<PrefillOnce>(cache, PrefillOnceOptions{.verify_hits = false});
    prompts.clear();
    Rng rng(4);
    for (int i = 0; i < 256; ++i) {
      prompts.push_back(
          cached_sequence(rng.below(static_cast<std::uint64_t>(state.range(0))), length));
    }
  }
  auto next = static_cast<std::size_t>(state.thread_index()) * 128;
  for (auto _ : state) {
    benchmark::DoNotOptimize(front->match(space(), prompts[next++ % prompts.size()]));
  }
  if (state.thread_index() == 0) front.reset();
}

/// Inserts a new sequence among `range(0)`, evicting one in the steady state.
void BM_PrefixCacheInsert(benchmark::State& state) {
  const auto cached = static_cast<std::uint64_t>(state.range(0));
  const auto length = static_cast<std::size_t>(state.range(1));
  const std::uint64_t each = (length + 63) / 64 * 64 + 64;
  MemoryBudget budget(state.range(2) == 1 ? Bytes(cached * each) : 16_GiB);
  const KvLayout layout{{{.kind = KvKind::kFull, .row_bytes = 1_B}}};
  const auto cache = PrefixCache::create({}, budget).value();
  const std::vector<std::byte> bytes(length);
  const TokenCount end(static_cast<std::uint32_t>(length));
  const KvSlice kv{.end = end, .rows = {{rows_before(end, layout.groups[0], bytes)}}};
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

std::int64_t at_most(std::int64_t cached, std::int64_t length) {
  return std::min(cached, kMaxCachedTokens / length);
}
void match_matrix(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t length : {512, 4096, 32'768, 131'072}) {
    std::int64_t last = 0;
    for (const std::int64_t wanted : {10, 1'000, 10'000, 100'000, 1'000'000}) {
      const std::int64_t cached = at_most(wanted, length);
      if (cached == last) continue;
      for (const Question kind : {kHit, kPartial, kMiss}) bench->Args({cached, length, kind, 0});
      last = cached;
    }
  }
  bench->ArgNames({"cached", "tokens", "kind", "washed"})->Iterations(48)->UseManualTime();
}
void washed(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t cached : {1'000, 1'000'000}) bench->Args({cached, 512, kHit, 1});
  bench->ArgNames({"cached", "tokens", "kind", "washed"})->Iterations(8)->UseManualTime();
}
void under_worth(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t length : {512, 32'768}) bench->Args({10'000, length, kHit, 0});
  bench->ArgNames({"cached", "tokens", "kind", "washed"})->Iterations(48)->UseManualTime();
}
void peers(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t cached : {1'000, 10'000}) {
    for (const std::int64_t length : {512, 32'768}) bench->Args({cached, length});
  }
  bench->ArgNames({"cached", "tokens"})->UseManualTime();
}

BENCHMARK(BM_ReadThePromptOnce)
    ->ArgName("tokens")
    ->Arg(512)
    ->Arg(32'768)
    ->Iterations(48)
    ->UseManualTime();
BENCHMARK(BM_ReadTheCachedOnce)->Apply(peers)->Args({1'000'000, 512})->Iterations(48);
BENCHMARK(BM_PrefixCacheMatch)->Apply(match_matrix);
BENCHMARK(BM_PrefixCacheMatch)->Apply(washed);
BENCHMARK(BM_PrefixCacheMatchUnderWorth)->Apply(under_worth);
BENCHMARK(BM_PeerBlockHashMap)->Apply(peers)->Iterations(48);
BENCHMARK(BM_PeerLinearScan)->Apply(peers)->Iterations(1);
BENCHMARK(BM_PrefillOnceMatch)
    ->ArgNames({"cached", "tokens"})
    ->Args({1'000, 512})
    ->Args({100'000, 512})
    ->Threads(1)
    ->Threads(2)
    ->UseRealTime();
BENCHMARK(BM_PrefixCacheInsert)
    ->ArgNames({"cached", "tokens", "evicting"})
    ->Args({10'000, 512, 0})
    ->Args({10'000, 512, 1})
    ->Args({10'000, 4096, 0})
    ->Args({10'000, 4096, 1});

}  // namespace
}  // namespace afterimage
