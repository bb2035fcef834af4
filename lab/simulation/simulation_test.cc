// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/simulation.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "afterimage/eviction_policy.h"
#include "bench/workload/zipf.h"
#include "lab/simulation/policy_shelf.h"
#include "lab/simulation/remote_shards.h"
#include "lab/simulation/segment_shelf.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

/// Images of one size, each requested once by one agent: independent references.
TrafficOptions single_images() {
  return {.requests = 20'000,
          .images = 1'000,
          .skew = 0.8,
          .rate = 2,
          .agents = 1,
          .turns = 1,
          .least_image_tokens = 512,
          .most_image_tokens = 512};
}

/// One node that caches only encoder outputs, in memory only.
ClusterOptions alone(Bytes memory) {
  ClusterOptions options;
  options.node.policy = "lru";
  options.node.memory = memory;
  options.node.disk = 0_B;
  options.node.kv_bytes = 0_B;
  options.remote.shards = 0;
  return options;
}

SimulationResult run(const ClusterOptions& options, const TrafficOptions& traffic) {
  auto requests = generated_traffic(traffic);
  EXPECT_TRUE(requests.has_value());
  auto result = simulate(options, **requests);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return *std::move(result);
}

void expect_conserved(const SimulationResult& r) {
  EXPECT_EQ(r.images.lookups, r.images.memory + r.images.awaited + r.images.disk + r.images.remote +
                                  r.images.computed);
  EXPECT_LE(r.images.declined, r.images.computed);
  EXPECT_EQ(r.kv.input, r.kv.memory + r.kv.disk + r.kv.remote + r.kv.computed);
  EXPECT_LE(r.kv.declined, r.kv.computed);
  EXPECT_EQ(r.bytes.out_of_shards, r.bytes.into_nodes);
  EXPECT_EQ(r.bytes.out_of_nodes, r.bytes.into_shards);
  EXPECT_EQ(r.first_token.count(), r.requests);
  std::uint64_t requests = 0;
  for (const SimulationWindow& window : r.windows) requests += window.requests;
  EXPECT_GE(requests, r.requests);
}

/// All fields of a result, as text.
std::string spelled(const SimulationResult& r) {
  std::string all;
  for (const std::uint64_t n :
       {r.images.memory, r.images.awaited, r.images.disk, r.images.remote, r.images.computed,
        r.images.declined, r.kv.memory, r.kv.disk, r.kv.remote, r.kv.computed, r.kv.declined,
        r.bytes.disk_read.value(), r.bytes.disk_written.value(), r.bytes.out_of_shards.value(),
        r.bytes.into_shards.value(), r.node_memory.value(), r.shard_memory.value()}) {
    all += std::to_string(n) + " ";
  }
  for (const double share : {0.5, 0.9, 0.99, 0.999}) {
    all += std::to_string(r.first_token.quantile(share).count()) + " ";
  }
  for (const SimulationWindow& window : r.windows) {
    all +=
        std::to_string(window.until.count()) + "/" + std::to_string(window.compute_seconds) + " ";
  }
  return all;
}

TEST(Zipf, DrawsEachRankAsOftenAsItShould) {
  for (const double skew : {0.0, 0.5, 1.0, 1.3}) {
    const Zipf zipf(50, skew);
    Rng rng(7);
    std::array<double, 51> seen{};
    constexpr int kDraws = 200'000;
    for (int i = 0; i < kDraws; ++i) ++seen.at(zipf.draw(rng));
    double sum = 0;
    for (int r = 1; r <= 50; ++r) sum += std::pow(r, -skew);
    EXPECT_EQ(seen[0], 0);
    for (int r = 1; r <= 50; ++r) {
      const double expected = kDraws * std::pow(r, -skew) / sum;
      EXPECT_NEAR(seen.at(static_cast<std::size_t>(r)), expected, 6 * std::sqrt(expected)) << r;
    }
  }
}

