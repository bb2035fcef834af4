// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Processes that share servers and coordinate through leases, with holders that are killed, or
// stopped and resumed after their lease has expired.
#include <fmt/format.h>
#include <signal.h>

#include <list>
#include <thread>

#include "fire/child.h"
#include "fire/fire.h"
#include "foundation/platform/fault_points.h"
#include "storage/redis/testing/redis_servers.h"
#include "storage/redis/testing/scripted_server.h"
#include "storage/remote/manifest.h"
#include "storage/remote/redis_leases.h"

namespace afterimage::fire {

using testing::RedisServer;
using testing::Said;
using testing::ScriptedServer;
using testing::tier_bytes;
using testing::tier_key;
using LeaseStatus = LeaseStatus;

namespace {

using namespace std::chrono_literals;

constexpr Duration kLease = 1s;
constexpr Duration kMost = kLease + 1s;  // longest wait for a lease whose holder is gone
constexpr std::size_t kBytes = 150'000;

RemoteTierOptions options_for(const RemoteAddress& server) {
  RemoteTierOptions options = testing::long_timeout_options({server});
  options.known_absent = 0ms;
  return options;
}

/// One process's view.
struct Party {
  explicit Party(const RemoteAddress& server, Duration lease = kLease)
      : tier(RemoteTier::open(options_for(server), memory, clock).value()),
        leases(*tier, {.lease = lease, .timeout = 20s}) {}
  bool put(std::uint64_t n, std::size_t size) const {
    return tier->put(tier_key(n), {}, tier_bytes(n, size)).has_value();
  }
  /// nullopt: a miss; otherwise whether the bytes are right.
  std::optional<bool> look(std::uint64_t n, std::size_t size) {
    const auto found = tier->get(tier_key(n), memory);
    if (!found.has_value() || !found->has_value()) return std::nullopt;
    return std::ranges::equal((*found)->bytes, tier_bytes(n, size));
  }
  /// Acquires the lease within the timeout; returns how long it took.
  std::optional<std::pair<LeaseService::Claim, Duration>> acquire(std::uint64_t n,
                                                                  Duration timeout) {
    const Duration began = clock.now();
    while (clock.now() - began < timeout) {
      auto claim = leases.claim(tier_key(n));
      if (claim.status == LeaseStatus::kAcquired)
        return std::pair{std::move(claim), clock.now() - began};
      std::this_thread::sleep_for(2ms);
    }
    return std::nullopt;
  }

  MemoryBudget memory{64_MiB};
  SystemClock clock;
  std::unique_ptr<RemoteTier> tier;
  RedisLeases leases;
};

/// State of one item, in memory shared by all processes.
struct Item {
  std::atomic<std::uint32_t> holders{0};  // alive, running, and not past their lease
  std::atomic<std::uint32_t> made{0};
  std::atomic<std::uint32_t> together{0};  // the most concurrent holders
  std::atomic<std::uint32_t> wrong{0};
  std::atomic<std::uint64_t> longest{0};  // nanoseconds that a process waited for it
  std::atomic<std::uint32_t> holds{0};    // some process is about to compute it
};

/// Two parties in one process, and a server that reports who holds which lease.
class LeaseStories {
 public:
  LeaseStories(const FireRun& run, Tally& tally) : run_(run), tally_(tally) {}

