// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Keys left on the servers after entries are replaced, erased or refused.
#include "storage/remote/remote_entries.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

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
using testing::RedisServer;
using testing::Said;
using testing::ScriptedServer;
using testing::tier_bytes;
using testing::tier_key;

/// Puts and gets versions of entries. Each version has its own bytes; its cost is its number.
struct EntryUser {
  explicit EntryUser(const std::vector<RemoteAddress>& seeds, Bytes chunk = 64_KiB)
      : tier(RemoteTier::open(with_chunk(seeds, chunk), memory, clock).value()) {}
  static RemoteTierOptions with_chunk(const std::vector<RemoteAddress>& seeds, Bytes chunk) {
    RemoteTierOptions options = long_timeout_options(seeds);
    options.chunk = chunk;
    options.known_absent = Duration(0);
    return options;
  }

  bool put(std::uint64_t n, std::uint64_t version, std::size_t size) const {
    return tier->put(tier_key(n), {.tensors = {}, .cost = Duration(version)},
                     tier_bytes(version, size)) &&
           tier->flush();
  }
  /// The stored version; nullopt: none.
  std::optional<std::uint64_t> find(std::uint64_t n) {
    const auto found = tier->get(tier_key(n), memory).value();
    if (!found.has_value()) return std::nullopt;
    const auto version = static_cast<std::uint64_t>(found->meta.cost.count());
    EXPECT_TRUE(std::ranges::equal(found->bytes, tier_bytes(version, found->bytes.size())))
        << "wrong bytes";
    return version;
  }

  MemoryBudget memory{64_MiB};
  SystemClock clock;
  std::unique_ptr<RemoteTier> tier;
};

class RemoteEntriesOnServers : public ::testing::Test {
 protected:
  void SetUp() override { AFI_NEEDS_REDIS(); }
  /// Of manifests and chunks.
  static std::int64_t keys(const RedisServer& server) {
    return static_cast<std::int64_t>(server.ask({"KEYS", "afi1:[mc]:*"}).items.size());
  }
  static std::string value(const RedisServer& server, std::uint64_t n) {
    return server.ask({"GET", manifest_name(tier_key(n))}).text;
  }
};