TEST(LatencyCounts, KnowQuantilesToOnePercent) {
  LatencyCounts counts;
  EXPECT_EQ(counts.quantile(0.5), Duration(0));
  for (int i = 1; i <= 10'000; ++i) counts.add(i * 1us);
  EXPECT_NEAR(to_milliseconds(counts.quantile(0.5)), 5, 0.05);
  EXPECT_NEAR(to_milliseconds(counts.quantile(0.99)), 9.9, 0.1);
  EXPECT_NEAR(to_milliseconds(counts.quantile(1)), 10, 0.1);
  EXPECT_NEAR(to_milliseconds(counts.mean()), 5, 0.01);
}

TEST(SegmentShelf, EvictsWholeSegmentsLeastRecentlyReadFirst) {
  // Three segments of four entries each; one of them is open.
  SegmentShelf disk(Bytes(3 * 64 * 4096), Bytes(64 * 4096));
  const Bytes size(14 * 4096);
  for (std::uint64_t key = 0; key < 12; ++key) EXPECT_TRUE(disk.append(key, size));
  EXPECT_FALSE(disk.append(3, size)) << "already present";
  disk.read(2);  // in the first segment
  EXPECT_TRUE(disk.append(12, size));
  for (std::uint64_t key = 0; key < 13; ++key) EXPECT_EQ(disk.holds(key), key / 4 != 1) << key;
  EXPECT_EQ(disk.evictions(), 4U);
  EXPECT_EQ(disk.used(), Bytes((3 * 64 - 2 * 4) * 4096))
      << "closed segments count at their actual size";
  EXPECT_FALSE(disk.append(99, Bytes(65 * 4096))) << "larger than a segment";
}

TEST(PolicyShelfProperty, StaysWithinItsBudgetAndKeepsPrefixesWhole) {
  for_each_seed(20, [](Rng& rng) {
    for (const std::string_view name : policy_names()) {
      MemoryBudget budget(Bytes(1'000));
      SharedBudget shared(budget);
      PolicyShelf images(make_policy(name).value(), budget, &shared);
      PolicyShelf prompts(make_policy(name).value(), budget, &shared);
      shared.join(images);
      shared.join(prompts);
      for (int i = 0; i < 300; ++i) {
        const RequestFacts facts{.now = i * 1s};
        images.begin_request(facts);
        prompts.begin_request(facts);
        images.insert({.key = 1 + rng.below(40), .bytes = Bytes(1 + rng.below(90)), .cost = 5ms});
        std::vector<ShelfEntry> chain;
        const std::uint64_t who = rng.below(8);
        for (std::uint64_t piece = 0; piece < 1 + rng.below(6); ++piece) {
          chain.push_back({.key = 1'000 * who + 100 + piece,
                           .bytes = Bytes(50 + 10 * (who + piece)),
                           .cost = 1ms});
        }
        prompts.insert_chain(chain);
        images.check_invariants();
        prompts.check_invariants();
        EXPECT_EQ(budget.used(), images.resident() + prompts.resident());
        for (std::uint64_t w = 0; w < 8; ++w) {
          for (std::uint64_t piece = 1; piece < 6; ++piece) {
            if (!prompts.holds(1'000 * w + 100 + piece)) continue;
            EXPECT_TRUE(prompts.holds(1'000 * w + 100 + piece - 1)) << name;
          }
        }
      }
      EXPECT_GT(prompts.evictions(), 0U) << name;
      images.clear();
      EXPECT_EQ(budget.used(), prompts.resident());
    }
  });
}

TEST(RemoteShards, AddingMovesAnEqualShareAndRemovingMovesNoOtherKeys) {
  RemoteOptions options{.shards = 4};
  RemoteShards shards(options);
  constexpr std::uint64_t kKeys = 40'000;
  std::vector<std::uint64_t> before(kKeys);
  std::array<int, 5> share{};
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    before[key] = shards.shard_of(key)->id;
    ++share.at(before[key]);
  }
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(share.at(static_cast<unsigned>(i)), 10'000, 500);
  shards.add();
  int moved = 0;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const std::uint64_t now = shards.shard_of(key)->id;
    if (now == before[key]) continue;
    EXPECT_EQ(now, 4U);
    ++moved;
  }
  EXPECT_NEAR(moved, kKeys / 5.0, 500);
  shards.lose();
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const auto* shard = shards.shard_of(key);
    EXPECT_EQ(shard == nullptr, before[key] == 0 && (shard == nullptr)) << key;
  }
  shards.replace();
  EXPECT_NE(shards.shard_of(0), nullptr);
}

/// Che's approximation: an LRU cache of C items holds item i with probability 1 - exp(-p_i T), with
/// T such that C items are held.
double che_hit_ratio(std::uint64_t count, double skew, double capacity) {
  std::vector<double> p(count);
  for (std::uint64_t r = 1; r <= count; ++r) p[r - 1] = std::pow(static_cast<double>(r), -skew);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& each : p) each /= sum;
  double low = 0;
  double high = 1e9;
  for (int i = 0; i < 200; ++i) {
    const double t = (low + high) / 2;
    double held = 0;
    for (const double each : p) held += 1 - std::exp(-each * t);
    (held < capacity ? low : high) = t;
  }
  double hits = 0;
  for (const double each : p) hits += each * (1 - std::exp(-each * low));
  return hits;
}

TEST(Simulation, LruHitRatioMatchesChesApproximation) {
  for (const std::uint64_t held : {50U, 200U, 500U}) {
    TrafficOptions traffic = single_images();
    traffic.requests = 120'000;
    // So slow that no two requests overlap.
    traffic.rate = 0.5;
    const Bytes entry(512 * (8_KiB).value());
    const SimulationResult r = run(alone(Bytes(held * entry.value())), traffic);
    expect_conserved(r);
    const double hits =
        static_cast<double>(r.images.memory) / static_cast<double>(r.images.lookups);
    EXPECT_NEAR(hits, che_hit_ratio(1'000, 0.8, static_cast<double>(held)), 0.01) << held;
  }
}

/// Two items, capacity one: a hit means the same item twice in a row, p² + (1 - p)².
TEST(Simulation, TwoImagesWithCapacityOneMatchTheMarkovChain) {
  TrafficOptions traffic = single_images();
  traffic.images = 2;
  traffic.skew = 1;  // two thirds and one third
  traffic.rate = 0.5;
  traffic.requests = 60'000;
  const SimulationResult r = run(alone(Bytes(512 * (8_KiB).value())), traffic);
  const double hits = static_cast<double>(r.images.memory) / static_cast<double>(r.images.lookups);
  EXPECT_NEAR(hits, 5.0 / 9, 0.01);
}

TEST(Simulation, ComputesEachImageOnceIfEverythingFits) {
  for (const std::uint32_t nodes : {1U, 3U, 7U}) {
    ClusterOptions options = alone(4096_GiB);
    options.nodes = nodes;
    options.routing = Routing::kRoundRobin;
    options.remote.shards = 3;
    options.remote.memory = 4096_GiB;
    options.node.measured_loads = false;
    options.warm_up = 0;
    TrafficOptions traffic = single_images();
    traffic.images = 300;
    traffic.skew = 0;
    traffic.rate = 200;  // many requests overlap
    const SimulationResult r = run(options, traffic);
    expect_conserved(r);
    EXPECT_EQ(r.images.computed, 300U) << nodes << " nodes";
    EXPECT_EQ(r.bytes.into_shards, Bytes(300 * 512 * (8_KiB).value()));
    EXPECT_EQ(r.images.remote > 0, nodes > 1);
  }
}

TEST(Simulation, WithoutLeasesNodesEncodeTheSameImageConcurrently) {
  ClusterOptions options = alone(4096_GiB);
  options.nodes = 7;
  options.routing = Routing::kRoundRobin;
  options.remote.leases = false;
  options.remote.shards = 3;
  options.warm_up = 0;
  TrafficOptions traffic = single_images();
  traffic.images = 300;
  traffic.skew = 0;
  traffic.rate = 200;
  EXPECT_GT(run(options, traffic).images.computed, 300U);
}

TEST(Simulation, AnUnreachableRemoteTierServesNothing) {
  for (const bool of_nodes : {true, false}) {
    ClusterOptions options = alone(0_B);
    options.node.memory = Bytes(1);  // nothing fits in the node's memory
    options.nodes = 3;
    options.remote.shards = 2;
    (of_nodes ? options.node.network : options.remote.network) = 0;
    TrafficOptions traffic = single_images();
    traffic.rate = 0.5;
    const SimulationResult r = run(options, traffic);
    expect_conserved(r);
    EXPECT_EQ(r.images.remote, 0U);
    EXPECT_EQ(r.images.computed + r.images.awaited, r.images.lookups);
    EXPECT_EQ(r.bytes, ByteCounts());
  }
}

TEST(Simulation, DeclinesLoadsOnlyIfTheLinkIsSlowerThanTheEngine) {
  for (const double rate : {1e6, 3e9}) {
    ClusterOptions options = alone(Bytes(1));
    options.nodes = 3;
    options.remote.shards = 2;
    options.remote.network = rate;  // 4 MiB take 4 s, or 1.4 ms; encoding them 26 ms
    TrafficOptions traffic = single_images();
    const SimulationResult r = run(options, traffic);
    expect_conserved(r);
    const double loaded =
        static_cast<double>(r.images.remote) / static_cast<double>(r.images.lookups);
    if (rate < 1e9) {
      EXPECT_LT(loaded, 0.05);
      EXPECT_GT(r.images.declined, r.images.lookups / 2);
    } else {
      EXPECT_GT(loaded, 0.8);
      EXPECT_EQ(r.images.declined, 0U);
    }
  }
}

/// Every feature at small scale: sessions, agents, both tiers, KV.
ClusterOptions busy_cluster() {
  ClusterOptions options;
  options.nodes = 4;
  options.routing = Routing::kRoundRobin;
  options.node.memory = 1_GiB;
  options.node.disk = 8_GiB;
  options.node.segment = 256_MiB;
  options.remote.shards = 3;
  options.remote.memory = 8_GiB;
  return options;
}
TrafficOptions busy_traffic() {
  return {.requests = 8'000, .images = 500, .rate = 30, .images_per_task = 2, .agents = 3};
}

TEST(Simulation, AccountsForEveryImageTokenAndByte) {
  for (const Routing routing : {Routing::kAffinity, Routing::kImage, Routing::kRoundRobin}) {
    for (const bool weighs_loads : {true, false}) {
      ClusterOptions options = busy_cluster();
      options.routing = routing;
      options.node.measured_loads = weighs_loads;
      const SimulationResult r = run(options, busy_traffic());
      expect_conserved(r);
      EXPECT_EQ(r.requests, 6'400U);
      EXPECT_GT(r.kv.memory, 0U);
      EXPECT_GT(r.bytes.into_shards, 0_B);
      EXPECT_LE(r.node_memory, options.node.memory);
      EXPECT_LE(r.node_disk, options.node.disk);
      EXPECT_LE(r.shard_memory, options.remote.memory);
      EXPECT_TRUE(weighs_loads || r.images.declined + r.kv.declined == 0);
    }
  }
}

TEST(Simulation, SameSeedGivesIdenticalResults) {
  const std::string once = spelled(run(busy_cluster(), busy_traffic()));
  EXPECT_EQ(spelled(run(busy_cluster(), busy_traffic())), once);
  TrafficOptions other = busy_traffic();
  other.seed = 2;
  EXPECT_NE(spelled(run(busy_cluster(), other)), once);
}

TEST(Simulation, ALostShardCostsItsShareAndHitsRecover) {
  ClusterOptions options = alone(Bytes(1));
  options.nodes = 2;
  options.remote.shards = 4;
  options.remote.memory = 4096_GiB;
  options.remote.replaced_after = 10s;
  TrafficOptions traffic = single_images();
  traffic.requests = 40'000;
  traffic.skew = 0;
  traffic.rate = 20;
  const SimulationResult whole = run(options, traffic);
  options.remote.lose_at = 0.5;
  const SimulationResult r = run(options, traffic);
  expect_conserved(r);
  EXPECT_EQ(r.remote_entries_then, 1'000U);
  EXPECT_NEAR(static_cast<double>(r.lost_entries), 250, 50);
  EXPECT_EQ(r.lost_bytes, Bytes(r.lost_entries * 512 * (8_KiB).value()));
  // Each lost image is encoded once more; images requested meanwhile, once per request.
  EXPECT_EQ(whole.images.computed, 0U);
  EXPECT_GE(r.images.computed, r.lost_entries);
  EXPECT_LE(r.images.computed, r.lost_entries + 10 * 20 / 2);
  ASSERT_TRUE(r.recovered_after.has_value());
  EXPECT_GT(*r.recovered_after, 10s);
  EXPECT_FALSE(whole.lost_at.has_value());
}

TEST(Simulation, AnAddedShardCostsHitsTemporarily) {
  ClusterOptions options = alone(Bytes(1));
  options.remote.shards = 3;
  options.remote.memory = 4096_GiB;
  options.remote.add_at = 0.5;
  TrafficOptions traffic = single_images();
  traffic.skew = 0;
  const SimulationResult r = run(options, traffic);
  EXPECT_NEAR(static_cast<double>(r.images.computed), 250, 60)
      << "a quarter of the keys move to the new shard";
}

/// Simulates one process with a trace about one image, in blocks of 100 tokens.
SimulationResult play(std::vector<TraceRequest> requests) {
  Trace trace;
  trace.block_tokens = 100;
  trace.distinct_blocks = 3;
  trace.items = {{.content = {}, .tokens = 100, .encode = 10ms}};
  trace.requests = std::move(requests);
  ClusterOptions options = alone(1_GiB);
  options.node.kv_bytes = 1_KiB;
  options.warm_up = 0;
  const auto traffic = traced_traffic(trace);
  SimulationResult result = simulate(options, *traffic).value();
  expect_conserved(result);
  return result;
}

TEST(Simulation, SimulatesATrace) {
  const SimulationResult r =
      play({{.at = 0s, .input_tokens = 250, .blocks = {0, 1}, .media = {{0, 100}}},
            {.at = 60s, .input_tokens = 250, .blocks = {0, 1}, .media = {{0, 100}}},
            {.at = 120s, .input_tokens = 250, .blocks = {0, 2}, .media = {{0, 150}}}});
  EXPECT_EQ(r.images.computed, 1U);
  EXPECT_EQ(r.images.covered, 1U) << "the second request hits its KV";
  EXPECT_EQ(r.images.memory, 1U) << "the third hits only the encoder output";
  EXPECT_EQ(r.kv.memory, 200U + 100U);
  EXPECT_EQ(r.kv.input, 750U);
}

TEST(Simulation, SplitsTracePromptsAfterMedia) {
  // Two questions about one image that diverge in the block where it ends.
  const SimulationResult r =
      play({{.at = 0s, .input_tokens = 180, .blocks = {0, 1}, .media = {{0, 20}}},
            {.at = 60s, .input_tokens = 190, .blocks = {0, 2}, .media = {{0, 20}}}});
  EXPECT_EQ(r.images.covered, 1U);
  EXPECT_EQ(r.kv.memory, 120U);
  EXPECT_EQ(r.kv.input, 370U);
}

TEST(Simulation, SplitsTracePromptsBeforeMediaAndStoresTheTail) {
  Trace trace;
  trace.block_tokens = 100;
  trace.distinct_blocks = 2;
  trace.items = {{.content = {}, .tokens = 30, .encode = 10ms},
                 {.content = {}, .tokens = 30, .encode = 10ms}};
  // A shared beginning, then two different images, and a tail that no block names.
  trace.requests = {{.at = 0s, .input_tokens = 150, .blocks = {0}, .media = {{0, 40}}},
                    {.at = 60s, .input_tokens = 150, .blocks = {1}, .media = {{1, 40}}}};
  const auto traffic = traced_traffic(trace);
  SimulatedRequest first;
  SimulatedRequest second;
  ASSERT_TRUE(traffic->next(first) && traffic->next(second));
  const auto lengths = [](const SimulatedRequest& request) {
    std::vector<std::uint32_t> all;
    for (const TrafficPiece& piece : request.prompt) all.push_back(piece.tokens);
    return all;
  };
  EXPECT_EQ(lengths(first), (std::vector<std::uint32_t>{40, 30, 30, 50}));
  EXPECT_EQ(lengths(second), lengths(first));
  EXPECT_EQ(first.prompt[0].key, second.prompt[0].key);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_NE(first.prompt[i].key, second.prompt[i].key) << i;
  }
}

TEST(Simulation, RejectsInvalidOptionsWithTheReason) {
  const struct {
    const char* name;
    std::function<void(ClusterOptions&)> make;
    const char* says;
  } kCases[] = {
      {"no nodes", [](auto& o) { o.nodes = 0; }, "1 to 10000, not"},
      {"a policy", [](auto& o) { o.node.policy = "best"; }, "lru"},
      {"a shard's policy", [](auto& o) { o.remote.policy = "best"; }, "lru"},
      {"warm-up", [](auto& o) { o.warm_up = 1; }, "warm-up"},
      {"rate", [](auto& o) { o.node.encode_rate = 0; }, "encode rate"},
      {"disk", [](auto& o) { o.node.disk = 1_MiB; }, "one segment"},
      {"loss", [](auto& o) { o.remote.lose_at = 1.5; }, "share of the requests"},
      {"loss of none", [](auto& o) { o.remote.shards = 0, o.remote.lose_at = 0.5; }, "none"},
      {"negative", [](auto& o) { o.node.network = -1; }, "0 or more"},
  };
  const auto traffic = generated_traffic({}).value();
  for (const auto& c : kCases) {
    ClusterOptions options;
    c.make(options);
    const auto r = simulate(options, *traffic);
    ASSERT_FALSE(r.has_value()) << c.name;
    EXPECT_EQ(r.error().code, ErrorCode::kInvalidArgument) << c.name;
    EXPECT_NE(r.error().message.find(c.says), std::string::npos) << r.error().message;
  }
  EXPECT_FALSE(generated_traffic({.images = 0}).has_value());
  EXPECT_FALSE(generated_traffic({.turns = 0.5}).has_value());
  EXPECT_FALSE(generated_traffic({.least_image_tokens = 9, .most_image_tokens = 8}).has_value());
  EXPECT_FALSE(routing_of("random").has_value());
}

}  // namespace
}  // namespace afterimage
