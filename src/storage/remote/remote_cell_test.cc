// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/remote_cell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include "storage/redis/testing/redis_servers.h"
#include "storage/redis/testing/scripted_server.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::long_timeout_options;
using testing::RedisCluster;
using testing::RedisServer;
using testing::Said;
using testing::ScriptedServer;

constexpr CellId kId{std::byte{0xAB}};

/// One process: a tier and the shared cell.
struct CellUser {
  explicit CellUser(RemoteTierOptions options, Duration ttl = 1h)
      : tier(RemoteTier::open(std::move(options), memory, clock).value()), cell(*tier, kId, ttl) {}
  explicit CellUser(const std::vector<RemoteAddress>& seeds)
      : CellUser(long_timeout_options(seeds)) {}
  /// Options with short timeouts, for servers that stop answering.
  static RemoteTierOptions hasty(const RedisCluster& cluster) {
    RemoteTierOptions options{.servers = {.seeds = cluster.addresses()}};
    options.servers.connect_timeout = options.servers.timeout = 500ms;
    return options;
  }

  /// The value; "-": there is none; "!": the read failed.
  std::string read() {
    const auto found = cell.read();
    if (!found.has_value()) return "!";
    if (!found->has_value()) return "-";
    version = (*found)->version;
    return std::string(reinterpret_cast<const char*>((*found)->bytes.data()),
                       (*found)->bytes.size());
  }
  Result<bool> replace(const std::optional<std::string>& expected, std::string_view next) {
    return cell.replace(expected, std::as_bytes(std::span(next)));
  }

  MemoryBudget memory{16_MiB};
  SystemClock clock;
  std::unique_ptr<RemoteTier> tier;
  RemoteCell cell;
  std::optional<std::string> version;
};

class RemoteCellOnServers : public ::testing::Test {
 protected:
  void SetUp() override { AFI_NEEDS_REDIS(); }
};

TEST_F(RemoteCellOnServers, ComparesBeforeItReplaces) {
  RedisServer server;
  CellUser one({server.address()});
  CellUser other({server.address()});
  EXPECT_EQ(one.read(), "-");
  EXPECT_TRUE(one.replace(std::nullopt, "a").value());
  EXPECT_FALSE(other.replace(std::nullopt, "b").value()) << "a value exists";
  EXPECT_EQ(other.read(), "a");
  EXPECT_FALSE(one.replace("b", "c").value()) << "the value differs";
  EXPECT_EQ(one.read(), "a");
  EXPECT_TRUE(other.replace(other.version, std::string("\0\r\nb", 4)).value());
  EXPECT_FALSE(one.replace(one.version, "c").value());
  EXPECT_EQ(one.read(), std::string("\0\r\nb", 4)) << "any bytes are allowed";
  const std::string large(RemoteCell::kMostBytes, 'x');
  EXPECT_TRUE(one.replace(one.version, large).value());
  EXPECT_EQ(other.read(), large);
  EXPECT_FALSE(one.replace(large, large + "x").has_value());
}

TEST_F(RemoteCellOnServers, ReadingRenewsTheTimeToLive) {
  RedisServer server;
  CellUser brief(long_timeout_options({server.address()}), 10min);
  CellUser lasting(long_timeout_options({server.address()}), 1h);
  ASSERT_TRUE(brief.replace(std::nullopt, "a").value());
  EXPECT_EQ(server.ask({"PEXPIRE", brief.cell.name(), "600000"}).number, 1);
  EXPECT_EQ(lasting.read(), "a");
  EXPECT_GT(server.ask({"PTTL", brief.cell.name()}).number, 3'000'000);
}

