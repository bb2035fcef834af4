// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// A standalone server whose replica is stopped, cut off or promoted, and servers that start from a
// snapshot: what was erased does not come back, or erasing fails.
#include <fmt/format.h>

#include "fire/fire.h"
#include "storage/redis/testing/redis_servers.h"
#include "storage/remote/manifest.h"
#include "storage/remote/remote_tier.h"

namespace afterimage::fire {

using testing::RedisServer;
using testing::tier_bytes;
using testing::tier_key;

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBytes = 20'000;

/// One process that uses a server.
class ServerUser {
 public:
  ServerUser(const RedisServer& server, Tally& tally, const Clock& clock) : tally_(tally) {
    RemoteTierOptions options = testing::long_timeout_options({server.address()});
    options.servers.timeout = 300ms;  // of WAIT, for a replica that does not answer
    options.servers.breaker.failure_threshold = 1000;
    options.known_absent = 0ms;
    tier_ = RemoteTier::open(std::move(options), memory_, clock).value();
  }
  void put(std::uint64_t n) {
    const bool done =
        tier_->put(tier_key(n), {}, tier_bytes(n, kBytes)).has_value() && tier_->flush();
    tally_.expect(done, "before any fault: a put fails");
  }
  bool erase(std::uint64_t n) { return tier_->erase(tier_key(n)).has_value(); }
  bool finds(std::uint64_t n) {
    const auto found = tier_->get(tier_key(n), memory_);
    return found.has_value() && found->has_value() &&
           std::ranges::equal((*found)->bytes, tier_bytes(n, kBytes));
  }

 private:
  Tally& tally_;
  MemoryBudget memory_{16_MiB};
  std::unique_ptr<RemoteTier> tier_;
};

/// Counts one erasure whose entry may not be served if `promised`.
void expect_gone(Tally& tally, ServerUser& user, std::uint64_t n, bool promised,
                 const std::string& where) {
  ++tally.injected;
  const bool served = user.finds(n);
  tally.detected += served ? 0 : 1;
  tally.note(served && promised ? Finding::kCameBack : Finding::kFine, where);
}

/// The replica receives nothing while entry 1 is erased, twice; then it takes over.
void stopped_replica(const FireRun& run, Tally& tally, const std::string& where) {
  RedisServer primary;
  RedisServer replica;
  replica.follow(primary);
  ServerUser user(primary, tally, run.clock);
  user.put(1);
  user.put(2);
  testing::wait_until([&] { return replica.ask({"DBSIZE"}).number >= 2; });
  replica.stop();
  const bool first = user.erase(1);
  ServerUser other(primary, tally, run.clock);
  const bool promised = first || other.erase(1);
  tally.expect(!promised, "an erasure that a replica has not received is acknowledged: " + where);
  primary.kill();
  replica.go_on();
  replica.ask({"REPLICAOF", "NO", "ONE"});
  ServerUser next(replica, tally, run.clock);
  expect_gone(tally, next, 1, promised, where);
}

/// A replica that has everything takes over; the other entries stay.
void promoted_replica(const FireRun& run, Tally& tally, const std::string& where) {
  RedisServer primary;
  RedisServer replica;
  replica.follow(primary);
  ServerUser user(primary, tally, run.clock);
  user.put(1);
  user.put(2);
  tally.expect(user.erase(1), "an erasure fails while the replica answers: " + where);
  primary.kill();
  replica.ask({"REPLICAOF", "NO", "ONE"});
  ServerUser next(replica, tally, run.clock);
  expect_gone(tally, next, 1, true, where);
  tally.lost += next.finds(2) ? 0 : 1;
  tally.expect(next.finds(2), "a takeover costs entries that were not erased: " + where);
}

/// The server starts with what it held before the erasure.
void old_snapshot(const FireRun& run, Tally& tally, const std::string& where) {
  RedisServer server;
  ServerUser user(server, tally, run.clock);
  user.put(1);
  server.ask({"SAVE"});
  tally.expect(user.erase(1), "an erasure fails: " + where);
  server.kill();
  server.start();
  expect_gone(tally, user, 1, true, "a process that runs on: " + where);
  ServerUser next(server, tally, run.clock);
  expect_gone(tally, next, 1, true, "a process that starts: " + where);
}

}  // namespace

Tally run_replicas(const FireRun& run) {
  Tally tally;
  if (!testing::redis_is_installed()) {
    tally.notes.emplace_back("skipped: redis-server is not installed");
    return tally;
  }
  const std::uint64_t rounds = run.of(20, 1);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::string where = fmt::format("round {}, --only replicas", round);
    stopped_replica(run, tally, "stopped, " + where);
    promoted_replica(run, tally, "promoted, " + where);
    old_snapshot(run, tally, "snapshot, " + where);
    run.tell(round + 1, rounds);
  }
  return tally;
}

}  // namespace afterimage::fire
