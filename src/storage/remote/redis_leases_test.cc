// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/redis_leases.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "storage/redis/slots.h"
#include "storage/redis/testing/redis_servers.h"
#include "storage/redis/testing/scripted_server.h"
#include "storage/remote/manifest.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::long_timeout_options;
using testing::RedisServer;
using testing::tier_bytes;
using testing::tier_key;
using LeaseStatus = LeaseStatus;

/// One process: a tier and its leases.
struct Process {
  explicit Process(const RemoteAddress& server, RedisLeasesOptions options = {})
      : tier(RemoteTier::open(long_timeout_options({server}), memory, clock).value()),
        leases(*tier, options) {}
  MemoryBudget memory{16_MiB};
  SystemClock clock;
  std::unique_ptr<RemoteTier> tier;
  RedisLeases leases;
};

class RedisLeasesOnAServer : public ::testing::Test {
 protected:
  void SetUp() override {
    AFI_NEEDS_REDIS();
    server = std::make_unique<RedisServer>();
  }
  /// Polls until `process` holds the lease; aborts after a minute.
  static bool wait_for_lease(Process& process, std::uint64_t n) {
    testing::wait_until(
        [&] { return process.leases.claim(tier_key(n)).status == LeaseStatus::kAcquired; });
    return true;
  }
  std::unique_ptr<RedisServer> server;
};

TEST_F(RedisLeasesOnAServer, OneProcessHoldsALeaseUntilItReleasesIt) {
  Process one(server->address());
  Process other(server->address());
  {
    const auto lease = one.leases.claim(tier_key(1));
    EXPECT_EQ(lease.status, LeaseStatus::kAcquired);
    EXPECT_EQ(other.leases.claim(tier_key(1)).status, LeaseStatus::kElsewhere);
    EXPECT_EQ(other.leases.claim(tier_key(2)).status, LeaseStatus::kAcquired)
        << "another entry has another lease";
  }
  EXPECT_EQ(other.leases.stats().elsewhere, 1U);
  EXPECT_TRUE(wait_for_lease(other, 1));
  EXPECT_EQ(one.leases.stats().acquired, 1U);
}