TEST_F(RemoteCellOnServers, RefusesValuesThatAreNotACell) {
  RedisServer server;
  CellUser one({server.address()});
  server.ask({"LPUSH", one.cell.name(), "x"});
  EXPECT_EQ(one.cell.read().error().code, ErrorCode::kUnavailable);
  server.ask({"DEL", one.cell.name()});
  server.ask({"SETRANGE", one.cell.name(), std::to_string(RemoteCell::kMostBytes), "x"});
  EXPECT_EQ(one.cell.read().error().code, ErrorCode::kUnavailable);
  server.ask({"DEL", one.cell.name()});
  EXPECT_EQ(one.read(), "-");
}

TEST_F(RemoteCellOnServers, ConcurrentReplacementsLoseNoUpdate) {
  RedisCluster cluster(3);
  constexpr int kEach = 20;
  const auto add = [&](char letter) {
    CellUser user(cluster.addresses());
    for (int done = 0; done < kEach;) {
      const std::string now = user.read();
      ASSERT_NE(now, "!");
      const bool none = now == "-";
      const auto replaced =
          user.replace(none ? std::nullopt : user.version, (none ? "" : now) + letter);
      ASSERT_TRUE(replaced.has_value()) << replaced.error().message;
      done += *replaced ? 1 : 0;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (const char letter : {'a', 'b', 'c'}) threads.emplace_back(add, letter);
  }
  const std::string all = CellUser(cluster.addresses()).read();
  for (const char letter : {'a', 'b', 'c'}) EXPECT_EQ(std::ranges::count(all, letter), kEach);
}

TEST_F(RemoteCellOnServers, FailsWithoutTheAcknowledgementOfEveryReplica) {
  RedisCluster cluster(3, 1, "60000");
  CellUser user(CellUser::hasty(cluster));
  testing::wait_until(
      [&] { return user.replace(std::nullopt, "a").value_or(false) || user.read() == "a"; });
  testing::wait_until([&] { return user.read() == "a"; });
  const std::size_t master = cluster.master_of(user.cell.name());
  for (std::size_t i = 3; i < cluster.size(); ++i) cluster.server(i).stop();
  EXPECT_EQ(user.read(), "!");
  const auto replaced = user.replace(user.version, "b");
  ASSERT_FALSE(replaced.has_value());
  EXPECT_EQ(replaced.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(cluster.server(master).ask({"GET", user.cell.name()}).text, "b")
      << "the master alone is not enough";
  for (std::size_t i = 3; i < cluster.size(); ++i) cluster.server(i).go_on();
  testing::wait_until([&] { return user.read() == "b"; });
}

TEST_F(RemoteCellOnServers, AReplacementSurvivesAReplicaTakeover) {
  RedisCluster cluster(3, 1);
  CellUser user(CellUser::hasty(cluster));
  testing::wait_until(
      [&] { return user.replace(std::nullopt, "a").value_or(false) || user.read() == "a"; });
  testing::wait_until([&] { return user.replace("a", "b").value_or(false) || user.read() == "b"; });
  cluster.server(cluster.master_of(user.cell.name())).kill();
  std::string now;
  testing::wait_until([&] {
    now = user.read();
    return now != "!";
  });
  EXPECT_EQ(now, "b");
}

/// Answers like a master whose WAIT is acknowledged by `replicas` replicas; records the commands in
/// `asked`.
ScriptedServer::Script master_with(int replicas, std::vector<std::string>& asked) {
  return [=, &asked](const ScriptedServer::Words& command, const std::string& honest) -> Said {
    asked.push_back(command[0]);
    if (command[0] == "PEXPIRE") return {":1\r\n"};
    if (command[0] == "EXEC") return {"*1\r\n+OK\r\n"};
    if (command[0] == "WAIT") return {":" + std::to_string(replicas) + "\r\n"};
    return {honest};
  };
}

// A master that was stopped while its replica took over answers like this until it learns of it.
TEST(RemoteCellOnAStaleMaster, RefusesTheValueOfAReplacedMaster) {
  ScriptedServer server(true, true);
  CellUser user({server.address()});
  std::vector<std::string> asked;
  server.set_script(master_with(1, asked));
  ASSERT_TRUE(user.replace(std::nullopt, "a").value());
  asked.clear();
  ASSERT_EQ(user.read(), "a");
  EXPECT_EQ(asked, (std::vector<std::string>{"GET", "PEXPIRE", "INFO", "WAIT"}))
      << "a write before the GET would prove nothing about its reply";
  server.set_script(master_with(0, asked));
  EXPECT_EQ(user.read(), "!");
  EXPECT_FALSE(user.replace("a", "b").has_value());
  server.set_script(master_with(1, asked));
  EXPECT_EQ(user.read(), "b") << "the outcome of the failed replace was unknown";
}

struct CellLie {
  const char* name;
  const char* to;
  Said said;
};

class HostileCell : public ::testing::TestWithParam<CellLie> {};

TEST_P(HostileCell, FailsInTimeAndRecovers) {
  const CellLie& lie = GetParam();
  ScriptedServer server;
  RemoteTierOptions options{.servers = {.seeds = {server.address()}}};
  options.servers.breaker.failure_threshold = 1000;
  CellUser user(std::move(options));
  const auto well = [](const ScriptedServer::Words& command, const std::string& honest) -> Said {
    if (command[0] == "PEXPIRE") return {":1\r\n"};
    if (command[0] == "EXEC") return {"*1\r\n+OK\r\n"};
    return {honest};
  };
  server.set_script([&](const ScriptedServer::Words& command, const std::string& honest) -> Said {
    return command[0] == lie.to ? lie.said : well(command, honest);
  });
  const Duration began = user.clock.now();
  if (std::string_view(lie.to) == "GET" || std::string_view(lie.to) == "PEXPIRE") {
    ASSERT_TRUE(user.replace(std::nullopt, "a").has_value() || std::string_view(lie.to) == "GET");
    EXPECT_EQ(user.read(), "!");
  } else {
    EXPECT_FALSE(user.replace(std::nullopt, "a").value_or(false));
  }
  EXPECT_LT(user.clock.now() - began, 20s);
  server.set_script(well);
  const std::string now = user.read();
  ASSERT_NE(now, "!");
  EXPECT_TRUE(user.replace(now == "-" ? std::nullopt : user.version, "b").value());
  EXPECT_EQ(user.read(), "b");
}

INSTANTIATE_TEST_SUITE_P(
    Remote, HostileCell,
    ::testing::Values(CellLie{"an_error", "GET", {"-ERR no\r\n"}},
                      CellLie{"a_number", "GET", {":1\r\n"}},
                      CellLie{"no_resp", "GET", {"hello\r\n"}},
                      CellLie{"a_bulk_that_ends_early", "GET", {"$9\r\nabc", Said::Then::kClose}},
                      CellLie{"a_bulk_of_a_gigabyte", "GET", {"$536870912\r\nabc"}},
                      CellLie{"silence", "GET", {"", Said::Then::kStall}},
                      CellLie{"a_word_for_a_number", "PEXPIRE", {"+OK\r\n"}},
                      CellLie{"refuses_to_watch", "WATCH", {"-NOPERM no\r\n"}},
                      CellLie{"does_not_begin", "MULTI", {"-ERR no\r\n"}},
                      CellLie{"is_full", "SET", {"-OOM no\r\n"}},
                      CellLie{"was_not_done", "EXEC", {"*-1\r\n"}},
                      CellLie{"does_something_else", "EXEC", {"*1\r\n:7\r\n"}},
                      CellLie{"does_twice", "EXEC", {"*2\r\n+OK\r\n+OK\r\n"}},
                      CellLie{"was_aborted", "EXEC", {"-EXECABORT no\r\n"}},
                      CellLie{"closes", "EXEC", {"", Said::Then::kClose}}),
    [](const auto& case_of) { return std::string(case_of.param.name); });

}  // namespace
}  // namespace afterimage
