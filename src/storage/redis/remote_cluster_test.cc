// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Clusters of real servers: slots that move, servers that are killed or stopped.
#include "storage/redis/remote_cluster.h"

#include <gtest/gtest.h>

#include "storage/redis/server_check.h"
#include "storage/redis/testing/redis_servers.h"
#include "storage/redis/testing/scripted_server.h"
#include "storage/remote/manifest.h"
#include "storage/remote/remote_tier.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::long_timeout_options;
using testing::RedisCluster;
using testing::tier_bytes;
using testing::tier_key;
using testing::wait_until;

class RemoteClusterTest : public ::testing::Test {
 protected:
  void SetUp() override { AFI_NEEDS_REDIS(); }
  std::unique_ptr<RemoteTier> open(const RemoteTierOptions& options) {
    return RemoteTier::open(options, memory, clock).value();
  }
  static void put(RemoteTier& tier, std::uint64_t n, std::size_t size = 1'000) {
    ASSERT_TRUE(tier.put(tier_key(n), {}, tier_bytes(n, size)).has_value());
  }
  bool finds(RemoteTier& tier, std::uint64_t n, std::size_t size = 1'000) {
    const auto found = tier.get(tier_key(n), budget);
    if (!found.has_value() || !found->has_value()) return false;
    EXPECT_TRUE(std::ranges::equal((*found)->bytes, tier_bytes(n, size))) << "wrong bytes";
    return true;
  }
  static RemoteTierOptions hasty(RedisCluster& cluster) {
    RemoteTierOptions options = long_timeout_options(cluster.addresses());
    options.servers.connect_timeout = 200ms;
    options.servers.timeout = 50ms;
    options.servers.breaker = {.open_duration = 200ms, .ramp_tenth = 10ms, .ramp_third = 10ms};
    options.known_absent = Duration(0);
    return options;
  }
  static std::size_t owner(RedisCluster& cluster, std::uint64_t n) {
    return cluster.master_of(manifest_name(tier_key(n)));
  }

  MemoryBudget memory{64_MiB};
  MemoryBudget budget{64_MiB};
  SystemClock clock;
};

TEST_F(RemoteClusterTest, ChunksAreSpreadOverAllServers) {
  RedisCluster cluster(3);
  RemoteTierOptions options = long_timeout_options({cluster.server(1).address()});
  options.chunk = 16_KiB;
  const auto tier = open(options);
  EXPECT_EQ(tier->remote_stats().cluster.masters, 3U);
  put(*tier, 1, 1'000'000);
  ASSERT_TRUE(tier->flush().has_value());
  EXPECT_TRUE(finds(*tier, 1, 1'000'000));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_GT(cluster.server(i).ask({"DBSIZE"}).number, 5);
  EXPECT_EQ(tier->remote_stats().cluster.redirected, 0U);
}

TEST_F(RemoteClusterTest, FollowsAMovedSlotAndRereadsTheTable) {
  RedisCluster cluster(3);
  const auto tier = open(long_timeout_options({cluster.server(0).address()}));
  const std::string name = manifest_name(tier_key(1));
  const std::size_t from = owner(cluster, 1);
  const std::size_t to = (from + 1) % 3;
  const std::string slot = std::to_string(slot_of(name));
  const std::string to_id = cluster.server(to).ask({"CLUSTER", "MYID"}).text;
  const std::string from_id = cluster.server(from).ask({"CLUSTER", "MYID"}).text;
  // While the slot migrates, the old owner redirects missing keys with ASK.
  cluster.server(to).ask({"CLUSTER", "SETSLOT", slot, "IMPORTING", from_id});
  cluster.server(from).ask({"CLUSTER", "SETSLOT", slot, "MIGRATING", to_id});
  put(*tier, 1);
  ASSERT_TRUE(tier->flush().has_value());
  EXPECT_TRUE(finds(*tier, 1));
  EXPECT_GE(tier->remote_stats().cluster.redirected, 2U);
  for (std::size_t i = 0; i < 3; ++i) {
    cluster.server(i).ask({"CLUSTER", "SETSLOT", slot, "NODE", to_id});
  }
  EXPECT_TRUE(finds(*tier, 1)) << "redirected with MOVED";
  wait_until([&] {  // until a look-up is no longer redirected
    const std::uint64_t redirected = tier->remote_stats().cluster.redirected;
    return finds(*tier, 1) && redirected == tier->remote_stats().cluster.redirected;
  });
}

TEST_F(RemoteClusterTest, AStoppedServerCostsOnlyItsOwnKeys) {
  RedisCluster cluster(3);
  const auto tier = open(hasty(cluster));
  for (std::uint64_t n = 0; n < 60; ++n) put(*tier, n);
  ASSERT_TRUE(tier->flush().has_value());
  const std::size_t stopped = owner(cluster, 0);
  cluster.server(stopped).stop();
  std::size_t others = 0;
  for (std::uint64_t n = 0; n < 60; ++n) {
    const Duration began = clock.now();
    const bool found = finds(*tier, n);
    EXPECT_LT(clock.now() - began, tier->longest_get(1_KiB) + 10s);
    if (owner(cluster, n) == stopped) {
      EXPECT_FALSE(found);
    } else {
      others += found ? 1 : 0;
    }
  }
  EXPECT_GT(others, 20U);
  EXPECT_GE(tier->remote_stats().cluster.times_opened, 1U);
  EXPECT_FALSE(tier->stats().degraded_reason.empty());
  cluster.server(stopped).go_on();
  wait_until([&] { return finds(*tier, 0); });  // a recovered server is used again
}

TEST_F(RemoteClusterTest, FindsEntriesOnAReplicaThatTookOver) {
  RedisCluster cluster(3, 1);
  const auto tier = open(hasty(cluster));
  for (std::uint64_t n = 0; n < 60; ++n) put(*tier, n);
  ASSERT_TRUE(tier->flush().has_value());
  EXPECT_TRUE(tier->erase(tier_key(59)).has_value()) << "every replica acknowledged it";
  const std::size_t dead = owner(cluster, 0);
  // A replica takes over with its entries if its process is in the marker.
  const std::string marker = marker_name(static_cast<std::uint16_t>(kSlots * dead / 3));
  wait_until([&] { return cluster.server(dead).ask({"GET", marker}).text.contains(' '); });
  cluster.server(dead).kill();
  for (std::uint64_t n = 1; n < 59; ++n) {
    if (owner(cluster, n) != dead) EXPECT_TRUE(finds(*tier, n)) << n;
  }
  wait_until([&] { return finds(*tier, 0); });  // from the replica that is now the master
  EXPECT_EQ(tier->stats().damaged, 0U);
}

/// The takeover of a lost server's slots is noticed without further look-ups.
TEST(RemoteClusterTable, IsRefreshedWhileAServerIsFailing) {
  testing::ScriptedServer server(true);
  server.set_script(
      [](const auto&, const auto&) { return testing::Said{"", testing::Said::Then::kClose}; });
  RemoteTierOptions options = long_timeout_options({server.address()});
  options.servers.refresh_interval = 24h;
  MemoryBudget memory(1_MiB);
  const SystemClock clock;
  const auto tier = RemoteTier::open(options, memory, clock).value();
  EXPECT_EQ(tier->get(tier_key(1), memory).value(), std::nullopt);
  wait_until([&] { return tier->remote_stats().cluster.tables >= 4; });
}

}  // namespace
}  // namespace afterimage