  /// Of many concurrent claims one gets the lease and keeps it beyond its first term, until its
  /// entry is visible.
  void one_at_a_time() {
    Party one(server_.address());
    Party other(server_.address());
    for (std::uint64_t n = 0; n < run_.of(30, 6); ++n) {
      auto claim = one.leases.claim(tier_key(n));
      count(claim.status == LeaseStatus::kAcquired, "a free lease is not granted");
      count(other.leases.claim(tier_key(n)).status == LeaseStatus::kElsewhere,
            "two parties hold one lease");
      static_cast<void>(one.put(n, 2'500'000));
      claim.lease.reset();
      const auto theirs = other.acquire(n, 10s);
      count(theirs.has_value() && other.look(n, 2'500'000) == true,
            "a lease is released before its entry is visible");
    }
  }
  void holder_renews_its_lease() {
    Party one(server_.address());
    Party other(server_.address());
    const auto claim = one.leases.claim(tier_key(100));
    const Duration until = run_.clock.now() + 3 * kLease;
    bool kept = true;
    while (kept && run_.clock.now() < until) {
      kept = other.leases.claim(tier_key(100)).status == LeaseStatus::kElsewhere;
      std::this_thread::sleep_for(10ms);
    }
    count(kept && one.leases.stats().expired == 0,
          "a holder that works longer than one term loses its lease");
  }
  /// A late holder neither renews nor releases a lease that another party holds by then, even if it
  /// changes hands between the holder's check and its write.
  void late_holder(bool between) {
    const std::uint64_t n = between ? 102 : 101;
    auto one = std::make_unique<Party>(server_.address(), 60s);
    Party other(server_.address(), 60s);
    auto claim = one->leases.claim(tier_key(n));
    FaultSite* const compared = FaultSite::find("turn.compared");
    const std::uint64_t before = compared->passes();
    LeaseService::Claim theirs;
    const auto take_over = [&] {
      server_.ask({"DEL", lease_name(tier_key(n), tier_key(n))});
      theirs = other.leases.claim(tier_key(n));
    };
    if (between) {
      // Delayed there for some milliseconds: enough, unless this machine is very busy.
      compared->arm(FaultSite::Action::kSleep, 1);
      claim.lease.reset();
      while (compared->passes() == before) std::this_thread::yield();
      take_over();
    } else {
      take_over();
      claim.lease.reset();
    }
    count(theirs.status == LeaseStatus::kAcquired, "an expired lease is not granted");
    const bool reported = between || reports_one_expired(*one);
    one.reset();  // when it has released what it held
    const auto left = server_.ask({"GET", lease_name(tier_key(n), tier_key(n))});
    count(left.kind == RespKind::kBulk, "a late holder released another party's lease");
    count(reported, "an expired lease is not reported");
  }
  /// The server sees the release of the lease only after it has all of the entry.
  void entry_before_release() {
    for (std::uint64_t n = 0; n < 5; ++n) {
      ScriptedServer server;
      bool there = false;
      bool early = false;
      server.set_script([&](const auto& words, const std::string& honest) -> Said {
        if (words[0] == "SET" && words[1].starts_with("afi1:m:")) there = true;
        if (words[0] == "DEL" && words[1].starts_with("afi1:t:")) early = !there;
        return {honest};
      });
      {
        Party party(server.address(), 60s);
        auto claim = party.leases.claim(tier_key(n));
        static_cast<void>(party.put(n, 8'000'000));
        claim.lease.reset();
      }
      count(there && !early, "a lease is released before its entry is visible");
    }
  }
  /// A server that replies something unexpected grants no lease, and no process waits for it.
  void unexpected_replies() {
    for (const char* answer : {":1\r\n", "$2\r\nOK\r\n", "*0\r\n"}) {
      ScriptedServer server;
      server.set_script([&](const auto& words, const std::string& honest) -> Said {
        return {words[0] == "SET" && words[1].starts_with("afi1:t:") ? answer : honest};
      });
      Party party(server.address());
      count(party.leases.claim(tier_key(1)).status == LeaseStatus::kUnavailable,
            "an unexpected reply is taken for a lease");
    }
    // The lease's id changed between check and write: nothing was done, and that is reported.
    ScriptedServer server;
    server.set_script([](const auto& words, const std::string& honest) -> Said {
      return {words[0] == "EXEC" ? "*-1\r\n" : honest};
    });
    Party party(server.address(), 60s);
    party.leases.claim(tier_key(1)).lease.reset();
    count(reports_one_expired(party), "a release that failed is reported as done");
  }

  /// Processes compute items under leases; some are killed while they compute, some are stopped for
  /// longer than a lease and then resumed.
  void processes() {
    const std::uint64_t rounds = run_.of(40, 4);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      round_of(round);
      if (!tally_.fine()) return;
      run_.tell(round + 1, rounds);
    }
  }

 private:
  static constexpr std::size_t kItems = 8;
  static constexpr std::size_t kProcesses = 4;

