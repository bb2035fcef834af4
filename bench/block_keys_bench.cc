// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// What does hashing the blocks of a 32k-token prompt cost, and what would it cost if keys only had to
// differ? The floor: chained XXH3-128; no secret, no media.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "caches/identity/block_keys.h"
#include "foundation/platform/random.h"
#include "xxh_x86dispatch.h"

namespace afterimage {
namespace {

constexpr std::size_t kPromptTokens = 32 << 10;

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

}  // namespace
}  // namespace afterimage
