// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Processes that share servers and make things by turns, and holders that are killed or stopped in
// the middle and go on late.
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
constexpr Duration kMost = kLease + 1s;  // that anybody waits for a holder who is gone
constexpr std::size_t kBytes = 150'000;

RemoteTierOptions options_for(const RemoteAddress& server) {
  RemoteTierOptions options = testing::patient_options({server});
  options.known_absent = 0ms;
  return options;
}

/// One process's end of it.
struct Party {
  explicit Party(const RemoteAddress& server, Duration lease = kLease)
      : tier(RemoteTier::open(options_for(server), memory, clock).value()),
        turns(*tier, {.lease = lease, .timeout = 20s}) {}
  bool put(std::uint64_t n, std::size_t size) const {
    return tier->put(tier_key(n), {}, tier_bytes(n, size)).has_value();
  }
  /// nullopt: there is none; otherwise whether it is right.
  std::optional<bool> look(std::uint64_t n, std::size_t size) {
    const auto found = tier->get(tier_key(n), memory);
    if (!found.has_value() || !found->has_value()) return std::nullopt;
    return std::ranges::equal((*found)->bytes, tier_bytes(n, size));
  }
  /// Ours before so long; how long that took.
  std::optional<std::pair<LeaseService::Claim, Duration>> comes_to(std::uint64_t n,
                                                                   Duration timeout) {
    const Duration began = clock.now();
    while (clock.now() - began < timeout) {
      auto claim = turns.claim(tier_key(n));
      if (claim.status == LeaseStatus::kOurs)
        return std::pair{std::move(claim), clock.now() - began};
      std::this_thread::sleep_for(2ms);
    }
    return std::nullopt;
  }

  MemoryBudget memory{64_MiB};
  SystemClock clock;
  std::unique_ptr<RemoteTier> tier;
  RedisLeases turns;
};

/// Of one item, in memory that all processes have.
struct Item {
  std::atomic<std::uint32_t> holders{0};  // that are alive, go on, and have not been late
  std::atomic<std::uint32_t> made{0};
  std::atomic<std::uint32_t> together{0};  // the most holders at a time
  std::atomic<std::uint32_t> wrong{0};
  std::atomic<std::uint64_t> longest{0};  // nanoseconds that somebody waited for it
  std::atomic<std::uint32_t> holds{0};    // somebody is about to make it
};

/// Two parties in one process, and a server that says who holds what.
class LeaseStories {
 public:
  LeaseStories(const FireRun& run, Tally& tally) : run_(run), tally_(tally) {}