TEST_F(RemoteEntriesOnServers, SmallEntriesThatWaitAreStoredTogetherAndFollowAMovedSlot) {
  RedisCluster cluster(3);
  EntryUser one(cluster.addresses());
  const std::string name = manifest_name(tier_key(7));
  const std::size_t from = cluster.master_of(name);
  const std::string slot = std::to_string(slot_of(name));
  const RedisServer& to = cluster.server((from + 1) % 3);
  const std::string to_id = to.ask({"CLUSTER", "MYID"}).text;
  for (std::size_t i = 0; i < 3; ++i) cluster.server(i).stop();
  for (std::uint64_t n = 0; n < 60; ++n) {
    ASSERT_TRUE(one.tier->put(tier_key(n), {.cost = Duration(n)}, tier_bytes(n, 1'000 + n)));
  }
  ASSERT_TRUE(one.tier->put(tier_key(60), {.cost = Duration(60)}, tier_bytes(60, 200'000)));
  for (std::size_t i = 0; i < 3; ++i) cluster.server(i).go_on();
  for (std::size_t i = 0; i < 3; ++i) {
    cluster.server(i).ask({"CLUSTER", "SETSLOT", slot, "NODE", to_id});
  }
  ASSERT_TRUE(one.tier->flush());
  EXPECT_EQ(one.tier->remote_stats().lost, 0U);
  for (std::uint64_t n = 0; n <= 60; ++n) EXPECT_EQ(one.find(n), n);
}

TEST_F(RemoteEntriesOnServers, ReplacingAnEntryDeletesItsChunks) {
  const RedisServer server;
  EntryUser one({server.address()});
  EntryUser other({server.address()});
  ASSERT_TRUE(one.put(1, 1, 200'000));
  ASSERT_TRUE(one.put(2, 9, 200'000));
  EXPECT_EQ(keys(server), 5 + 5);
  ASSERT_TRUE(one.put(1, 2, 200'000));
  EXPECT_EQ(keys(server), 5 + 5);
  ASSERT_TRUE(other.put(1, 3, 70'000)) << "another writer, another number of chunks";
  EXPECT_EQ(keys(server), 3 + 5);
  ASSERT_TRUE(one.put(1, 4, 1'000'000));
  EXPECT_EQ(keys(server), 17 + 5);
  EXPECT_EQ(other.find(1), 4U);
  EXPECT_EQ(one.find(2), 9U) << "other entries are untouched";
}

TEST_F(RemoteEntriesOnServers, ErasingAnEntryDeletesItsChunks) {
  const RedisServer server;
  const EntryUser one({server.address()});
  EntryUser other({server.address()});
  ASSERT_TRUE(one.put(1, 1, 200'000));
  ASSERT_TRUE(one.put(2, 9, 200'000));
  ASSERT_TRUE(one.put(3, 9, 1'000));
  EXPECT_TRUE(other.tier->erase(tier_key(1)).has_value());
  EXPECT_EQ(keys(server), 5 + 1);
  EXPECT_EQ(other.tier->stats().erased, 1U);
  EXPECT_TRUE(other.tier->erase(tier_key(3)).has_value());
  EXPECT_TRUE(other.tier->erase(tier_key(4)).has_value());
  EXPECT_EQ(keys(server), 5);
  EXPECT_EQ(other.find(2), 9U);
}

TEST_F(RemoteEntriesOnServers, DeletesChunksOnEveryServerOfACluster) {
  RedisCluster cluster(3);
  EntryUser one({cluster.server(0).address()}, 16_KiB);
  EntryUser other({cluster.server(1).address()}, 16_KiB);
  const auto all = [&] {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < cluster.size(); ++i) sum += keys(cluster.server(i));
    return sum;
  };
  ASSERT_TRUE(one.put(1, 1, 1'000'000));
  EXPECT_EQ(all(), 63);
  ASSERT_TRUE(other.put(1, 2, 500'000));
  EXPECT_EQ(all(), 32);
  EXPECT_EQ(one.find(1), 2U);
  EXPECT_TRUE(one.tier->erase(tier_key(1)).has_value());
  EXPECT_EQ(all(), 0);
}

// None of the cases is a chunked manifest of this entry, so no chunks may be deleted.
TEST_F(RemoteEntriesOnServers, ReplacesForeignBytesWithoutDeletingChunks) {
  const RedisServer server;
  EntryUser one({server.address()});
  ASSERT_TRUE(one.put(1, 1, 200'000));
  ASSERT_TRUE(one.put(2, 9, 200'000));
  const std::string name = manifest_name(tier_key(1));
  const std::string own = value(server, 1);
  std::string damaged = own;
  damaged.back() ^= 1;
  const struct {
    const char* name;
    std::string text;
  } kCases[] = {{"another's manifest", value(server, 2)},
                {"a damaged one", damaged},
                {"one cut off", own.substr(0, own.size() - 1)},
                {"one with something behind it", own + "x"},
                {"nothing", ""},
                {"words", "words"},
                {"more than a manifest", std::string(kLongestManifest + 1, 'x')}};
  std::int64_t expected_keys = keys(server);
  std::uint64_t version = 1;
  for (const auto& c : kCases) {
    server.ask({"SET", name, c.text});
    ASSERT_TRUE(one.put(1, ++version, 200'000)) << c.name;
    EXPECT_EQ(keys(server), expected_keys += 4) << c.name;
    EXPECT_EQ(one.find(1), version) << c.name;
    server.ask({"SET", name, c.text});
    EXPECT_TRUE(one.tier->erase(tier_key(1)).has_value()) << c.name;
    EXPECT_EQ(keys(server), expected_keys - 1) << c.name;
    EXPECT_EQ(one.find(2), 9U) << c.name;
  }
  EXPECT_EQ(one.tier->remote_stats().cluster.times_opened, 0U);
}

TEST_F(RemoteEntriesOnServers, ReplacesAnInlineValueWithChunks) {
  const RedisServer server;
  EntryUser whole({server.address()}, 1_MiB);
  EntryUser cut({server.address()});
  for (const std::size_t size : {100'000U, 900'000U}) {  // below and above the longest manifest
    ASSERT_TRUE(whole.put(1, size, size));
    EXPECT_EQ(keys(server), 1);
    ASSERT_TRUE(cut.put(1, size + 1, size));
    EXPECT_EQ(whole.find(1), size + 1);
    EXPECT_TRUE(cut.tier->erase(tier_key(1)).has_value());
    EXPECT_EQ(keys(server), 0);
  }
}

TEST_F(RemoteEntriesOnServers, APutRefusedByAFullServerLeavesNoChunks) {
  const RedisServer server;
  server.ask({"CONFIG", "SET", "maxmemory", "4mb"});
  server.ask({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  EntryUser one({server.address()});
  ASSERT_TRUE(one.put(1, 1, 200'000));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(one.put(2, 2, 8'000'000));
  EXPECT_EQ(keys(server), 5);
  ASSERT_TRUE(one.put(1, 3, 200'000)) << "the server has space again";
  EXPECT_EQ(one.find(1), 3U);
}

TEST_F(RemoteEntriesOnServers, ConcurrentReadersAndWriters) {
  const RedisServer server;
  constexpr std::uint64_t kReplacers = 2;
  constexpr std::uint64_t kVersions = 60;
  const auto size_of = [](std::uint64_t version) { return 70'000 + version * 3'001; };
  std::atomic<std::uint64_t> putting = kReplacers;
  std::atomic<std::uint64_t> hits = 0;
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t who = 0; who < kReplacers; ++who) {
      threads.emplace_back([&, who] {
        const EntryUser user({server.address()});
        for (std::uint64_t i = 0; i < kVersions; ++i) {
          const std::uint64_t version = 1 + i * kReplacers + who;
          EXPECT_TRUE(user.put(1, version, size_of(version)));
        }
        --putting;
      });
    }
    for (int reader = 0; reader < 2; ++reader) {
      threads.emplace_back([&] {
        EntryUser user({server.address()});
        while (putting > 0) hits += user.find(1).has_value() ? 1 : 0;
        EXPECT_EQ(user.tier->stats().damaged, 0U);
      });
    }
  }
  EXPECT_GT(hits, 0U);
  EntryUser last({server.address()});
  const auto version = last.find(1);
  ASSERT_TRUE(version.has_value());
  EXPECT_EQ(keys(server), 1 + static_cast<std::int64_t>(chunk_count(size_of(*version), 64_KiB)));
  EXPECT_TRUE(last.tier->erase(tier_key(1)).has_value());
  EXPECT_EQ(keys(server), 0);
}

/// Replays a race: the first `stale` reads of the manifest return the old one, whose chunks the
/// replacement has already deleted.
class ReplacedWhileRead : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = manifest_name(tier_key(1));
    std::string older;
    server.set_script([&](const ScriptedServer::Words& words, const std::string& honest) -> Said {
      if (words[0] == "SET" && words[1] == name) {
        older = std::exchange(newer, words[2]);
      }
      return {honest};
    });
    ASSERT_TRUE(user.put(1, 1, 200'000));
    ASSERT_TRUE(user.put(1, 2, 200'000));
    server.set_script(
        [=, this](const ScriptedServer::Words& words, const std::string& honest) -> Said {
          if (words[0] != "GET") return {honest};
          if (words[1] == name) {
            ++manifests;
            return {to_resp({.kind = RespKind::kBulk, .text = manifests <= stale ? older : newer})};
          }
          return {honest};
        });
  }

  ScriptedServer server;
  EntryUser user{{server.address()}};
  std::string newer;
  std::atomic<int> manifests = 0;
  std::atomic<int> stale = 1;  // how many reads return the old manifest
};

TEST_F(ReplacedWhileRead, FindsTheNewerEntry) {
  EXPECT_EQ(user.find(1), 2U);
  EXPECT_EQ(manifests, 2);
  EXPECT_EQ(user.tier->remote_stats().incomplete, 0U);
  EXPECT_EQ(user.tier->stats().hits, 1U);
}

TEST_F(ReplacedWhileRead, MissesAfterRereadingTheManifestOnce) {
  stale = 100;
  EXPECT_EQ(user.find(1), std::nullopt);
  EXPECT_EQ(manifests, 2);
  EXPECT_EQ(user.tier->remote_stats().incomplete, 1U);
}

// The unanswered manifest may have been stored, so its chunks must stay.
TEST(RemoteEntriesOnAHostileServer, KeepsTheChunksOfAnUnansweredReplacement) {
  ScriptedServer server;
  EntryUser user({server.address()});
  ASSERT_TRUE(user.put(1, 1, 200'000));
  server.set_script([](const ScriptedServer::Words& words, const std::string& honest) -> Said {
    if (words[0] == "SET" && words.back() == "GET") return {"", Said::Then::kClose};
    return {honest};
  });
  EXPECT_FALSE(user.put(1, 2, 200'000));
  server.set_script(nullptr);
  EXPECT_EQ(user.find(1), 2U);
}

// A reply longer than any manifest cannot be a chunked manifest: its bytes are not waited for.
TEST(RemoteEntriesOnAHostileServer, DoesNotReadAnOversizedReplacedValue) {
  ScriptedServer server;
  EntryUser user({server.address()});
  server.set_script([](const ScriptedServer::Words& words, const std::string& honest) -> Said {
    const bool meant = words[0] == "SET" && words.back() == "GET";
    return {meant ? "$536870912\r\nabc" : honest};
  });
  EXPECT_TRUE(user.put(1, 1, 200'000));
  EXPECT_EQ(user.find(1), 1U);
}

TEST(RemoteEntriesOnAHostileServer, DeletesItsChunksWhenTheManifestIsRefused) {
  ScriptedServer server;
  EntryUser user({server.address()});
  std::atomic<int> dropped = 0;
  server.set_script([&](const ScriptedServer::Words& words, const std::string& honest) -> Said {
    if (words[0] == "DEL") ++dropped;
    if (words[0] == "SET" && words.back() == "GET") return {"-OOM command not allowed\r\n"};
    return {honest};
  });
  EXPECT_FALSE(user.put(1, 1, 200'000));
  EXPECT_EQ(dropped, 4);
}

/// Whatever the server replies to DEL, the put succeeds.
TEST(RemoteEntriesOnAHostileServer, FailedChunkDeletionsDoNotFailThePut) {
  const struct {
    const char* name;
    Said said;
  } kCases[] = {{"an error", {"-ERR no\r\n"}}, {"no permission", {"-NOPERM no\r\n"}},
                {"a word", {"+OK\r\n"}},       {"a bulk", {"$1\r\n1\r\n"}},
                {"twice", {":1\r\n:1\r\n"}},   {"closed", {"", Said::Then::kClose}}};
  for (const auto& c : kCases) {
    ScriptedServer server;
    EntryUser user({server.address()});
    ASSERT_TRUE(user.put(1, 1, 200'000)) << c.name;
    server.set_script([&](const ScriptedServer::Words& words, const std::string& honest) -> Said {
      return words[0] == "DEL" ? c.said : Said{honest};
    });
    EXPECT_TRUE(user.put(1, 2, 200'000)) << c.name;
    EXPECT_EQ(user.find(1), 2U) << c.name;
  }
}

}  // namespace
}  // namespace afterimage
