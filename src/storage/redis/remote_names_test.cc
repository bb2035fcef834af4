// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Which servers a list of addresses and names leads to, and what servers refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "foundation/platform/mutex.h"
#include "storage/redis/testing/redis_servers.h"
#include "storage/redis/testing/scripted_server.h"
#include "storage/remote/remote_tier.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::long_timeout_options;
using testing::RedisCluster;
using testing::RedisServer;
using testing::Said;
using testing::ScriptedServer;
using testing::tier_bytes;
using testing::tier_key;
using testing::wait_until;

/// Names that a test gives to servers.
class Names {
 public:
  void lead(const std::string& name, const std::vector<RemoteAddress>& to) {
    const MutexLock lock(mutex_);
    names_[name] = to;
  }
  [[nodiscard]] auto resolver() {
    return [this](const RemoteAddress& address) -> Result<std::vector<SocketAddress>> {
      const MutexLock lock(mutex_);
      const auto known = names_.find(address.host);
      if (known == names_.end()) return resolve(address);
      std::vector<SocketAddress> found;
      for (const RemoteAddress& each : known->second) {
        found.push_back(resolve(each).value().front());
      }
      return found;
    };
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::vector<RemoteAddress>> names_ AFI_GUARDED_BY(mutex_);
};

class RemoteNames : public ::testing::Test {
 protected:
  void SetUp() override { AFI_NEEDS_REDIS(); }
  RemoteTierOptions options(std::vector<RemoteAddress> seeds) {
    RemoteTierOptions options = long_timeout_options(std::move(seeds));
    options.servers.resolve = names.resolver();
    options.servers.breaker = {.open_duration = 20ms, .ramp_tenth = 0ms, .ramp_third = 0ms};
    options.known_absent = Duration(0);
    return options;
  }
  Result<std::unique_ptr<RemoteTier>> open(const RemoteTierOptions& options) {
    return RemoteTier::open(options, memory, clock);
  }
  bool keeps(RemoteTier& tier, std::uint64_t n) {
    if (!tier.put(tier_key(n), {}, tier_bytes(n, 100)) || !tier.flush()) return false;
    const auto found = tier.get(tier_key(n), memory);
    return found.has_value() && found->has_value();
  }
  static bool is_refused(const Result<std::unique_ptr<RemoteTier>>& opened) {
    return !opened.has_value() && opened.error().code == ErrorCode::kInvalidArgument;
  }

