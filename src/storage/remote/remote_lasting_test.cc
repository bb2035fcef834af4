// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Erased entries stay erased when a replica takes over and when a server starts from a snapshot, or
// erasing fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "storage/redis/testing/redis_servers.h"
#include "storage/remote/manifest.h"
#include "storage/remote/remote_cell.h"
#include "storage/remote/remote_tier.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::long_timeout_options;
using testing::RedisCluster;
using testing::RedisServer;
using testing::tier_bytes;
using testing::tier_key;
using testing::wait_until;

/// One process.
struct LastingUser {
  explicit LastingUser(RemoteTierOptions options)
      : tier(RemoteTier::open(std::move(options), memory, clock).value()),
        cell(*tier, CellId{std::byte{0xAB}}, 1h) {}
  explicit LastingUser(const RedisServer& server) : LastingUser(hasty(server.address())) {}
  static RemoteTierOptions hasty(const RemoteAddress& seed) {
    RemoteTierOptions options = long_timeout_options({seed});
    options.servers.timeout = 500ms;  // of WAIT, for replicas that do not answer
    options.servers.breaker.failure_threshold = 1000;
    options.known_absent = Duration(0);
    return options;
  }
  bool put(std::uint64_t n) {
    return tier->put(tier_key(n), {}, tier_bytes(n, 100)) && tier->flush();
  }
  bool finds(std::uint64_t n) {
    const auto found = tier->get(tier_key(n), memory);
    return found.has_value() && found->has_value();
  }
  Result<bool> replace(const std::optional<std::string>& expected, std::string_view next) {
    return cell.replace(expected, std::as_bytes(std::span(next)));
  }

  MemoryBudget memory{16_MiB};
  SystemClock clock;
  std::unique_ptr<RemoteTier> tier;
  RemoteCell cell;
};

class RemoteLasting : public ::testing::Test {
 protected:
  void SetUp() override { AFI_NEEDS_REDIS(); }
};

TEST_F(RemoteLasting, APromotedReplicaDoesNotHaveWhatWasErased) {
  RedisServer primary;
  RedisServer replica;
  replica.follow(primary);
  LastingUser one(primary);
  ASSERT_TRUE(one.put(1) && one.put(2));
  ASSERT_TRUE(one.tier->erase(tier_key(1)).has_value());
  primary.kill();
  replica.ask({"REPLICAOF", "NO", "ONE"});
  LastingUser next(replica);
  EXPECT_FALSE(next.finds(1));
  EXPECT_TRUE(next.finds(2)) << "its process is known, so the rest is kept";
}

TEST_F(RemoteLasting, ErasingFailsWhileAReplicaDoesNotAnswer) {
  RedisServer primary;
  RedisServer replica;
  replica.follow(primary);
  LastingUser one(primary);
  ASSERT_TRUE(one.put(1));
  ASSERT_TRUE(one.replace(std::nullopt, "a").value());
  replica.stop();
  EXPECT_EQ(one.tier->erase(tier_key(1)).error().code, ErrorCode::kUnavailable);
  // DEL finds nothing now, but WAIT counts replicas that have everything before it.
  LastingUser other(primary);
  EXPECT_FALSE(other.tier->erase(tier_key(1)).has_value()) << "erased again";
  EXPECT_FALSE(one.replace("a", "b").has_value());
  EXPECT_FALSE(one.cell.read().has_value());
  replica.go_on();
  wait_until([&] { return one.tier->erase(tier_key(1)).has_value(); });
  primary.kill();
  replica.ask({"REPLICAOF", "NO", "ONE"});
  EXPECT_FALSE(LastingUser(replica).finds(1));
}

TEST_F(RemoteLasting, ErasingAgainFailsWhileAReplicaOfAClusterDoesNotAnswer) {
  RedisCluster cluster(1, 1, "60000");
  LastingUser one(LastingUser::hasty(cluster.server(0).address()));
  ASSERT_TRUE(one.put(1));
  cluster.server(1).stop();
  EXPECT_FALSE(one.tier->erase(tier_key(1)).has_value());
  LastingUser other(LastingUser::hasty(cluster.server(0).address()));
  EXPECT_FALSE(other.tier->erase(tier_key(1)).has_value()) << "erased again";
  cluster.server(1).go_on();
  wait_until([&] { return one.tier->erase(tier_key(1)).has_value(); });
}

