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
using testing::patient_options;
using testing::RedisServer;
using testing::tier_bytes;
using testing::tier_key;
using LeaseStatus = LeaseStatus;

/// One process's end of it.
struct Party {
  explicit Party(const RemoteAddress& server, RedisLeasesOptions options = {})
      : tier(RemoteTier::open(patient_options({server}), memory, clock).value()),
        turns(*tier, options) {}
  MemoryBudget memory{16_MiB};
  SystemClock clock;
  std::unique_ptr<RemoteTier> tier;
  RedisLeases turns;
};

class RedisLeasesOnAServer : public ::testing::Test {
 protected:
  void SetUp() override {
    AFI_NEEDS_REDIS();
    server = std::make_unique<RedisServer>();
  }
  /// Ours before long, or the program ends.
  static bool comes_to(Party& party, std::uint64_t n) {
    testing::wait_until(
        [&] { return party.turns.claim(tier_key(n)).status == LeaseStatus::kOurs; });
    return true;
  }
  std::unique_ptr<RedisServer> server;
};

TEST_F(RedisLeasesOnAServer, OneHasItUntilItIsGivenBack) {
  Party one(server->address());
  Party other(server->address());
  {
    const auto mine = one.turns.claim(tier_key(1));
    EXPECT_EQ(mine.status, LeaseStatus::kOurs);
    EXPECT_EQ(other.turns.claim(tier_key(1)).status, LeaseStatus::kTheirs);
    EXPECT_EQ(other.turns.claim(tier_key(2)).status, LeaseStatus::kOurs)
        << "another entry, another turn";
  }
  EXPECT_EQ(other.turns.claim(tier_key(1)).status, LeaseStatus::kOurs);
  EXPECT_EQ(one.turns.stats().taken, 1U);
  EXPECT_EQ(other.turns.stats().elsewhere, 1U);
}

TEST_F(RedisLeasesOnAServer, WhatWasPutIsThereWhenTheTurnIsGivenBack) {
  Party one(server->address());
  Party other(server->address());
  for (std::uint64_t n = 0; n < 50; ++n) {
    auto mine = one.turns.claim(tier_key(n));
    ASSERT_EQ(mine.status, LeaseStatus::kOurs);
    ASSERT_TRUE(one.tier->put(tier_key(n), {}, tier_bytes(n, 200'000)).has_value());
    mine.lease.reset();
    ASSERT_TRUE(comes_to(other, n));
    EXPECT_TRUE(other.tier->get(tier_key(n), other.memory).value().has_value()) << n;
  }
}

TEST_F(RedisLeasesOnAServer, ATurnOfAnotherNameIsGivenBackWhenItsEntryIsThere) {
  Party one(server->address());
  Party other(server->address());
  for (std::uint64_t n = 0; n < 20; ++n) {
    const TierKey turn = tier_key(1000 + n);
    auto mine = one.turns.claim(turn, tier_key(n));
    ASSERT_EQ(mine.status, LeaseStatus::kOurs);
    EXPECT_EQ(other.turns.claim(turn, tier_key(n)).status, LeaseStatus::kTheirs);
    ASSERT_TRUE(one.tier->put(tier_key(n), {}, tier_bytes(n, 4'000'000)).has_value());
    mine.lease.reset();
    // At once, and not a while after.
    while (other.turns.claim(turn, tier_key(n)).status != LeaseStatus::kOurs) continue;
    EXPECT_TRUE(other.tier->get(tier_key(n), other.memory).value().has_value()) << n;
  }
}

TEST_F(RedisLeasesOnAServer, AHolderWhoWorksKeepsIt) {
  Party one(server->address(), {.lease = 300ms});
  Party other(server->address());
  const auto mine = one.turns.claim(tier_key(1));
  const Duration until = one.clock.now() + 2s;
  while (one.clock.now() < until) {
    ASSERT_EQ(other.turns.claim(tier_key(1)).status, LeaseStatus::kTheirs);
    static_cast<void>(other.turns.wait(5, {}));
  }
  EXPECT_EQ(one.turns.stats().expired, 0U);
}

TEST_F(RedisLeasesOnAServer, OneThatExpiredAndIsAnothersIsNeitherRenewedNorRemoved) {
  Party one(server->address(), {.lease = 60s});
  Party other(server->address(), {.lease = 60s});
  auto mine = one.turns.claim(tier_key(1));
  // As if the holder had been stopped for longer than a turn lasts.
  server->ask({"DEL", turn_name(tier_key(1))});
  const auto theirs = other.turns.claim(tier_key(1));
  ASSERT_EQ(theirs.status, LeaseStatus::kOurs);
  const std::string token = server->ask({"GET", turn_name(tier_key(1))}).text;
  mine.lease.reset();
  EXPECT_EQ(server->ask({"GET", turn_name(tier_key(1))}).text, token);
  EXPECT_EQ(one.turns.stats().expired, 1U);
}

TEST_F(RedisLeasesOnAServer, WithoutTheServerNobodyWaits) {
  RemoteTierOptions options = patient_options({server->address()});
  options.servers.connect_timeout = options.servers.timeout = 50ms;
  MemoryBudget memory(1_MiB);
  const SystemClock clock;
  const auto tier = RemoteTier::open(options, memory, clock).value();
  RedisLeases turns(*tier);
  server->stop();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(turns.claim(tier_key(1)).status, LeaseStatus::kUnknown);
  EXPECT_EQ(turns.stats().unknown, 10U);
  server->go_on();
}

TEST_F(RedisLeasesOnAServer, WaitingGrowsAndEnds) {
  Party one(server->address(), {.timeout = 30ms, .first_wait = 1ms, .longest_wait = 8ms});
  std::uint32_t attempts = 0;
  while (one.turns.wait(attempts, {})) ++attempts;
  EXPECT_EQ(attempts, 6U) << "1 + 2 + 4 + 8 + 8 + 8";
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(one.turns.wait(0, stop.get_token()));
}

/// A process of its own that takes a turn and says so, and then does nothing more.
pid_t holder(const RemoteAddress& server, std::uint64_t n, int said) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  {
    Party party(server, {.lease = 1s});
    const auto mine = party.turns.claim(tier_key(n));
    const char took = mine.status == LeaseStatus::kOurs ? 'y' : 'n';
    static_cast<void>(::write(said, &took, 1));
    ::pause();
  }
  ::_exit(0);
}

TEST_F(RedisLeasesOnAServer, OfAHolderThatIsKilledAnotherTakesIt) {
  for (std::uint64_t n = 0; n < 3; ++n) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = holder(server->address(), n, ends[1]);
    ::close(ends[1]);
    char took = 0;
    ASSERT_EQ(::read(ends[0], &took, 1), 1);
    ::close(ends[0]);
    ASSERT_EQ(took, 'y');
    Party other(server->address());
    EXPECT_EQ(other.turns.claim(tier_key(n)).status, LeaseStatus::kTheirs);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(comes_to(other, n));
  }
}

}  // namespace
}  // namespace afterimage
