// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Redis Sentinel: which server is the primary, and what remains when another one takes over.
#include "storage/redis/sentinels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "storage/redis/testing/redis_servers.h"
#include "storage/redis/testing/scripted_server.h"
#include "storage/remote/remote_tier.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::free_port;
using ::testing::HasSubstr;
using testing::long_timeout_options;
using testing::RedisCertificates;
using testing::RedisCluster;
using testing::RedisSentinel;
using testing::RedisServer;
using testing::Said;
using testing::ScriptedServer;
using testing::tier_bytes;
using testing::tier_key;
using testing::wait_until;

RespValue bulk_value(std::string text) {
  return {.kind = RespKind::kBulk, .text = std::move(text)};
}
RespValue list_value(std::vector<RespValue> items) {
  return {.kind = RespKind::kList, .text = {}, .number = 0, .items = std::move(items)};
}

TEST(SentinelAnswer, ReadsTheAddressAndTheEpoch) {
  const RespValue address = list_value({bulk_value("10.0.0.5"), bulk_value("6379")});
  const RespValue details =
      list_value({bulk_value("name"), bulk_value("main"), bulk_value("ip"), bulk_value("10.0.0.4"),
                  bulk_value("config-epoch"), bulk_value("7")});
  EXPECT_EQ(sentinel_answer(address, details).value(),
            (SentinelAnswer{.primary = {.host = "10.0.0.5", .port = 6379}, .epoch = 7}));
  const RespValue denied{.kind = RespKind::kError, .text = "NOPERM not allowed"};
  EXPECT_EQ(sentinel_answer(address, denied).value().epoch, 0U);
}

TEST(SentinelAnswer, RefusesWhatIsNoAddress) {
  EXPECT_EQ(sentinel_answer({.kind = RespKind::kNil}, {}).error().code, ErrorCode::kNotFound);
  for (const RespValue& address :
       {bulk_value("10.0.0.5"), list_value({}), list_value({bulk_value("a"), bulk_value("0")}),
        list_value({bulk_value("a"), bulk_value("65536")}),
        list_value({bulk_value(""), bulk_value("1")}),
        list_value({bulk_value("/run/socket"), bulk_value("1")}),
        list_value({bulk_value("a"), bulk_value("1"), bulk_value("2")}),
        RespValue{.kind = RespKind::kError, .text = "ERR unknown command"}}) {
    EXPECT_EQ(sentinel_answer(address, {}).error().code, ErrorCode::kUnavailable);
  }
}

class SentinelsTest : public ::testing::Test {
 protected:
  void SetUp() override { AFI_NEEDS_REDIS(); }
  static RemoteTierOptions options(std::vector<RemoteAddress> sentinels) {
    RemoteTierOptions options = long_timeout_options(std::move(sentinels));
    options.servers.sentinel_name = "main";
    options.servers.sentinel_interval = 50ms;
    options.servers.timeout = 2s;
    options.servers.breaker = {.open_duration = 100ms, .ramp_tenth = 0ms, .ramp_third = 0ms};
    options.known_absent = Duration(0);
    return options;
  }
  std::unique_ptr<RemoteTier> open(const RemoteTierOptions& options) {
    return RemoteTier::open(options, memory, clock).value();
  }
  bool finds(RemoteTier& tier, std::uint64_t n) {
    const auto found = tier.get(tier_key(n), memory);
    return found.has_value() && found->has_value();
  }
  bool keeps(RemoteTier& tier, std::uint64_t n) {
    return tier.put(tier_key(n), {}, tier_bytes(n, 100)) && tier.flush() && finds(tier, n);
  }
  /// Both processes are in the marker, so that either may take over with its entries.
  static void know_both(const RedisServer& primary) {
    wait_until([&] { return primary.ask({"GET", "afi1:r:0"}).text.contains(' '); });
  }
  static bool is_replica(const RedisServer& server) {
    return server.ask({"INFO", "replication"}).text.contains("role:slave");
  }
  /// The Sentinel knows the replica, and that it may be promoted.
  static void know_replica(const RedisSentinel& sentinel) {
    wait_until([&] {
      const RespValue replicas = sentinel.ask({"SENTINEL", "REPLICAS", "main"});
      return !replicas.items.empty() &&
             to_resp(replicas).contains("master-link-status\r\n$2\r\nok");
    });
  }

