// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// What do hashing and finding the blocks of a 32k-token prompt cost, and what would they cost if
// keys only had to differ? The floor: XXH3-128 chained in a flat map; no secret, no media.
#include <benchmark/benchmark.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "caches/identity/block_keys.h"
#include "caches/scheduling/block_pool.h"
#include "foundation/platform/random.h"
#include "xxh_x86dispatch.h"

namespace afterimage {
namespace {

constexpr std::size_t kPromptTokens = 32 << 10;
constexpr std::uint32_t kPoolBlocks = 100'000;

std::vector<TokenId> prompt(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<TokenId> tokens(kPromptTokens);
  for (TokenId& token : tokens) token = TokenId(static_cast<std::int32_t>(rng.below(150'000)));
  return tokens;
}

BlockChain chain_of(std::uint32_t block_tokens) {
  const ModelIdentity model{.model = "m", .encoder = "e"};
  const Namespace space = Namespace::of(model, TenantId("t"), Secret{}).value();
  const KvLayout layout{.groups = {{.row_bytes = 4_KiB}}, .alignment = TokenCount(block_tokens)};
  return BlockChain::open(space, {.block_tokens = TokenCount(block_tokens), .layout = layout})
      .value();
}

void BM_BlockKeys(benchmark::State& state) {
  const BlockChain chain = chain_of(static_cast<std::uint32_t>(state.range(0)));
  const Sequence sequence{.tokens = prompt(1)};
  std::vector<BlockKey> keys;
  for (auto _ : state) {
    keys.clear();
    AFI_CHECK(chain.extend(sequence, keys).has_value());
    benchmark::DoNotOptimize(keys.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(keys.size()));
}
BENCHMARK(BM_BlockKeys)->Arg(16)->Arg(64)->Unit(benchmark::kMicrosecond);

using FloorKey = std::pair<std::uint64_t, std::uint64_t>;
struct FloorHash {
  using is_avalanching = void;
  std::size_t operator()(const FloorKey& key) const noexcept { return key.first; }
};

FloorKey floor_key(const FloorKey& parent, const TokenId* tokens, std::size_t count) {
  const XXH128_hash_t hash =
      XXH3_128bits_withSeed(tokens, count * sizeof(TokenId), parent.first ^ parent.second);
  return {hash.low64, hash.high64};
}

void BM_FloorKeys(benchmark::State& state) {
  const auto block_tokens = static_cast<std::size_t>(state.range(0));
  const std::vector<TokenId> tokens = prompt(1);
  for (auto _ : state) {
    FloorKey key{};
    for (std::size_t i = 0; i < tokens.size(); i += block_tokens) {
      key = floor_key(key, &tokens[i], block_tokens);
    }
    benchmark::DoNotOptimize(key);
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<std::int64_t>(tokens.size() / block_tokens));
}
BENCHMARK(BM_FloorKeys)->Arg(16)->Arg(64)->Unit(benchmark::kMicrosecond);

/// Keys are given: an engine computes them at admission. Every block of every prompt is resident.
void BM_PoolMatch(benchmark::State& state) {
  const BlockChain chain = chain_of(16);
  BlockPool pool = BlockPool::open({.blocks = kPoolBlocks}).value();
  std::vector<std::vector<BlockKey>> prompts;
  for (std::uint64_t seed = 0; pool.published_blocks() + kPromptTokens / 16 <= kPoolBlocks;
       ++seed) {
    std::vector<BlockKey> keys;
    AFI_CHECK(chain.extend({.tokens = prompt(seed)}, keys).has_value());
    const auto blocks = pool.allocate(keys.size()).value();
    for (std::size_t i = 0; i < keys.size(); ++i) AFI_CHECK(*pool.publish(blocks[i], keys[i]));
    AFI_CHECK(pool.release(blocks).has_value());
    prompts.push_back(std::move(keys));
  }
  std::size_t next = 0;
  for (auto _ : state) {
    const auto& keys = prompts[next++ % prompts.size()];
    const auto match = pool.match({.keys = keys, .tokens = TokenCount(kPromptTokens + 1)});
    AFI_CHECK(match->blocks.size() == keys.size());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kPromptTokens / 16));
}
BENCHMARK(BM_PoolMatch)->Unit(benchmark::kMicrosecond);

/// A sequence's cost for a scheduler with a full pool: no hit, all blocks allocated and published.
void BM_PoolLifecycle(benchmark::State& state) {
  const BlockChain chain = chain_of(16);
  BlockPool pool = BlockPool::open({.blocks = kPoolBlocks}).value();
  std::vector<std::vector<BlockKey>> prompts(2 * kPoolBlocks / (kPromptTokens / 16));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    AFI_CHECK(chain.extend({.tokens = prompt(i)}, prompts[i]).has_value());
  }
  std::size_t next = 0;
  for (auto _ : state) {
    const auto& keys = prompts[next++ % prompts.size()];
    auto match = pool.take({.keys = keys, .tokens = TokenCount(kPromptTokens + 1)}).value();
    const auto fresh = pool.allocate(keys.size() - match.blocks.size()).value();
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      AFI_CHECK(*pool.publish(fresh[i], keys[match.blocks.size() + i]));
    }
    match.blocks.insert(match.blocks.end(), fresh.begin(), fresh.end());
    AFI_CHECK(pool.release(match.blocks).has_value());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kPromptTokens / 16));
}
BENCHMARK(BM_PoolLifecycle)->Unit(benchmark::kMicrosecond);

/// The same 100,000 blocks in a map, hashing included: a bare block-hash map.
void BM_FloorMatch(benchmark::State& state) {
  boost::unordered_flat_map<FloorKey, std::uint32_t, FloorHash> map;
  map.reserve(kPoolBlocks);
  std::vector<std::vector<TokenId>> prompts;
  for (std::uint64_t seed = 0; map.size() + kPromptTokens / 16 <= kPoolBlocks; ++seed) {
    prompts.push_back(prompt(seed));
    FloorKey key{};
    for (std::size_t i = 0; i < kPromptTokens; i += 16) {
      key = floor_key(key, &prompts.back()[i], 16);
      map.emplace(key, static_cast<std::uint32_t>(map.size()));
    }
  }
  std::size_t next = 0;
  for (auto _ : state) {
    const auto& tokens = prompts[next++ % prompts.size()];
    FloorKey key{};
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kPromptTokens; i += 16) {
      key = floor_key(key, &tokens[i], 16);
      sum += map.find(key)->second;
    }
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kPromptTokens / 16));
}
BENCHMARK(BM_FloorMatch)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace afterimage