// It lacks the erasure, and may be promoted.
TEST_F(RemoteLasting, AReplicaThatWasJustCutOffCounts) {
  RedisServer primary;
  RedisServer replica;
  replica.follow(primary);
  LastingUser one(primary);
  ASSERT_TRUE(one.put(1) && one.put(2));
  ASSERT_TRUE(one.tier->erase(tier_key(2)).has_value());
  replica.ask({"REPLICAOF", "NO", "ONE"});
  wait_until([&] { return primary.ask({"INFO"}).text.contains("connected_slaves:0"); });
  const auto erased = one.tier->erase(tier_key(1));
  ASSERT_FALSE(erased.has_value());
  EXPECT_THAT(erased.error().message, HasSubstr("five minutes"));
}

/// Entries and a cell are erased after a snapshot, from which the server then starts.
TEST_F(RemoteLasting, AServerThatStartsFromASnapshotIsEmptied) {
  for (const bool is_running : {true, false}) {
    RedisServer server;
    LastingUser one(server);
    ASSERT_TRUE(one.put(1) && one.put(2));
    ASSERT_TRUE(one.replace(std::nullopt, "none erased").value());
    server.ask({"SAVE"});
    ASSERT_TRUE(one.tier->erase(tier_key(1)).has_value());
    ASSERT_TRUE(one.replace("none erased", "1 erased").value());
    server.kill();
    server.start();
    ASSERT_EQ(server.ask({"EXISTS", manifest_name(tier_key(1))}).number, 1) << "it came back";
    if (is_running) {  // a process that has seen it before
      EXPECT_FALSE(one.finds(1));
      wait_until([&] { return one.put(3); });
      EXPECT_FALSE(one.finds(1));
    }
    LastingUser next(server);
    EXPECT_FALSE(next.finds(1));
    EXPECT_FALSE(next.finds(2)) << "nothing says that it was not erased";
    EXPECT_EQ(next.cell.read().value(), std::nullopt);
    EXPECT_EQ(next.finds(3), is_running) << "the entry that was put since then is kept";
    EXPECT_EQ(server.ask({"EXISTS", manifest_name(tier_key(1))}).number, 0);
  }
}

TEST_F(RemoteLasting, OtherApplicationsKeysStay) {
  RedisServer server;
  server.ask({"SET", "theirs", "x"});
  server.ask({"SET", "afi1:m:1:of an earlier version", "x"});
  const LastingUser one(server);
  EXPECT_EQ(server.ask({"GET", "theirs"}).text, "x");
  EXPECT_EQ(server.ask({"EXISTS", "afi1:m:1:of an earlier version"}).number, 0);
}

// The name of the store led to another server for a while, where something was erased.
TEST_F(RemoteLasting, AnEarlierServerIsEmptiedWhenItComesBack) {
  RedisServer first;
  RedisServer second;
  std::atomic<const RedisServer*> now = &first;
  RemoteTierOptions options = LastingUser::hasty({.host = "cache.test", .port = 1});
  options.servers.resolve = [&](const RemoteAddress&) { return resolve(now.load()->address()); };
  options.servers.refresh_interval = 10ms;
  LastingUser one(options);
  ASSERT_TRUE(one.put(1));
  now = &second;
  wait_until([&] {
    return !one.finds(1) && one.put(2) &&
           second.ask({"EXISTS", manifest_name(tier_key(2))}).number == 1;
  });
  ASSERT_TRUE(one.tier->erase(tier_key(1)).has_value());
  now = &first;
  wait_until([&] { return one.put(3) && !one.finds(2); });
  EXPECT_FALSE(one.finds(1));
}

}  // namespace
}  // namespace afterimage