  MemoryBudget memory{16_MiB};
  SystemClock clock;
};

TEST_F(SentinelsTest, WhatWasErasedStaysErasedWhenAReplicaTakesOver) {
  RedisServer primary;
  RedisServer replica;
  replica.follow(primary);
  const RedisSentinel sentinel("main", primary.address());
  const auto tier = open(options({sentinel.address()}));
  ASSERT_TRUE(keeps(*tier, 1) && keeps(*tier, 2)) << tier->stats().degraded_reason;
  ASSERT_TRUE(tier->erase(tier_key(1)).has_value());
  know_both(primary);
  know_replica(sentinel);
  primary.kill();
  wait_until([&] { return keeps(*tier, 3); });
  EXPECT_EQ(replica.ask({"EXISTS", "afi1:r:0"}).number, 1) << "the replica is in use";
  EXPECT_TRUE(finds(*tier, 2)) << "its process is known, so its entries are kept";
  EXPECT_FALSE(finds(*tier, 1));
  EXPECT_TRUE(tier->erase(tier_key(2)).has_value());
  EXPECT_TRUE(finds(*tier, 3)) << tier->stats().degraded_reason;
  EXPECT_FALSE(finds(*tier, 1) || finds(*tier, 2));
}

TEST_F(SentinelsTest, ADemotedPrimaryIsLeft) {
  RedisServer first;
  RedisServer second;
  second.follow(first);
  const RedisSentinel sentinel("main", first.address());
  const auto tier = open(options({sentinel.address()}));
  ASSERT_TRUE(keeps(*tier, 1));
  know_both(first);
  know_replica(sentinel);
  EXPECT_EQ(sentinel.ask({"SENTINEL", "FAILOVER", "main"}).text, "OK");
  wait_until([&] { return is_replica(first) && !is_replica(second); });
  wait_until([&] { return keeps(*tier, 2) && tier->stats().degraded_reason.empty(); });
  const std::string clients = first.ask({"CLIENT", "LIST", "TYPE", "NORMAL"}).text;
  EXPECT_EQ(clients.find(" name= "), clients.rfind(" name= "))
      << "none but this question's and the Sentinel's: " << clients;
}

/// A Sentinel that says what the test wants.
class SaidSentinel {
 public:
  SaidSentinel(const RemoteAddress& primary, std::string epoch) {
    server_.set_script([address = primary, epoch = std::move(epoch), this](
                           const auto& words, const auto& honest) -> Said {
      if (words.front() != "SENTINEL") return {honest};
      ++asked_;
      const auto text = [](const std::string& word) { return to_resp(bulk_value(word)); };
      if (words[1] == "GET-MASTER-ADDR-BY-NAME") {
        return {"*2\r\n" + text(address.host) + text(std::to_string(address.port))};
      }
      if (epoch.empty()) return {"-NOPERM this user may not\r\n"};
      return {"*2\r\n" + text("config-epoch") + text(epoch)};
    });
  }
  [[nodiscard]] RemoteAddress address() const { return server_.address(); }
  [[nodiscard]] int asked() const { return asked_; }

 private:
  std::atomic<int> asked_ = 0;
  ScriptedServer server_;
};

// One that is cut off goes on naming the server that was the primary when it was.
TEST_F(SentinelsTest, TheLatestFailoverCounts) {
  RedisServer before;
  RedisServer after;
  const SaidSentinel stale(before.address(), "3");
  const SaidSentinel current(after.address(), "4");
  for (const auto& order : {std::vector{stale.address(), current.address()},
                            std::vector{current.address(), stale.address()}}) {
    EXPECT_TRUE(keeps(*open(options(order)), 1));
  }
  EXPECT_EQ(before.ask({"DBSIZE"}).number, 0);
}

