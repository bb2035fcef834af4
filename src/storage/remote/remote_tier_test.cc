// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The tier on real servers, standalone and as a cluster.
#include "storage/remote/remote_tier.h"

#include <gtest/gtest.h>

#include <array>

#include "storage/redis/server_check.h"
#include "storage/redis/testing/redis_servers.h"
#include "storage/remote/manifest.h"
#include "testing/tier_conformance.h"

namespace afterimage {

using testing::long_timeout_options;
using testing::RedisCluster;
using testing::RedisServer;
using testing::tier_bytes;
using testing::tier_key;

namespace testing {

template <typename Servers>
struct Remote {
  template <typename... Args>
  explicit Remote(Bytes capacity, Args... args) : servers(args...), memory(capacity) {}

  Servers servers;
  MemoryBudget memory;
  SystemClock clock;
  std::unique_ptr<RemoteTier> tier;

  void open(std::vector<RemoteAddress> seeds) {
    auto opened = RemoteTier::open(long_timeout_options(std::move(seeds)), memory, clock);
    EXPECT_TRUE(opened.has_value()) << to_string(opened.error());
    tier = *std::move(opened);
  }
};

std::shared_ptr<Tier> make_alone(Bytes capacity) {
  const auto fixture = std::make_shared<Remote<RedisServer>>(capacity);
  fixture->open({fixture->servers.address()});
  return {fixture, fixture->tier.get()};
}

/// One cluster for all tests, because starting it is slow; emptied for each.
std::shared_ptr<Tier> make_clustered(Bytes capacity) {
  static const auto kCluster = std::make_shared<RedisCluster>(3);
  struct Fixture {
    MemoryBudget memory;
    SystemClock clock;
    std::unique_ptr<RemoteTier> tier;
  };
  for (std::size_t i = 0; i < kCluster->size(); ++i) kCluster->server(i).ask({"FLUSHALL"});
  const std::shared_ptr<Fixture> fixture(new Fixture{.memory = MemoryBudget(capacity)});
  fixture->tier = RemoteTier::open(long_timeout_options({kCluster->server(0).address()}),
                                   fixture->memory, fixture->clock)
                      .value();
  EXPECT_TRUE(fixture->tier->cluster().stats().is_cluster);
  return {fixture, fixture->tier.get()};
}

std::vector<TierFactory> remote_factories() {
  if (!redis_is_installed()) return {};
  return {{.name = "alone", .make = make_alone, .evicts = false},
          {.name = "cluster", .make = make_clustered, .evicts = false}};
}

INSTANTIATE_TEST_SUITE_P(Remote, TierConformance, ::testing::ValuesIn(remote_factories()),
                         [](const auto& test) { return test.param.name; });

}  // namespace testing

namespace {

class RemoteTierAlone : public ::testing::Test {
 protected:
  void SetUp() override {
    AFI_NEEDS_REDIS();
    server = std::make_unique<RedisServer>();
  }
  std::unique_ptr<RemoteTier> open(Bytes chunk = 64_KiB) {
    RemoteTierOptions options = long_timeout_options({server->address()});
    options.chunk = chunk;
    return RemoteTier::open(options, memory, clock).value();
  }
  std::optional<TierEntry> get(RemoteTier& tier, std::uint64_t n) {
    return tier.get(tier_key(n), budget).value();
  }
  bool finds(RemoteTier& tier, std::uint64_t n, std::size_t size) {
    const auto found = get(tier, n);
    return found.has_value() && std::ranges::equal(found->bytes, tier_bytes(n, size));
  }
  static void put(RemoteTier& tier, std::uint64_t n, std::size_t size) {
    ASSERT_TRUE(tier.put(tier_key(n), {}, tier_bytes(n, size)).has_value());
    ASSERT_TRUE(tier.flush().has_value());
  }
  /// Keys of all chunks, in no order.
  [[nodiscard]] std::vector<std::string> chunks() const {
    std::vector<std::string> names;
    for (const RespValue& name : server->ask({"KEYS", "afi1:c:*"}).items) {
      names.push_back(name.text);
    }
    return names;
  }

