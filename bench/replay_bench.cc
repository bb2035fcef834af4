// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// How many block uses per second does a replay process, by policy?
#include <benchmark/benchmark.h>

#include <string>

#include "bench/replay/replay.h"
#include "foundation/platform/random.h"

namespace afterimage {
namespace {

/// 200 concurrent conversations, each of which grows by eight blocks per turn up to 320, in random
/// order, like an agent's sessions.
Trace sessions(std::size_t requests) {
  Rng rng(1);
  Trace trace;
  std::vector<std::vector<std::uint32_t>> talks(200);
  for (std::size_t r = 0; r < requests; ++r) {
    auto& blocks = talks[rng.below(talks.size())];
    if (blocks.size() >= 320) blocks.clear();
    for (int i = 0; i < 8; ++i) blocks.push_back(trace.distinct_blocks++);
    TraceRequest request;
    request.at = std::chrono::milliseconds(500 * r);
    request.input_tokens = static_cast<std::uint32_t>(blocks.size()) * trace.block_tokens;
    request.output_tokens = static_cast<std::uint32_t>(rng.below(4000));
    request.stop = rng.chance(0.8) ? StopReason::kToolUse : StopReason::kEndTurn;
    request.blocks = blocks;
    trace.requests.push_back(std::move(request));
  }
  return trace;
}

void BM_Replay(benchmark::State& state, const std::string& policy) {
  const Trace trace = sessions(8000);
  const SystemClock clock;
  ReplayOptions options;
  options.policies = {policy};
  options.capacities = {{"10%", trace.distinct_blocks / 10}};
  std::uint64_t uses = 0;
  for (auto _ : state) {
    const auto results = replay(trace, options, clock);
    uses += results->front().hits + results->front().misses;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(uses));
}

const bool kRegistered = [] {
  for (const std::string_view policy : replay_policies()) {
    benchmark::RegisterBenchmark(("BM_Replay/" + std::string(policy)).c_str(), BM_Replay,
                                 std::string(policy))
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace afterimage
