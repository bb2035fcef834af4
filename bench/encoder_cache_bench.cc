// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// What do look-ups and evicting stores cost, compared with a bare hash map, as the cache grows?
#include <benchmark/benchmark.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <unordered_map>
#include <vector>

#include "afterimage/encode_once.h"
#include "afterimage/encoder_cache.h"
#include "foundation/platform/random.h"
#include "foundation/types/digest_hash.h"
#include "policy/eviction/lru.h"

namespace afterimage {
namespace {

EncoderKey random_key(Rng& rng) {
  EncoderKey key;
  for (std::size_t i = 0; i < kDigestBytes; i += 8) {
    const std::uint64_t word = rng.next();
    std::memcpy(key.bytes.data() + i, &word, 8);
  }
  return key;
}

std::vector<EncoderKey> random_keys(std::uint64_t seed, std::size_t n) {
  Rng rng(seed);
  std::vector<EncoderKey> keys(n);
  for (EncoderKey& key : keys) key = random_key(rng);
  return keys;
}

/// Look-ups in an order that no branch predictor or prefetcher has seen.
std::vector<EncoderKey> questions(const std::vector<EncoderKey>& present, bool hit) {
  Rng rng(2);
  std::vector<EncoderKey> asked(std::size_t{1} << 16U);
  for (EncoderKey& key : asked) {
    key = hit ? present[rng.below(present.size())] : random_key(rng);
  }
  return asked;
}

constexpr std::size_t kBytes = 64;  // small values: this measures the index, not the copy

/// `policy`: nullptr is the default.
std::unique_ptr<EncoderCache> warm_cache(MemoryBudget& budget, const std::vector<EncoderKey>& keys,
                                         std::unique_ptr<EvictionPolicy> policy = nullptr) {
  auto cache = EncoderCache::create({.policy = std::move(policy)}, budget).value();
  const std::vector<std::byte> bytes(kBytes);
  const TensorViews views = {TensorView::over(DType::kU8, Shape{kBytes}, bytes).value()};
  for (const EncoderKey& key : keys) {
    const Pin pin = cache->insert(key, views, {.cost = Duration(1)}).value();
  }
  return cache;
}

template <typename Map>
void bare_map_lookup(benchmark::State& state) {
  const auto keys = random_keys(1, static_cast<std::size_t>(state.range(0)));
  Map map;
  for (std::uint32_t i = 0; i < keys.size(); ++i) map.emplace(keys[i], i);
  const auto asked = questions(keys, state.range(1) == 1);
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(map.find(asked[next++ & 0xFFFFU]));
  }
}
void BM_BareFlatMapLookup(benchmark::State& state) {
  bare_map_lookup<boost::unordered_flat_map<EncoderKey, std::uint32_t, DigestHash>>(state);
}
void BM_BareStdMapLookup(benchmark::State& state) {
  bare_map_lookup<std::unordered_map<EncoderKey, std::uint32_t, DigestHash>>(state);
}

/// This measures the index, so the policy is the one that does least.
void BM_EncoderCacheLookup(benchmark::State& state) {
  const auto keys = random_keys(1, static_cast<std::size_t>(state.range(0)));
  MemoryBudget budget(1_GiB);
  const auto cache = warm_cache(budget, keys, std::make_unique<Lru>());
  const auto asked = questions(keys, state.range(1) == 1);
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache->find(asked[next++ & 0xFFFFU]));
  }
}

/// The thread-safe front on one thread: with its lock, without verifying bytes.
void BM_EncodeOnceLookup(benchmark::State& state) {
  const auto keys = random_keys(1, static_cast<std::size_t>(state.range(0)));
  MemoryBudget budget(1_GiB);
  const auto cache = warm_cache(budget, keys);
  const SystemClock clock;
  EncodeOnce front(*cache, clock, {.verify_hits = false});
  const auto asked = questions(keys, true);
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(front.claim(asked[next++ & 0xFFFFU]));
  }
}

/// Steady state: every store evicts one entry.
void BM_EncoderCacheStoreEvicting(benchmark::State& state) {
  const auto keys = random_keys(1, static_cast<std::size_t>(state.range(0)));
  MemoryBudget budget(Bytes(kBytes * keys.size()));
  const auto cache = warm_cache(budget, keys);
  const std::vector<std::byte> bytes(kBytes);
  const TensorViews views = {TensorView::over(DType::kU8, Shape{kBytes}, bytes).value()};
  const auto fresh = random_keys(3, std::size_t{1} << 20U);
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache->insert(fresh[next++ & 0xFFFFFU], views, {.cost = Duration(1)}));
  }
}

void hit_and_miss(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t entries : {100, 10'000, 1'000'000}) {
    for (const std::int64_t hit : {1, 0}) bench->Args({entries, hit});
  }
  bench->ArgNames({"entries", "hit"});
}

BENCHMARK(BM_BareFlatMapLookup)->Apply(hit_and_miss);
BENCHMARK(BM_BareStdMapLookup)->Apply(hit_and_miss);
BENCHMARK(BM_EncoderCacheLookup)->Apply(hit_and_miss);
BENCHMARK(BM_EncodeOnceLookup)->Arg(100)->Arg(10'000)->Arg(1'000'000);
BENCHMARK(BM_EncoderCacheStoreEvicting)->Arg(100)->Arg(100'000);

}  // namespace
}  // namespace afterimage