TEST_F(RedisLeasesOnAServer, ReleasesTheLeaseAfterThePutHasArrived) {
  Process one(server->address());
  Process other(server->address());
  for (std::uint64_t n = 0; n < 50; ++n) {
    auto lease = one.leases.claim(tier_key(n));
    ASSERT_EQ(lease.status, LeaseStatus::kAcquired);
    ASSERT_TRUE(one.tier->put(tier_key(n), {}, tier_bytes(n, 200'000)).has_value());
    lease.lease.reset();
    ASSERT_TRUE(wait_for_lease(other, n));
    EXPECT_TRUE(other.tier->get(tier_key(n), other.memory).value().has_value()) << n;
  }
}

TEST_F(RedisLeasesOnAServer, ReleasesALeaseOfAnotherKeyAfterItsEntryHasArrived) {
  Process one(server->address());
  Process other(server->address());
  for (std::uint64_t n = 0; n < 20; ++n) {
    const TierKey lease_key = tier_key(1000 + n);
    auto lease = one.leases.claim(lease_key, tier_key(n));
    ASSERT_EQ(lease.status, LeaseStatus::kAcquired);
    EXPECT_EQ(other.leases.claim(lease_key, tier_key(n)).status, LeaseStatus::kElsewhere);
    ASSERT_TRUE(one.tier->put(tier_key(n), {}, tier_bytes(n, 4'000'000)).has_value());
    lease.lease.reset();
    // Released at once, not when the lease expires.
    while (other.leases.claim(lease_key, tier_key(n)).status != LeaseStatus::kAcquired) continue;
    EXPECT_TRUE(other.tier->get(tier_key(n), other.memory).value().has_value()) << n;
  }
}

TEST_F(RedisLeasesOnAServer, RenewsTheLeaseOfAWorkingHolder) {
  Process one(server->address(), {.lease = 300ms});
  Process other(server->address());
  const auto lease = one.leases.claim(tier_key(1));
  const Duration until = one.clock.now() + 2s;
  while (one.clock.now() < until) {
    ASSERT_EQ(other.leases.claim(tier_key(1)).status, LeaseStatus::kElsewhere);
    static_cast<void>(other.leases.wait(5, {}));
  }
  EXPECT_EQ(one.leases.stats().expired, 0U);
}

TEST_F(RedisLeasesOnAServer, NeitherRenewsNorDeletesAnothersLease) {
  Process one(server->address(), {.lease = 60s});
  Process other(server->address(), {.lease = 60s});
  auto lease = one.leases.claim(tier_key(1));
  // As if the holder had been stopped for longer than its lease.
  server->ask({"DEL", lease_name(tier_key(1), tier_key(1))});
  const auto theirs = other.leases.claim(tier_key(1));
  ASSERT_EQ(theirs.status, LeaseStatus::kAcquired);
  const std::string token = server->ask({"GET", lease_name(tier_key(1), tier_key(1))}).text;
  lease.lease.reset();
  testing::wait_until([&] { return one.leases.stats().expired == 1; });
  EXPECT_EQ(server->ask({"GET", lease_name(tier_key(1), tier_key(1))}).text, token);
}

TEST_F(RedisLeasesOnAServer, ReleasesManyTogetherAndComparesEachToken) {
  Process one(server->address(), {.lease = 60s});
  Process other(server->address(), {.lease = 60s});
  std::vector<LeaseService::Claim> held;
  for (std::uint64_t n = 0; n < 40; ++n) {
    held.push_back(one.leases.claim(tier_key(n)));
    ASSERT_EQ(held.back().status, LeaseStatus::kAcquired);
  }
  server->ask({"DEL", lease_name(tier_key(3), tier_key(3))});
  const auto theirs = other.leases.claim(tier_key(3));
  ASSERT_EQ(theirs.status, LeaseStatus::kAcquired);
  const std::string token = server->ask({"GET", lease_name(tier_key(3), tier_key(3))}).text;
  server->stop();  // so that they wait
  held.clear();
  server->go_on();
  testing::wait_until([&] { return server->ask({"KEYS", "afi1:t:*"}).items.size() == 1; });
  EXPECT_EQ(server->ask({"GET", lease_name(tier_key(3), tier_key(3))}).text, token);
  testing::wait_until([&] { return one.leases.stats().expired == 1; });
  const std::string stats = server->ask({"INFO", "commandstats"}).text;
  const auto at = stats.find("cmdstat_exec:calls=");
  ASSERT_NE(at, std::string::npos);
  EXPECT_LT(std::stoi(stats.substr(at + 19)), 10) << "transactions";
}

TEST_F(RedisLeasesOnAServer, AClaimBringsItsEntriesAndEachIsGotOnceWithoutAsking) {
  Process one(server->address());
  Process other(server->address());
  ASSERT_TRUE(one.tier->put(tier_key(1), {}, tier_bytes(1, 5'000)).has_value());
  ASSERT_TRUE(one.tier->put(tier_key(2), {}, tier_bytes(2, 3'000'000)).has_value());
  ASSERT_TRUE(one.tier->flush().has_value());
  const std::array keys{tier_key(1), tier_key(2), tier_key(3)};
  {
    const auto claim =
        other.leases.claim_and_prefetch(tier_key(9), tier_key(1), keys, other.memory);
    ASSERT_EQ(claim.status, LeaseStatus::kAcquired);
    for (const TierKey& key : keys) server->ask({"DEL", manifest_name(key)});
    std::thread([&] {
      EXPECT_FALSE(other.tier->get(tier_key(1), other.memory).value().has_value())
          << "for the thread that claimed";
    }).join();
    const auto found = other.tier->get(tier_key(1), other.memory).value();
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(std::ranges::equal(found->bytes, tier_bytes(1, 5'000)));
    EXPECT_FALSE(other.tier->get(tier_key(1), other.memory).value().has_value()) << "once";
    EXPECT_FALSE(other.tier->get(tier_key(2), other.memory).value().has_value())
        << "its chunks were not fetched";
    ASSERT_TRUE(one.tier->put(tier_key(3), {}, tier_bytes(3, 100)).has_value());
    ASSERT_TRUE(one.tier->flush().has_value());
    EXPECT_FALSE(other.tier->get(tier_key(3), other.memory).value().has_value())
        << "it was known to be absent";
  }
  ASSERT_TRUE(one.tier->put(tier_key(1), {}, tier_bytes(1, 100)).has_value());
  ASSERT_TRUE(one.tier->flush().has_value());
  {
    const auto claim =
        other.leases.claim_and_prefetch(tier_key(9), tier_key(1), keys, other.memory);
    server->ask({"DEL", manifest_name(tier_key(1))});
  }
  EXPECT_FALSE(other.tier->get(tier_key(1), other.memory).value().has_value())
      << "the claim is gone";
}

TEST_F(RedisLeasesOnAServer, AClaimThatFindsTheLeaseTakenBringsItsEntriesToo) {
  Process one(server->address());
  Process other(server->address());
  const auto theirs = one.leases.claim(tier_key(9), tier_key(1));
  ASSERT_TRUE(one.tier->put(tier_key(1), {}, tier_bytes(1, 5'000)).has_value());
  ASSERT_TRUE(one.tier->flush().has_value());
  const std::array keys{tier_key(1)};
  const auto claim = other.leases.claim_and_prefetch(tier_key(9), tier_key(1), keys, other.memory);
  EXPECT_EQ(claim.status, LeaseStatus::kElsewhere);
  server->ask({"DEL", manifest_name(tier_key(1))});
  EXPECT_TRUE(other.tier->get(tier_key(1), other.memory).value().has_value());
}

TEST(RedisLeasesOnACluster, AClaimBringsEntriesOfAllServers) {
  AFI_NEEDS_REDIS();
  testing::RedisCluster cluster(3);
  Process one(cluster.server(0).address());
  Process other(cluster.server(1).address());
  std::vector<TierKey> keys;
  for (std::uint64_t n = 0; n < 12; ++n) {
    keys.push_back(tier_key(n));
    ASSERT_TRUE(one.tier->put(tier_key(n), {}, tier_bytes(n, 1'000)).has_value());
  }
  ASSERT_TRUE(one.tier->flush().has_value());
  {
    std::vector<LeaseService::Claim> held;
    for (std::uint64_t n = 0; n < 12; ++n) {
      auto claim =
          other.leases.claim_and_prefetch(tier_key(100 + n), tier_key(n), keys, other.memory);
      ASSERT_EQ(claim.status, LeaseStatus::kAcquired);
      EXPECT_EQ(one.leases.claim(tier_key(100 + n), tier_key(n)).status, LeaseStatus::kElsewhere);
      for (const TierKey& key : keys) {
        cluster.server(cluster.master_of(manifest_name(key))).ask({"DEL", manifest_name(key)});
      }
      for (const TierKey& key : keys) {
        EXPECT_TRUE(other.tier->get(key, other.memory).value().has_value());
      }
      claim.prefetched.reset();
      held.push_back(std::move(claim));
      for (std::uint64_t m = 0; m < 12; ++m) {
        ASSERT_TRUE(one.tier->put(tier_key(m), {}, tier_bytes(m, 1'000)).has_value());
      }
      ASSERT_TRUE(one.tier->flush().has_value());
    }
  }
  EXPECT_EQ(other.tier->remote_stats().cluster.redirected, 0U);
  for (std::uint64_t n = 0; n < 12; ++n) {
    testing::wait_until([&] {
      return one.leases.claim(tier_key(100 + n), tier_key(n)).status == LeaseStatus::kAcquired;
    });
  }
}

TEST(RedisLeasesOnACluster, AClaimInAMigratingSlotIsGrantedAndItsEntryIsStillFound) {
  AFI_NEEDS_REDIS();
  testing::RedisCluster cluster(3);
  Process one(cluster.server(0).address());
  ASSERT_TRUE(one.tier->put(tier_key(1), {}, tier_bytes(1, 1'000)).has_value());
  ASSERT_TRUE(one.tier->flush().has_value());
  const std::string name = manifest_name(tier_key(1));
  const std::size_t from = cluster.master_of(name);
  const std::size_t to = (from + 1) % 3;
  const std::string slot = std::to_string(slot_of(name));
  const std::string to_id = cluster.server(to).ask({"CLUSTER", "MYID"}).text;
  const std::string from_id = cluster.server(from).ask({"CLUSTER", "MYID"}).text;
  cluster.server(to).ask({"CLUSTER", "SETSLOT", slot, "IMPORTING", from_id});
  cluster.server(from).ask({"CLUSTER", "SETSLOT", slot, "MIGRATING", to_id});
  const std::array keys{tier_key(1)};
  const auto claim = one.leases.claim_and_prefetch(tier_key(9), tier_key(1), keys, one.memory);
  EXPECT_EQ(claim.status, LeaseStatus::kAcquired);
  EXPECT_TRUE(one.tier->get(tier_key(1), one.memory).value().has_value());
}

/// A tier and leases on a server that answers as a script says; calls fail soon.
struct ScriptedProcess {
  testing::ScriptedServer server;
  MemoryBudget memory{1_MiB};
  SystemClock clock;
  std::unique_ptr<RemoteTier> tier =
      RemoteTier::open(
          {.servers = {.seeds = {server.address()}, .connect_timeout = 200ms, .timeout = 50ms}},
          memory, clock)
          .value();
  RedisLeases leases{*tier, {.lease = 60s}};
};

TEST(RedisLeasesOnAScriptedServer, AClaimAndItsLookUpsLeaveTogether) {
  ScriptedProcess one;
  std::atomic<int> looked_up = 0;
  one.server.set_script([&](const auto& words, const std::string& honest) -> testing::Said {
    if (words[0] == "GET") ++looked_up;
    return {words[0] == "SET" || words[0] == "GET" ? "" : honest};
  });
  const std::array keys{tier_key(1), tier_key(2)};
  const auto claim = one.leases.claim_and_prefetch(tier_key(9), tier_key(1), keys, one.memory);
  EXPECT_EQ(claim.status, LeaseStatus::kUnavailable);
  EXPECT_EQ(looked_up, 2) << "the claim was not answered before";
}

TEST(RedisLeasesOnAScriptedServer, ALeaseGrantedBeforeTheServerDiesIsHeldAndReleased) {
  using testing::Said;
  for (const Said::Then then : {Said::Then::kClose, Said::Then::kStall, Said::Then::kHalfClose}) {
    ScriptedProcess one;
    std::atomic<bool> deleted = false;
    std::atomic<bool> fails = true;
    one.server.set_script([&](const auto& words, const std::string& honest) -> Said {
      if (words[0] == "DEL" && words[1].starts_with("afi1:t:")) deleted = true;
      const bool look_up = words[0] == "GET" && words[1].starts_with("afi1:m:");
      return look_up && fails ? Said{.bytes = "", .then = then} : Said{honest};
    });
    const std::array keys{tier_key(1)};
    auto claim = one.leases.claim_and_prefetch(tier_key(9), tier_key(1), keys, one.memory);
    EXPECT_EQ(claim.status, LeaseStatus::kAcquired);
    EXPECT_EQ(claim.prefetched, nullptr) << "nothing is known of the entry";
    fails = false;
    claim.lease.reset();
    testing::wait_until([&] { return deleted.load(); });
    EXPECT_EQ(one.leases.stats().expired, 0U);
  }
}

// A renewal touches the key that the release watches.
TEST(RedisLeasesOnAScriptedServer, AReleaseThatARenewalCameBetweenIsTriedAgain) {
  ScriptedProcess one;
  std::string token;
  std::atomic<int> executed = 0;
  one.server.set_script([&](const auto& words, const std::string& honest) -> testing::Said {
    if (words[0] == "SET") token = words[2];
    if (words[0] == "DEL") one.server.keep(words[1], token);  // it executes at once, not at EXEC
    return {words[0] == "EXEC" && ++executed == 1 ? "*-1\r\n" : honest};
  });
  one.leases.claim(tier_key(1)).lease.reset();
  testing::wait_until([&] { return executed == 2 || one.leases.stats().expired > 0; });
  EXPECT_EQ(one.leases.stats().expired, 0U);
}

TEST_F(RedisLeasesOnAServer, ReportsUnknownWithoutAServer) {
  RemoteTierOptions options = long_timeout_options({server->address()});
  options.servers.connect_timeout = options.servers.timeout = 50ms;
  MemoryBudget memory(1_MiB);
  const SystemClock clock;
  const auto tier = RemoteTier::open(options, memory, clock).value();
  RedisLeases leases(*tier);
  server->stop();
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(leases.claim(tier_key(1)).status, LeaseStatus::kUnavailable);
  EXPECT_EQ(leases.stats().unavailable, 10U);
  server->go_on();
}

TEST_F(RedisLeasesOnAServer, APauseOfTheServerFailsTheClaimsOfThatMomentOnly) {
  RemoteTierOptions options = long_timeout_options({server->address()});
  options.servers.connect_timeout = options.servers.timeout = 500ms;
  MemoryBudget memory(1_MiB);
  const SystemClock clock;
  const auto tier = RemoteTier::open(options, memory, clock).value();
  RedisLeases leases(*tier);
  server->stop();
  {
    std::vector<std::jthread> claims;
    for (std::uint64_t n = 0; n < 12; ++n) {
      claims.emplace_back(
          [&, n] { EXPECT_EQ(leases.claim(tier_key(n)).status, LeaseStatus::kUnavailable); });
    }
  }
  server->go_on();
  EXPECT_EQ(tier->remote_stats().cluster.times_opened, 0U) << "the circuit breaker";
  testing::wait_until([&] { return leases.claim(tier_key(100)).status == LeaseStatus::kAcquired; });
}

TEST_F(RedisLeasesOnAServer, WaitsBackOffAndTimeOut) {
  Process one(server->address(), {.timeout = 30ms, .first_wait = 1ms, .longest_wait = 8ms});
  std::uint32_t attempts = 0;
  while (one.leases.wait(attempts, {})) ++attempts;
  EXPECT_EQ(attempts, 6U) << "1 + 2 + 4 + 8 + 8 + 8";
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(one.leases.wait(0, stop.get_token()));
}

/// Forks a process that takes the lease, reports it through the pipe, and then only waits.
pid_t holder(const RemoteAddress& server, std::uint64_t n, int pipe_end) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  {
    Process process(server, {.lease = 1s});
    const auto lease = process.leases.claim(tier_key(n));
    const char took = lease.status == LeaseStatus::kAcquired ? 'y' : 'n';
    static_cast<void>(::write(pipe_end, &took, 1));
    ::pause();
  }
  ::_exit(0);
}

TEST_F(RedisLeasesOnAServer, TakesOverFromAKilledHolder) {
  for (std::uint64_t n = 0; n < 3; ++n) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = holder(server->address(), n, ends[1]);
    ::close(ends[1]);
    char took = 0;
    ASSERT_EQ(::read(ends[0], &took, 1), 1);
    ::close(ends[0]);
    ASSERT_EQ(took, 'y');
    Process other(server->address());
    EXPECT_EQ(other.leases.claim(tier_key(n)).status, LeaseStatus::kElsewhere);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(wait_for_lease(other, n));
  }
}

}  // namespace
}  // namespace afterimage