  /// Of many who ask at once, one has it, also beyond its first time, and until what it put is
  /// there.
  void one_at_a_time() {
    Party one(server_.address());
    Party other(server_.address());
    for (std::uint64_t n = 0; n < run_.of(30, 6); ++n) {
      auto mine = one.turns.claim(tier_key(n));
      count(mine.status == LeaseStatus::kOurs, "a turn that nobody has is not given");
      count(other.turns.claim(tier_key(n)).status == LeaseStatus::kTheirs, "two have one turn");
      static_cast<void>(one.put(n, 2'500'000));
      mine.lease.reset();
      const auto theirs = other.comes_to(n, 10s);
      count(theirs.has_value() && other.look(n, 2'500'000) == true,
            "a turn is given back before what was put is there");
    }
  }
  void who_works_keeps_it() {
    Party one(server_.address());
    Party other(server_.address());
    const auto mine = one.turns.claim(tier_key(100));
    const Duration until = run_.clock.now() + 3 * kLease;
    bool kept = true;
    while (kept && run_.clock.now() < until) {
      kept = other.turns.claim(tier_key(100)).status == LeaseStatus::kTheirs;
      std::this_thread::sleep_for(10ms);
    }
    count(kept && one.turns.stats().expired == 0, "who works for longer than a turn loses it");
  }
  /// Late, it neither renews nor removes what is another's by then; also if it becomes another's
  /// between its look and its word.
  void who_is_late(bool between) {
    const std::uint64_t n = between ? 102 : 101;
    Party one(server_.address(), 60s);
    Party other(server_.address(), 60s);
    auto mine = one.turns.claim(tier_key(n));
    FaultSite* const compared = FaultSite::find("turn.compared");
    const std::uint64_t before = compared->passes();
    LeaseService::Claim theirs;
    const auto take_over = [&] {
      server_.ask({"DEL", turn_name(tier_key(n))});
      theirs = other.turns.claim(tier_key(n));
    };
    if (between) {
      // Held up there for some milliseconds: enough, unless this machine is very busy.
      compared->arm(FaultSite::Action::kSleep, 1);
      std::thread late([&] { mine.lease.reset(); });
      while (compared->passes() == before) std::this_thread::yield();
      take_over();
      late.join();
    } else {
      take_over();
      mine.lease.reset();
    }
    count(theirs.status == LeaseStatus::kOurs, "a turn that is over is not given");
    const auto left = server_.ask({"GET", turn_name(tier_key(n))});
    count(left.kind == RespKind::kBulk, "who was late took another's turn away");
    if (!between) count(one.turns.stats().expired == 1, "nobody is told that a turn is over");
  }
  /// The server hears of the turn's end when it has all of what was put.
  void what_was_put_comes_first() {
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
        auto mine = party.turns.claim(tier_key(n));
        static_cast<void>(party.put(n, 8'000'000));
        mine.lease.reset();
      }
      count(there && !early, "a turn ends before what was put is there");
    }
  }
  /// A server that answers something else gives no turn, and nobody waits for it.
  void what_servers_say() {
    for (const char* answer : {":1\r\n", "$2\r\nOK\r\n", "*0\r\n"}) {
      ScriptedServer server;
      server.set_script([&](const auto& words, const std::string& honest) -> Said {
        return {words[0] == "SET" && words[1].starts_with("afi1:t:") ? answer : honest};
      });
      Party party(server.address());
      count(party.turns.claim(tier_key(1)).status == LeaseStatus::kUnknown,
            "something else is taken for an answer about a turn");
    }
    // The name changed between look and word: nothing was done, and that is told.
    ScriptedServer server;
    server.set_script([](const auto& words, const std::string& honest) -> Said {
      return {words[0] == "EXEC" ? "*-1\r\n" : honest};
    });
    Party party(server.address(), 60s);
    party.turns.claim(tier_key(1)).lease.reset();
    count(party.turns.stats().expired == 1, "what was not done passes for done");
  }

  /// Processes make things by turns; some are killed while they make one, some stopped for longer
  /// than a turn lasts, and then go on.
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
  static std::uint64_t number(std::uint64_t round, std::size_t item) {
    return 1'000 + round * kItems + item;
  }
  /// In a process: every item in turn, until it is there. The first to hold the first item is hit:
  /// it waits there for what comes.
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
        auto claim = party.turns.claim(tier_key(n));
        if (claim.status != LeaseStatus::kOurs) {
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
  static void make(Party& party, Item& item, std::uint64_t n, bool is_hit) {
    if (is_hit) {
      item.holds = 1;
      while (item.holds == 1) std::this_thread::sleep_for(1ms);
      // And late, it puts what it made all the same.
    } else {
      const std::uint32_t together = ++item.holders;
      item.together = std::max(item.together.load(), together);
      std::this_thread::sleep_for(3ms);
    }
    static_cast<void>(party.put(n, kBytes));
    static_cast<void>(party.tier->flush());
    ++item.made;
    if (!is_hit) --item.holders;
  }
  void round_of(std::uint64_t round) {
    const bool kill = round % 2 == 0;
    const std::string where = fmt::format("round {} ({})", round, kill ? "killed" : "stopped");
    const Shared<Item> items(kItems);
    Child victim([&] { return live(round, items, true); });
    wait([&] { return items[0].holds == 1; }, where + ": nobody takes a turn");
    std::list<Child> others;
    for (std::size_t i = 0; i < kProcesses; ++i) {
      others.emplace_back([&] { return live(round, items, false); });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(round * 37 % 200));
    const Duration hit = run_.clock.now();
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
        std::min(run_.clock.now() - hit, Duration(items[0].longest.load())));
    if (!kill) {
      items[0].holds = 2;
      victim.signal(SIGCONT);
      count(victim.wait(20s).well(), where + ": who was stopped does not go on");
    }
    judge(round, items, where);
  }
  void judge(std::uint64_t round, const Shared<Item>& items, const std::string& where) {
    Party party(server_.address());
    for (std::size_t i = 0; i < kItems; ++i) {
      const Item& item = items[i];
      const std::string what = where + ", item " + std::to_string(i);
      const auto seen = party.look(number(round, i), kBytes);
      count(seen.has_value(), what + " was never made");
      tally_.wrong += item.wrong + (seen == false ? 1 : 0);
      count(item.wrong == 0 && seen != false, what + " has wrong bytes");
      count(item.together <= 1, what + " had two live holders at a time");
      const Duration longest(item.longest.load());
      count(longest <= kMost,
            fmt::format("{}: {} ms were waited for, of {}", what, longest / 1ms, kMost / 1ms));
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
    tally.notes.emplace_back("left out: there is no redis-server");
    return tally;
  }
  LeaseStories stories(run, tally);
  stories.processes();  // first: this process has no threads yet
  stories.one_at_a_time();
  stories.who_works_keeps_it();
  stories.who_is_late(false);
  for (int time = 0; time < 5; ++time) stories.who_is_late(true);
  stories.what_was_put_comes_first();
  stories.what_servers_say();
  tally.notes.push_back(
      fmt::format("four processes and one that is killed or stopped while it holds a turn of {} "
                  "ms; recovery is "
                  "the longest wait for its item",
                  kLease / 1ms));
  return tally;
}

}  // namespace afterimage::fire