  Names names;
  MemoryBudget memory{16_MiB};
  SystemClock clock;
};

const RemoteAddress kCache{.host = "cache.test", .port = 6379};

TEST_F(RemoteNames, AStandaloneServersNewAddressIsUsed) {
  RedisServer before;
  RedisServer after;
  names.lead("cache.test", {before.address()});
  const auto tier = open(options({kCache})).value();
  EXPECT_TRUE(keeps(*tier, 1));
  names.lead("cache.test", {after.address()});
  before.kill();
  wait_until([&] { return keeps(*tier, 2); });
  EXPECT_TRUE(tier->stats().degraded_reason.empty()) << tier->stats().degraded_reason;
}

TEST_F(RemoteNames, AServerThatLivesOnUnderAnotherNameIsLeft) {
  RedisServer before;
  RedisServer after;
  names.lead("cache.test", {before.address()});
  RemoteTierOptions often = options({kCache});
  often.servers.refresh_interval = 10ms;
  const auto tier = open(often).value();
  EXPECT_TRUE(keeps(*tier, 1));
  names.lead("cache.test", {after.address()});
  wait_until([&] { return keeps(*tier, 2) && after.ask({"DBSIZE"}).number > 1; });
}

// "localhost" has two addresses, and a server often listens on one.
TEST_F(RemoteNames, EveryAddressOfANameIsTried) {
  RedisServer server;
  const RemoteAddress nobody{.host = "127.0.0.1", .port = testing::free_port()};
  names.lead("cache.test", {nobody, server.address()});
  const auto tier = open(options({kCache})).value();
  EXPECT_TRUE(keeps(*tier, 1));
}

TEST_F(RemoteNames, AnAddressOfAReplicaIsPassedOver) {
  RedisServer primary;
  RedisServer replica;
  replica.follow(primary);
  names.lead("cache.test", {replica.address(), primary.address()});
  EXPECT_TRUE(keeps(*open(options({kCache})).value(), 1));
  const auto alone = open(options({replica.address()})).value();
  EXPECT_THAT(alone->stats().degraded_reason, HasSubstr("is a replica: name its primary"));
}

TEST_F(RemoteNames, AClustersHostNamesAreResolvedAgain) {
  const std::string port = std::to_string(testing::free_port());
  const auto named = [&] {
    return std::make_unique<RedisServer>(std::vector<std::string>{
        "--cluster-enabled", "yes", "--cluster-port", std::to_string(testing::free_port()),
        "--cluster-announce-hostname", "cache.test", "--cluster-preferred-endpoint-type",
        "hostname", "--cluster-announce-port", port});
  };
  const auto before = named();
  const auto after = named();
  for (RedisServer* const server : {before.get(), after.get()}) {
    server->ask({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
    wait_until([&] { return server->ask({"CLUSTER", "INFO"}).text.contains("cluster_state:ok"); });
  }
  names.lead("cache.test", {before->address()});
  const auto tier = open(options({kCache})).value();
  EXPECT_TRUE(keeps(*tier, 1));
  EXPECT_TRUE(tier->remote_stats().cluster.is_cluster);
  names.lead("cache.test", {after->address()});
  before->kill();
  wait_until([&] { return keeps(*tier, 2); });
}

TEST_F(RemoteNames, SeveralStandaloneServersAreRefused) {
  RedisServer one;
  RedisServer other;
  const auto opened = open(options({one.address(), other.address()}));
  ASSERT_TRUE(is_refused(opened));
  EXPECT_THAT(opened.error().message, HasSubstr("is a standalone server"));
}

TEST_F(RemoteNames, SeveralStandaloneServersAreFoundOutLater) {
  RedisServer one;
  RedisServer other;
  one.kill();
  other.kill();
  const auto tier = open(options({one.address(), other.address()})).value();
  one.start();
  wait_until([&] { return tier->stats().degraded_reason.contains("is a standalone server"); });
  EXPECT_FALSE(keeps(*tier, 1)) << "no server is used";
  EXPECT_EQ(tier->erase(tier_key(1)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(one.ask({"DBSIZE"}).number, 0);
}

TEST_F(RemoteNames, ServersOfTwoClustersAreRefused) {
  RedisCluster one(1);
  RedisCluster other(1);
  RedisServer standalone;
  const RemoteAddress a = one.server(0).address();
  const RemoteAddress b = other.server(0).address();
  const auto opened = open(options({a, b}));
  ASSERT_TRUE(is_refused(opened));
  EXPECT_THAT(opened.error().message, HasSubstr("in another cluster"));
  EXPECT_TRUE(is_refused(open(options({a, standalone.address()}))));
  // The second one is seen only later.
  other.server(0).kill();
  RemoteTierOptions often = options({a, b});
  often.servers.refresh_interval = 10ms;
  const auto tier = open(often).value();
  EXPECT_TRUE(keeps(*tier, 1));
  other.server(0).start();
  wait_until([&] { return tier->stats().degraded_reason.contains("in another cluster"); });
  EXPECT_FALSE(keeps(*tier, 1));
}

TEST_F(RemoteNames, ServersOfOneClusterAreOneStore) {
  RedisCluster cluster(2, 1);
  auto seeds = cluster.addresses();
  seeds.push_back({.host = "127.0.0.1", .port = testing::free_port()});
  const auto tier = open(options(seeds)).value();
  for (std::uint64_t n = 0; n < 8; ++n) EXPECT_TRUE(keeps(*tier, n));
}

TEST_F(RemoteNames, AServerThatDeniesClusterIsStandalone) {
  RedisServer server({"--rename-command", "CLUSTER", ""});
  const auto tier = open(options({server.address()})).value();
  EXPECT_TRUE(keeps(*tier, 1));
  EXPECT_TRUE(tier->erase(tier_key(1)).has_value());
  EXPECT_EQ(tier->stats().degraded_reason, "");
}

TEST_F(RemoteNames, RefusedCommandsAreNamed) {
  RedisServer server({"--rename-command", "SCAN", "", "--rename-command", "WATCH", "hidden"});
  server.ask({"ACL", "SETUSER", "default", "-wait"});
  const auto tier = open(options({server.address()})).value();
  EXPECT_TRUE(keeps(*tier, 1));
  EXPECT_THAT(tier->stats().degraded_reason, HasSubstr("refuses SCAN, WATCH, WAIT"));
  EXPECT_THAT(tier->erase(tier_key(1)).error().message, HasSubstr("refuses INFO or SCAN"));
}

TEST_F(RemoteNames, ADatabaseIsSelected) {
  RedisServer server;
  RemoteTierOptions third = options({server.address()});
  third.servers.database = 3;
  server.ask({"SET", "afi1:m:of database 0", "x"});
  EXPECT_TRUE(keeps(*open(third).value(), 1));
  EXPECT_EQ(server.ask({"DBSIZE"}).number, 1) << "database 0 is as it was";
  EXPECT_TRUE(server.ask({"INFO", "keyspace"}).text.contains("db3:"));
  third.servers.database = 99;
  EXPECT_THAT(open(third).value()->stats().degraded_reason,
              HasSubstr("database 99 cannot be selected"));
}

TEST_F(RemoteNames, AClusterHasNoDatabases) {
  RedisCluster cluster(1);
  RemoteTierOptions third = options({cluster.server(0).address()});
  third.servers.database = 3;
  const auto opened = open(third);
  ASSERT_TRUE(is_refused(opened));
  EXPECT_THAT(opened.error().message, HasSubstr("leave '/3' out of the URL"));
}

TEST_F(RemoteNames, ASocketIsAnAddress) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("redis.sock");
  RedisServer server({"--unixsocket", path});
  server.ask({"ACL", "SETUSER", "cache", "on", ">secret", "~afi1:*", "+@all"});
  RemoteTierOptions over_socket = options({{.host = path, .port = 0}});
  over_socket.servers.user = "cache";
  over_socket.servers.password = "secret";
  over_socket.servers.database = 2;
  const auto tier = open(over_socket).value();
  EXPECT_TRUE(keeps(*tier, 1));
  EXPECT_TRUE(tier->erase(tier_key(1)).has_value());
  EXPECT_TRUE(server.ask({"INFO", "keyspace"}).text.contains("db2:"));
  EXPECT_THAT(
      open(options({{.host = folder.file("none"), .port = 0}})).value()->stats().degraded_reason,
      HasSubstr("none: No such file or directory"));
}

// Only the role tells, since the process is the same. Erasures at the successor do not reach it.
TEST_F(RemoteNames, ADemotedPrimaryIsNotReadFrom) {
  RedisServer server;
  const auto tier = open(options({server.address()})).value();
  ASSERT_TRUE(keeps(*tier, 1));
  server.ask({"REPLICAOF", "127.0.0.1", std::to_string(testing::free_port())});
  server.ask({"CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"});
  EXPECT_EQ(tier->get(tier_key(1), memory).value(), std::nullopt);
  wait_until([&] { return tier->stats().degraded_reason.contains("is a replica"); });
  server.ask({"REPLICAOF", "NO", "ONE"});
  wait_until([&] { return keeps(*tier, 2); });
}

// On a far server it said that all later commands are refused, and no erasure succeeded.
TEST_F(RemoteNames, ACommandThatIsNotAnsweredInTimeIsNotRefused) {
  ScriptedServer slow;
  slow.set_script([](const auto& words, const auto& honest) -> Said {
    return words.front() == "WAIT" ? Said{"", Said::Then::kStall} : Said{honest};
  });
  RemoteTierOptions brief = options({slow.address()});
  brief.servers.connect_timeout = brief.servers.timeout = 50ms;
  EXPECT_EQ(open(brief).value()->stats().degraded_reason, "");
}

// What managed services deny or lack.
TEST_F(RemoteNames, WhatIsDeniedIsDoneWithoutAndSaid) {
  const struct {
    std::vector<std::string> denied;
    std::string reason;  // empty: nothing is missed
    bool erases;
  } kCases[] = {
      {{"CONFIG", "EVAL", "EVALSHA", "SCRIPT"}, "", true},
      {{"ROLE", "CLIENT", "SELECT", "HELLO", "PING"}, "", true},
      {{"CLUSTER"}, "", true},
      {{"WAIT"}, "refuses WAIT ", true},
      {{"CLUSTER", "CONFIG", "EVAL", "WAIT"}, "refuses WAIT ", true},
      {{"INFO"}, "refuses INFO ", false},
      {{"SCAN"}, "refuses SCAN ", false},
      {{"CLUSTER", "INFO", "ROLE"}, "refuses INFO ", false},
      {{"CLUSTER", "CONFIG", "EVAL", "WAIT", "INFO", "SCAN"}, "refuses INFO, SCAN, WAIT ", false},
      {{"EXISTS", "GETRANGE"}, "refuses GETRANGE, EXISTS ", true},
      {{"WATCH", "UNWATCH", "MULTI", "EXEC"}, "refuses WATCH, UNWATCH, MULTI ", true},
  };
  for (const auto& c : kCases) {
    std::vector<std::string> words;
    std::string name;
    for (const std::string& command : c.denied) {
      words.insert(words.end(), {"--rename-command", command, ""});
      name += command + " ";
    }
    const bool pings = std::ranges::find(c.denied, "PING") == c.denied.end();
    RedisServer server(pings ? words : std::vector<std::string>());
    if (!pings)
      server.ask({"ACL", "SETUSER", "default", "-role", "-client", "-select", "-hello", "-ping"});
    const auto tier = open(options({server.address()})).value();
    const std::string at_start = tier->stats().degraded_reason;
    if (c.reason.empty()) {
      EXPECT_EQ(at_start, "") << name;
    } else {
      EXPECT_THAT(at_start, HasSubstr(c.reason)) << name;
    }
    EXPECT_FALSE(at_start.contains('\n')) << name;
    EXPECT_TRUE(keeps(*tier, 1)) << name << tier->stats().degraded_reason;
    EXPECT_EQ(tier->erase(tier_key(1)).has_value(), c.erases) << name;
    EXPECT_EQ(tier->get(tier_key(1), memory).value(), std::nullopt) << name;
  }
}

// Nobody can tell then which replicas lack the erasure.
TEST_F(RemoteNames, WithoutWaitNothingIsErasedFromReplicas) {
  RedisServer primary({"--rename-command", "WAIT", ""});
  RedisServer replica;
  replica.follow(primary);
  const auto tier = open(options({primary.address()})).value();
  EXPECT_TRUE(keeps(*tier, 1));
  const auto erased = tier->erase(tier_key(1));
  ASSERT_FALSE(erased.has_value());
  EXPECT_THAT(erased.error().message, HasSubstr("WAIT"));
}

// Nobody can tell then whether its replicas, and its next start, know of an erasure.
TEST_F(RemoteNames, WithoutInfoNoErasureIsPromised) {
  RedisServer server({"--rename-command", "INFO", "", "--rename-command", "CLUSTER", ""});
  const auto tier = open(options({server.address()})).value();
  EXPECT_TRUE(keeps(*tier, 1));
  EXPECT_THAT(tier->stats().degraded_reason, HasSubstr("refuses INFO"));
  const auto erased = tier->erase(tier_key(1));
  ASSERT_FALSE(erased.has_value());
  EXPECT_THAT(erased.error().message, HasSubstr("refuses INFO or SCAN"));
  EXPECT_EQ(tier->get(tier_key(1), memory).value(), std::nullopt) << "and it is deleted";
}

}  // namespace
}  // namespace afterimage
