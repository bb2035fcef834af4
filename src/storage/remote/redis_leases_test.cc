// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/redis_leases.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "storage/redis/testing/redis_servers.h"
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
  EXPECT_EQ(other.leases.claim(tier_key(1)).status, LeaseStatus::kAcquired);
  EXPECT_EQ(one.leases.stats().acquired, 1U);
  EXPECT_EQ(other.leases.stats().elsewhere, 1U);
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
  server->ask({"DEL", lease_name(tier_key(1))});
  const auto theirs = other.leases.claim(tier_key(1));
  ASSERT_EQ(theirs.status, LeaseStatus::kAcquired);
  const std::string token = server->ask({"GET", lease_name(tier_key(1))}).text;
  lease.lease.reset();
  EXPECT_EQ(server->ask({"GET", lease_name(tier_key(1))}).text, token);
  EXPECT_EQ(one.leases.stats().expired, 1U);
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