TEST_F(SentinelsTest, OneThatMayOnlyTellTheAddressIsEnough) {
  RedisServer primary;
  const SaidSentinel reticent(primary.address(), "");
  const RemoteAddress nobody{.host = "127.0.0.1", .port = free_port()};
  EXPECT_TRUE(keeps(*open(options({nobody, reticent.address()})), 1));
}

TEST_F(SentinelsTest, AskingGoesOnWhileAllIsWell) {
  RedisServer primary;
  const SaidSentinel sentinel(primary.address(), "1");
  const auto tier = open(options({sentinel.address()}));
  const std::uint64_t asked = static_cast<std::uint64_t>(sentinel.asked());
  wait_until([&] { return static_cast<std::uint64_t>(sentinel.asked()) >= asked + 10; });
  EXPECT_TRUE(keeps(*tier, 1));
}

TEST_F(SentinelsTest, AReplicaThatIsCalledPrimaryIsNotUsed) {
  RedisServer primary;
  RedisServer replica;
  replica.follow(primary);
  const SaidSentinel wrong(replica.address(), "1");
  const auto tier = open(options({wrong.address()}));
  EXPECT_FALSE(keeps(*tier, 1));
  EXPECT_THAT(tier->stats().degraded_reason, HasSubstr("is a replica"));
}

TEST_F(SentinelsTest, WhatIsWrongIsSaid) {
  RedisServer primary;
  const RedisSentinel sentinel("other", primary.address());
  EXPECT_THAT(open(options({sentinel.address()}))->stats().degraded_reason,
              HasSubstr("'main': the Sentinel watches nothing of this name"));
  EXPECT_THAT(open(options({primary.address()}))->stats().degraded_reason,
              HasSubstr("SENTINEL GET-MASTER-ADDR-BY-NAME failed"));
  EXPECT_THAT(open(options({{.host = "127.0.0.1", .port = free_port()}}))->stats().degraded_reason,
              HasSubstr("Connection refused"));
  const auto plain = RemoteTier::open(long_timeout_options({sentinel.address()}), memory, clock);
  EXPECT_THAT((*plain)->stats().degraded_reason, HasSubstr("write redis+sentinel://"));
  RedisCluster cluster(1);
  const SaidSentinel of_cluster(cluster.server(0).address(), "1");
  const auto refused = RemoteTier::open(options({of_cluster.address()}), memory, clock);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("needs no Sentinels"));
}

TEST_F(SentinelsTest, TheyHaveAPasswordAndCertificatesOfTheirOwn) {
  const RedisCertificates certificates;
  certificates.sign("localhost", "DNS:localhost,IP:127.0.0.1");
  const std::uint16_t port = free_port();
  RedisServer primary(certificates.server_options("localhost", port));
  primary.ask({"ACL", "SETUSER", "cache", "on", ">theirs", "~afi1:*", "+@all"});
  const std::uint16_t sentinel_port = free_port();
  std::string more = "requirepass ours\n";
  const auto words = certificates.server_options("localhost", sentinel_port);
  for (std::size_t i = 0; i < words.size(); i += 2) {
    more += words[i].substr(2) + " " + words[i + 1] + "\n";
  }
  more += "tls-replication yes\n";
  const RedisSentinel sentinel("main", {.host = "127.0.0.1", .port = port}, more);
  RemoteTierOptions how = options({{.host = "localhost", .port = sentinel_port}});
  how.servers.tls = RemoteTls::load({.ca_file = certificates.path("ca.pem")}).value();
  how.servers.user = "cache";
  how.servers.password = "theirs";
  EXPECT_THAT(open(how)->stats().degraded_reason, HasSubstr("NOAUTH"));
  how.servers.sentinel_password = "wrong";
  EXPECT_THAT(open(how)->stats().degraded_reason, HasSubstr("authentication failed"));
  how.servers.sentinel_password = "ours";
  EXPECT_TRUE(keeps(*open(how), 1));
}

}  // namespace
}  // namespace afterimage