  void count(bool good, const std::string& what) {
    ++tally_.injected;
    ++tally_.answers;
    tally_.detected += good ? 1 : 0;
    tally_.expect(good, what + ", --only leases --seed " + std::to_string(run_.seed));
  }
  /// Leases are released by a thread of their own.
  [[nodiscard]] bool reports_one_expired(const Party& party) const {
    const Duration end = run_.clock.now() + 5s;
    while (party.leases.stats().expired == 0 && run_.clock.now() < end) {
      std::this_thread::sleep_for(1ms);
    }
    return party.leases.stats().expired == 1;
  }
  static std::uint64_t number(std::uint64_t round, std::size_t item) {
    return 1'000 + round * kItems + item;
  }
  /// In a child: every item in order, until it is there. The first holder of the first item is the
  /// victim: it waits there for the signal.
  int live(std::uint64_t round, const Shared<Item>& items, bool victim) const {
    Party party(server_.address());
    for (std::size_t i = 0; i < kItems; ++i) {
      Item& item = items[i];
      const std::uint64_t n = number(round, i);
      const Duration began = party.clock.now();
      while (true) {
        if (const auto seen = party.look(n, kBytes); seen.has_value()) {
          item.wrong += *seen ? 0 : 1;
          break;
        }
        auto claim = party.leases.claim(tier_key(n));
        if (claim.status != LeaseStatus::kAcquired) {
          std::this_thread::sleep_for(2ms);
          continue;
        }
        if (party.look(n, kBytes).has_value()) continue;
        make(party, item, n, victim && i == 0);
        break;
      }
      const auto took = static_cast<std::uint64_t>((party.clock.now() - began).count());
      if (!victim) item.longest = std::max(item.longest.load(), took);
    }
    return 0;
  }
  static void make(Party& party, Item& item, std::uint64_t n, bool is_victim) {
    if (is_victim) {
      item.holds = 1;
      while (item.holds == 1) std::this_thread::sleep_for(1ms);
      // Although late, it still puts what it computed.
    } else {
      const std::uint32_t together = ++item.holders;
      item.together = std::max(item.together.load(), together);
      std::this_thread::sleep_for(3ms);
    }
    static_cast<void>(party.put(n, kBytes));
    static_cast<void>(party.tier->flush());
    ++item.made;
    if (!is_victim) --item.holders;
  }
  void round_of(std::uint64_t round) {
    const bool kill = round % 2 == 0;
    const std::string where = fmt::format("round {} ({})", round, kill ? "killed" : "stopped");
    const Shared<Item> items(kItems);
    Child victim([&] { return live(round, items, true); });
    wait([&] { return items[0].holds == 1; }, where + ": no process takes a lease");
    std::list<Child> others;
    for (std::size_t i = 0; i < kProcesses; ++i) {
      others.emplace_back([&] { return live(round, items, false); });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(round * 37 % 200));
    const Duration fault_at = run_.clock.now();
    if (kill) {
      static_cast<void>(victim.kill());
    } else {
      victim.signal(SIGSTOP);
    }
    const Duration until = run_.clock.now() + 15s;
    for (Child& other : others) {
      const ChildEnd end = other.wait(std::max<Duration>(until - run_.clock.now(), 1ms));
      count(end.well(), where + ": a process " + end.text());
    }
    tally_.recoveries.push_back(
        std::min(run_.clock.now() - fault_at, Duration(items[0].longest.load())));
    if (!kill) {
      items[0].holds = 2;
      victim.signal(SIGCONT);
      count(victim.wait(20s).well(), where + ": the stopped process does not resume");
    }
    judge(round, items, where);
  }
  void judge(std::uint64_t round, const Shared<Item>& items, const std::string& where) {
    Party party(server_.address());
    for (std::size_t i = 0; i < kItems; ++i) {
      const Item& item = items[i];
      const std::string what = where + ", item " + std::to_string(i);
      const auto seen = party.look(number(round, i), kBytes);
      count(seen.has_value(), what + " was never computed");
      tally_.wrong += item.wrong + (seen == false ? 1 : 0);
      count(item.wrong == 0 && seen != false, what + " has wrong bytes");
      count(item.together <= 1, what + " had two live holders at once");
      const Duration longest(item.longest.load());
      count(longest <= kMost, fmt::format("{}: a process waited {} ms, of {} allowed", what,
                                          longest / 1ms, kMost / 1ms));
    }
  }
  void wait(const auto& until, const std::string& what) {
    const Duration end = run_.clock.now() + 20s;
    while (!until() && run_.clock.now() < end) std::this_thread::sleep_for(1ms);
    if (!until()) tally_.miss(what);
  }

  const FireRun& run_;
  Tally& tally_;
  RedisServer server_;
};

}  // namespace

Tally run_leases(const FireRun& run) {
  Tally tally;
  if (!testing::redis_is_installed()) {
    tally.notes.emplace_back("skipped: redis-server is not installed");
    return tally;
  }
  LeaseStories stories(run, tally);
  stories.processes();  // first: this process has no threads yet
  stories.one_at_a_time();
  stories.holder_renews_its_lease();
  stories.late_holder(false);
  for (int time = 0; time < 5; ++time) stories.late_holder(true);
  stories.entry_before_release();
  stories.unexpected_replies();
  tally.notes.push_back(
      fmt::format("four processes and one that is killed or stopped while it holds a lease of {} "
                  "ms; recovery is "
                  "the longest wait for its item",
                  kLease / 1ms));
  return tally;
}

}  // namespace afterimage::fire