  std::unique_ptr<RedisServer> server;
  MemoryBudget memory{32_MiB};
  MemoryBudget budget{32_MiB};
  SystemClock clock;
};

TEST_F(RemoteTierAlone, OneProcessFindsWhatAnotherPut) {
  const auto one = open();
  const auto other = open();
  for (const std::size_t size : {0U, 1U, 65'536U, 65'537U, 1'000'000U}) {
    put(*one, size, size);
    EXPECT_FALSE(other->holds(tier_key(size)));
    EXPECT_TRUE(other->may_contain(tier_key(size))) << "presence is unknown";
    EXPECT_TRUE(finds(*other, size, size));
    EXPECT_TRUE(other->holds(tier_key(size)));
  }
  EXPECT_EQ(chunks().size(), 2U + 16U);
}

TEST_F(RemoteTierAlone, StoresEveryKeyWithATimeToLive) {
  const auto tier = open();
  put(*tier, 1, 200'000);
  for (const RespValue& name : server->ask({"KEYS", "*"}).items) {
    const std::int64_t left = server->ask({"PTTL", name.text}).number;
    EXPECT_GT(left, 23 * 3'600'000) << name.text;
    const std::int64_t most = name.text == marker_name(0) ? 7 * 24 : 24;
    EXPECT_LE(left, most * 3'600'000 + 60'000) << name.text;
  }
}

TEST_F(RemoteTierAlone, CountsAMissingChunkAsAMiss) {
  const auto tier = open();
  put(*tier, 1, 200'000);
  server->ask({"DEL", chunks().front()});
  EXPECT_EQ(get(*tier, 1), std::nullopt);
  EXPECT_EQ(tier->remote_stats().incomplete, 1U);
  EXPECT_FALSE(tier->holds(tier_key(1)));
}

TEST_F(RemoteTierAlone, CountsADamagedChunkAsAMiss) {
  const auto tier = open();
  put(*tier, 1, 200'000);
  const std::string name = chunks().front();
  const std::int64_t bit = server->ask({"GETBIT", name, "77"}).number;
  server->ask({"SETBIT", name, "77", std::to_string(1 - bit)});
  EXPECT_EQ(get(*tier, 1), std::nullopt);
  EXPECT_EQ(tier->stats().damaged, 1U);
}

TEST_F(RemoteTierAlone, RefusesAChunkOfAnotherWrite) {
  const auto tier = open();
  put(*tier, 1, 200'000);
  const auto names = chunks();
  const std::string other = server->ask({"GET", names[1]}).text;
  server->ask({"SET", names[0], other});
  EXPECT_EQ(get(*tier, 1), std::nullopt);
  EXPECT_EQ(tier->stats().hits, 0U);
}

TEST_F(RemoteTierAlone, RefusesTheManifestOfAnotherKey) {
  const auto tier = open();
  put(*tier, 1, 100);
  server->ask(
      {"SET", manifest_name(tier_key(2)), server->ask({"GET", manifest_name(tier_key(1))}).text});
  EXPECT_EQ(get(*tier, 2), std::nullopt);
  EXPECT_EQ(tier->stats().damaged, 1U);
  EXPECT_TRUE(finds(*tier, 1, 100));
}

TEST_F(RemoteTierAlone, EveryFlippedBitOfASmallEntryIsAMiss) {
  const auto tier = open();
  put(*tier, 1, 40);
  const std::string name = manifest_name(tier_key(1));
  const std::string good = server->ask({"GET", name}).text;
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    server->ask({"SET", name, bad});
    ASSERT_EQ(get(*tier, 1), std::nullopt) << bit;
  }
  EXPECT_EQ(tier->stats().damaged, good.size() * 8);
  for (std::size_t size = 0; size < good.size(); ++size) {
    server->ask({"SET", name, good.substr(0, size)});
    ASSERT_EQ(get(*tier, 1), std::nullopt) << size;
  }
}

TEST_F(RemoteTierAlone, ChunksWithoutAManifestAreAMiss) {
  const auto tier = open();
  put(*tier, 1, 200'000);
  server->ask({"DEL", manifest_name(tier_key(1))});
  EXPECT_EQ(get(*tier, 1), std::nullopt);
  EXPECT_EQ(chunks().size(), 4U) << "they stay until they expire";
}

TEST_F(RemoteTierAlone, ProbeLearnsWhichKeysExist) {
  const auto one = open();
  const auto other = open();
  put(*one, 1, 100);
  put(*one, 3, 100);
  const std::array keys{tier_key(1), tier_key(2), tier_key(3)};
  other->probe(keys);
  EXPECT_TRUE(other->may_contain(tier_key(1)));
  EXPECT_FALSE(other->may_contain(tier_key(2)));
  EXPECT_TRUE(other->may_contain(tier_key(3)));
  EXPECT_EQ(other->stats().hits + other->stats().misses, 0U);
}

TEST_F(RemoteTierAlone, InvalidatingNegativesAllowsANewProbe) {
  const auto one = open();
  const auto other = open();
  put(*one, 2, 100);
  const std::array keys{tier_key(1), tier_key(2)};
  other->probe(keys);
  put(*one, 1, 100);
  other->probe(keys);
  EXPECT_FALSE(other->may_contain(tier_key(1))) << "it is known to be absent";
  other->invalidate_negative(keys);
  EXPECT_TRUE(other->holds(tier_key(2))) << "positive records stay";
  EXPECT_TRUE(other->may_contain(tier_key(1)));
  EXPECT_FALSE(other->holds(tier_key(1)));
  other->probe(keys);
  EXPECT_TRUE(other->holds(tier_key(1)));
}

TEST_F(RemoteTierAlone, GetAllKeepsTheOrderOfKeys) {
  const auto tier = open();
  std::vector<TierKey> keys;
  for (std::uint64_t n = 0; n < 20; ++n) {
    if (n % 3 != 0) put(*tier, n, n * 10'000);
    keys.push_back(tier_key(n));
  }
  const auto found = tier->get_all(keys, budget);
  ASSERT_EQ(found.size(), 20U);
  for (std::uint64_t n = 0; n < 20; ++n) {
    ASSERT_TRUE(found[n].has_value());
    ASSERT_EQ(found[n]->has_value(), n % 3 != 0) << n;
    if (n % 3 == 0) continue;
    EXPECT_TRUE(std::ranges::equal((*found[n])->bytes, tier_bytes(n, n * 10'000)));
  }
}

TEST_F(RemoteTierAlone, AFullServerFailsOnlyThePut) {
  server->ask({"CONFIG", "SET", "maxmemory", "3mb"});
  server->ask({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  const auto tier = open();
  put(*tier, 1, 100'000);
  ASSERT_TRUE(tier->put(tier_key(2), {}, tier_bytes(2, 8'000'000)).has_value());
  EXPECT_FALSE(tier->flush().has_value());
  EXPECT_TRUE(tier->flush().has_value()) << "a loss is reported once";
  EXPECT_FALSE(tier->holds(tier_key(2)));
  EXPECT_EQ(tier->remote_stats().lost, 1U);
  EXPECT_TRUE(finds(*tier, 1, 100'000));
}

TEST_F(RemoteTierAlone, FindsTheNewestEntriesOnAnEvictingServer) {
  server->ask({"CONFIG", "SET", "maxmemory", "10mb"});
  server->ask({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  const auto tier = open(1_MiB);
  for (std::uint64_t n = 0; n < 100; ++n) {
    ASSERT_TRUE(tier->put(tier_key(n), {}, tier_bytes(n, 300'000)).has_value());
  }
  ASSERT_TRUE(tier->flush().has_value());
  EXPECT_TRUE(finds(*tier, 99, 300'000));
  std::size_t present = 0;
  for (std::uint64_t n = 0; n < 100; ++n) present += finds(*tier, n, 300'000) ? 1 : 0;
  EXPECT_GT(present, 5U);
  EXPECT_LT(present, 50U);
  EXPECT_EQ(tier->stats().damaged, 0U);
}

TEST_F(RemoteTierAlone, RefusesAPutWithoutMemoryAtOnce) {
  RemoteTierOptions options = long_timeout_options({server->address()});
  options.put_timeout = Duration(0);
  // Long timeouts: pending writes stay pending until the server continues.
  options.servers.connect_timeout = options.servers.timeout = std::chrono::seconds(60);
  MemoryBudget narrow(1_MiB);
  const auto tier = RemoteTier::open(options, narrow, clock).value();
  ASSERT_TRUE(tier->put(tier_key(100), {}, tier_bytes(1, 10)).has_value());
  ASSERT_TRUE(tier->flush().has_value());
  server->stop();
  int taken = 0;
  Error refused{ErrorCode::kCancelled, {}};
  for (std::uint64_t n = 0; n < 10; ++n) {
    const auto put = tier->put(tier_key(n), {}, tier_bytes(n, 600'000));
    taken += put.has_value() ? 1 : 0;
    if (!put.has_value()) refused = put.error();
  }
  EXPECT_EQ(refused.code, ErrorCode::kUnavailable);
  EXPECT_GT(tier->stats().refused, 0U);
  EXPECT_LE(tier->stats().used, 1_MiB);
  EXPECT_EQ(tier->stats().puts, static_cast<std::uint64_t>(taken) + 1);
  server->go_on();
}

TEST_F(RemoteTierAlone, MissesInTimeOnAStoppedServerAndThenAtOnce) {
  RemoteTierOptions options = long_timeout_options({server->address()});
  options.servers.connect_timeout = std::chrono::milliseconds(200);
  options.servers.timeout = std::chrono::milliseconds(50);
  const auto tier = RemoteTier::open(options, memory, clock).value();
  put(*tier, 1, 1'000);
  EXPECT_TRUE(finds(*tier, 1, 1'000));
  server->stop();
  const Duration began = clock.now();
  for (int i = 0; i < 5; ++i) {
    const Duration before = clock.now();
    EXPECT_EQ(get(*tier, 1), std::nullopt);
    EXPECT_LT(clock.now() - before, tier->longest_get(1_MiB) + std::chrono::seconds(5));
  }
  EXPECT_FALSE(tier->may_contain(tier_key(2))) << "the circuit breaker is open";
  EXPECT_FALSE(tier->stats().degraded_reason.empty());
  EXPECT_EQ(get(*tier, 2), std::nullopt);
  EXPECT_GE(tier->remote_stats().circuit_rejected, 1U);
  const auto erased = tier->erase(tier_key(1));
  ASSERT_FALSE(erased.has_value());
  EXPECT_EQ(erased.error().code, ErrorCode::kTimeout);
  EXPECT_LT(clock.now() - began, std::chrono::seconds(60));
  server->go_on();
}

TEST_F(RemoteTierAlone, UsesARestartedServerAgain) {
  RemoteTierOptions options = long_timeout_options({server->address()});
  options.servers.breaker.open_duration = std::chrono::milliseconds(50);
  options.servers.breaker.ramp_tenth = options.servers.breaker.ramp_third = Duration(0);
  options.known_absent = Duration(0);
  const auto tier = RemoteTier::open(options, memory, clock).value();
  put(*tier, 1, 1'000);
  server->kill();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(get(*tier, 1), std::nullopt);
  server->start();
  const Duration deadline = clock.now() + std::chrono::seconds(60);
  while (clock.now() < deadline) {
    ASSERT_TRUE(tier->put(tier_key(1), {}, tier_bytes(1, 1'000)).has_value());
    if (tier->flush().has_value() && finds(*tier, 1, 1'000)) return;
  }
  FAIL() << "the restarted server was not used within a minute";
}

// Every put failed, and nothing said so.
TEST_F(RemoteTierAlone, AFullServerIsReportedUntilAPutArrives) {
  const auto tier = open();
  put(*tier, 1, 1'000);
  EXPECT_EQ(tier->stats().degraded_reason, "");
  server->ask({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  server->ask({"CONFIG", "SET", "maxmemory", "1"});
  ASSERT_TRUE(tier->put(tier_key(2), {}, tier_bytes(2, 1'000)).has_value());
  EXPECT_FALSE(tier->flush().has_value());
  EXPECT_TRUE(finds(*tier, 1, 1'000)) << "a get that succeeds does not hide it";
  const std::string reason = tier->stats().degraded_reason;
  EXPECT_TRUE(reason.contains("memory is full") && reason.contains("allkeys-lru")) << reason;
  server->ask({"CONFIG", "SET", "maxmemory", "0"});
  put(*tier, 2, 1'000);
  EXPECT_EQ(tier->stats().degraded_reason, "");
}

TEST_F(RemoteTierAlone, ReportsAMissingOrWrongPassword) {
  server->ask({"CONFIG", "SET", "requirepass", "a secret of the servers"});
  RemoteTierOptions options = long_timeout_options({server->address()});
  const auto outside = RemoteTier::open(options, memory, clock).value();
  EXPECT_TRUE(outside->stats().degraded_reason.contains("NOAUTH"))
      << outside->stats().degraded_reason;
  EXPECT_EQ(get(*outside, 1), std::nullopt);
  options.servers.password = "another";
  const auto wrong = RemoteTier::open(options, memory, clock).value();
  EXPECT_TRUE(wrong->stats().degraded_reason.contains("authentication failed"))
      << wrong->stats().degraded_reason;
  options.servers.password = "a secret of the servers";
  const auto tier = RemoteTier::open(options, memory, clock).value();
  put(*tier, 1, 100);
  EXPECT_TRUE(finds(*tier, 1, 100));
}

TEST(RemoteTierOptions, RefusesInvalidOptions) {
  MemoryBudget memory(1_MiB);
  const SystemClock clock;
  EXPECT_EQ(RemoteTier::open({}, memory, clock).error().code, ErrorCode::kInvalidArgument);
  RemoteTierOptions large = long_timeout_options({{.host = "127.0.0.1", .port = 1}});
  large.chunk = 5_MiB;
  EXPECT_EQ(RemoteTier::open(large, memory, clock).error().code, ErrorCode::kInvalidArgument);
}

TEST(RemoteTierOptions, OpensWithoutReachableServers) {
  MemoryBudget memory(1_MiB);
  const SystemClock clock;
  const RemoteTierOptions nobody =
      long_timeout_options({{.host = "127.0.0.1", .port = testing::free_port()}});
  const auto tier = RemoteTier::open(nobody, memory, clock).value();
  EXPECT_FALSE(tier->may_contain(tier_key(1)));
  EXPECT_EQ(tier->get(tier_key(1), memory).value(), std::nullopt);
  EXPECT_FALSE(tier->stats().degraded_reason.empty());
}

}  // namespace
}  // namespace afterimage
