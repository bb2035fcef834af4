// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Servers that die or hang, and a network that delays, drops, cuts and corrupts data.
#include <fmt/format.h>

#include <thread>

#include "afterimage/digest.h"
#include "fire/matrix.h"
#include "fire/proxy.h"
#include "storage/redis/testing/redis_servers.h"
#include "storage/remote/manifest.h"
#include "storage/remote/remote_tier.h"

namespace afterimage::fire {

using testing::RedisCluster;
using testing::RedisServer;

namespace {

using namespace std::chrono_literals;
using Mood = TcpProxy::Mood;

// A busy machine wakes a thread late.
constexpr Duration kSlack = 500ms;

/// Entries on servers; checks that every result is right and within its deadline.
class RemoteLoad {
 public:
  RemoteLoad(const FireRun& run, Tally& tally, RemoteTierOptions options)
      : run_(run), tally_(tally) {
    tier_ = RemoteTier::open(std::move(options), memory_, run.clock).value();
  }
  static std::size_t size_of(std::uint64_t n) {
    return 1 + (n * 7'919) % (n % 8 == 0 ? 2'500'000 : 20'000);
  }
  bool put(std::uint64_t n) {
    return tier_->put(testing::tier_key(n), {}, testing::tier_bytes(n, size_of(n))).has_value();
  }
  bool flush() { return tier_->flush().has_value(); }
  bool get(std::uint64_t n, const std::string& where) {
    const Duration began = run_.clock.now();
    const auto found = tier_->get(testing::tier_key(n), room_);
    const Duration took = run_.clock.now() - began;
    const Duration deadline = tier_->longest_get(Bytes(size_of(n))) + kSlack;
    longest_ = std::max(longest_, took);
    if (took > deadline) {
      tally_.miss(fmt::format("a get took {} ms of {}: {}", took / 1ms, deadline / 1ms, where));
    }
    const bool hit = found && *found;
    tally_.note(!hit || std::ranges::equal((*found)->bytes, testing::tier_bytes(n, size_of(n)))
                    ? Finding::kFine
                    : Finding::kWrongBytes,
                where);
    return hit;
  }
  /// Waits until a put is found again, up to a limit.
  bool serves(std::uint64_t n, Duration timeout, const std::string& where) {
    const Duration end = run_.clock.now() + timeout;
    do {
      if (put(n) && flush() && get(n, where)) return true;
      std::this_thread::sleep_for(20ms);
    } while (run_.clock.now() < end);
    return false;
  }
  [[nodiscard]] RemoteTier& tier() { return *tier_; }
  [[nodiscard]] Duration longest() const { return longest_; }

 private:
  const FireRun& run_;
  Tally& tally_;
  MemoryBudget memory_{64_MiB};
  MemoryBudget room_{64_MiB};
  std::unique_ptr<RemoteTier> tier_;
  Duration longest_{0};
};

RemoteTierOptions options_for(std::vector<RemoteAddress> seeds) {
  RemoteTierOptions options = testing::long_timeout_options(std::move(seeds));
  options.servers.connect_timeout = 200ms;
  options.servers.timeout = 250ms;
  options.flush_timeout = 2s;
  options.known_absent = 10ms;
  return options;
}

/// Whether a server's keys include this entry.
bool is_on(const RespValue& keys, std::uint64_t n) {
  const std::string digits = to_hex(testing::tier_key(n).bytes);
  return std::ranges::any_of(keys.items,
                             [&](const RespValue& key) { return key.text.ends_with(digits); });
}

bool is_master(RedisServer& server) {
  const RespValue role = server.ask({"ROLE"});
  return !role.items.empty() && role.items.front().text == "master";
}

}  // namespace

namespace {

constexpr std::uint64_t kProbes = 24;

/// When a bare client finds every slot served by the remaining servers: any later recovery time is
/// ours.
class BareClient {
 public:
  BareClient(RedisCluster& cluster, const RedisServer& victim, const Clock& clock)
      : cluster_(cluster), victim_(victim), clock_(clock), began_(clock.now()), thread_([this] {
          while (!served() && clock_.now() - began_ < 20s) std::this_thread::sleep_for(5ms);
          took_ = clock_.now() - began_;
        }) {}
  Duration took() {
    thread_.join();
    return took_;
  }

 private:
  [[nodiscard]] bool served() {
    std::size_t live = 0;
    while (&cluster_.server(live) == &victim_) ++live;
    const auto ranges = slot_ranges(cluster_.server(live).ask({"CLUSTER", "SLOTS"}),
                                    cluster_.server(live).address());
    for (; ranges.has_value() && next_ < kProbes; ++next_) {
      // In braces: the hash tag, which selects the slot, not the key.
      const std::string name = manifest_name(testing::tier_key(next_));
      const RedisServer* const owner = owner_of(slot_of(name), *ranges);
      if (owner == nullptr || owner == &victim_) return false;
      const RespValue said = owner->ask({"SET", "{" + name + "}bare", "x", "PX", "1000"});
      if (said.kind != RespKind::kText) return false;
    }
    return next_ == kProbes;
  }
  [[nodiscard]] const RedisServer* owner_of(std::uint16_t slot,
                                            const std::vector<SlotRange>& ranges) const {
    for (const SlotRange& range : ranges) {
      if (slot < range.first || slot > range.last) continue;
      for (std::size_t i = 0; i < cluster_.size(); ++i) {
        if (cluster_.server(i).address() == range.master) return &cluster_.server(i);
      }
    }
    return nullptr;
  }

  RedisCluster& cluster_;
  const RedisServer& victim_;
  const Clock& clock_;
  const Duration began_;
  std::uint64_t next_ = 0;
  Duration took_{0};
  std::thread thread_;
};

/// All of them are put and found again.
bool serves_all(RemoteLoad& load, const std::string& where) {
  bool all = true;
  for (std::uint64_t n = 0; n < kProbes; ++n) all = load.put(n) && all;
  all = load.flush() && all;
  for (std::uint64_t n = 0; n < kProbes && all; ++n) all = load.get(n, where);
  return all;
}

}  // namespace

Tally run_network(const FireRun& run) {
  Tally tally;
  if (!testing::redis_is_installed()) {
    tally.notes.emplace_back("skipped: redis-server is not installed");
    return tally;
  }
  RedisServer server;
  TcpProxy proxy(server.address().port);
  RemoteTierOptions options = options_for({{.host = "127.0.0.1", .port = proxy.port()}});
  // Long enough to be reached, short enough not to dominate the row.
  options.servers.breaker = {.open_duration = 1s, .ramp_tenth = 200ms, .ramp_third = 200ms};
  RemoteLoad load(run, tally, std::move(options));
  Rng rng(run.seed);
  constexpr std::uint64_t kEntries = 16;
  const auto fill = [&] {
    for (std::uint64_t n = 0; n < kEntries; ++n) static_cast<void>(load.put(n));
    return load.flush();
  };
  tally.expect(load.serves(100, 20s, "before any fault") && fill(),
               "it does not serve before any fault");
  static constexpr std::array kMoods = {std::pair{Mood::kDelays, std::uint64_t{40}},
                                        std::pair{Mood::kDelays, std::uint64_t{2'000}},
                                        std::pair{Mood::kSwallows, std::uint64_t{0}},
                                        std::pair{Mood::kHalfCloses, std::uint64_t{0}},
                                        std::pair{Mood::kResets, std::uint64_t{0}},
                                        std::pair{Mood::kThrottles, std::uint64_t{100}},
                                        std::pair{Mood::kThrottles, std::uint64_t{100'000}},
                                        std::pair{Mood::kFlips, std::uint64_t{3'001}},
                                        std::pair{Mood::kFlips, std::uint64_t{97}},
                                        std::pair{Mood::kTruncates, std::uint64_t{7}},
                                        std::pair{Mood::kTruncates, std::uint64_t{5'000}}};
  const std::uint64_t rounds = run.of(6, 1) * kMoods.size();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto [mood, amount] = kMoods[round % kMoods.size()];
    const std::string where = fmt::format("mood {} of {}, --only network --seed {}",
                                          static_cast<int>(mood), amount, run.seed);
    const std::uint64_t before = proxy.meddled();
    proxy.be(mood, amount);
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t n = rng.below(kEntries);
      if (rng.chance(0.4)) static_cast<void>(load.put(n));
      static_cast<void>(load.get(n, where));
    }
    proxy.be(Mood::kHonest);
    tally.injected += proxy.meddled() - before;
    const Duration healed = run.clock.now();
    // A damaged entry on the server is a miss now, and is put again.
    tally.expect(load.serves(200 + round, 15s, where), "it does not serve again: " + where);
    tally.recoveries.push_back(run.clock.now() - healed);
    static_cast<void>(fill());
    run.tell(round + 1, rounds);
  }
  tally.detected = tally.injected;
  tally.notes.push_back(fmt::format("the longest get took {} ms", load.longest() / 1ms));
  return tally;
}

Tally run_cluster(const FireRun& run) {
  Tally tally;
  const std::uint64_t kills = run.of(20, 0);
  if (kills == 0 || !testing::redis_is_installed()) {
    tally.notes.emplace_back(kills == 0 ? "not in brief"
                                        : "skipped: redis-server is not installed");
    return tally;
  }
  // The settings that docs/remote.md recommends.
  constexpr Duration kNodeTimeout = 2s;
  constexpr Duration kBar = 2 * kNodeTimeout + 1s;
  constexpr Duration kOurs = 1s;
  RedisCluster cluster(3, 1, std::to_string(kNodeTimeout / 1ms));
  RemoteLoad load(run, tally, options_for(cluster.addresses()));
  constexpr std::uint64_t kEntries = 240;
  Rng rng(run.seed);
  std::uint64_t hits = 0;
  std::uint64_t asked = 0;
  std::vector<Duration> servers;
  std::vector<Duration> ours;
  for (std::uint64_t fault = 0; fault < 2 * kills; ++fault) {
    const bool kill = fault % 2 == 0;
    const std::string where = fmt::format("{} {}, --only cluster --seed {}", kill ? "kill" : "stop",
                                          fault / 2 + 1, run.seed);
    for (std::uint64_t n = 0; n < kEntries; ++n) static_cast<void>(load.put(n));
    if (!load.flush()) static_cast<void>(load.flush());
    std::vector<std::uint64_t> there;
    for (std::uint64_t n = 0; n < kEntries; ++n) {
      if (load.get(n, where)) there.push_back(n);
    }
    std::vector<std::size_t> masters;
    for (std::size_t i = 0; i < cluster.size(); ++i) {
      if (is_master(cluster.server(i))) masters.push_back(i);
    }
    RedisServer& victim = cluster.server(masters[rng.below(masters.size())]);
    // The server itself knows which keys it holds.
    std::vector<bool> hit_by_fault(kEntries, false);
    const RespValue keys = victim.ask({"KEYS", "*"});
    for (std::uint64_t n = 0; n < kEntries; ++n) {
      hit_by_fault[n] = is_on(keys, n);
    }
    kill ? victim.kill() : victim.stop();
    const Duration began = run.clock.now();
    BareClient bare(cluster, victim, run.clock);
    ++tally.injected;
    ++tally.detected;
    // While it is down, keys on the other servers are found.
    for (const std::uint64_t n : there) {
      const bool hit = load.get(n, where);
      if (hit_by_fault[n] || RemoteLoad::size_of(n) > 1'000'000) continue;
      ++asked;
      hits += hit ? 1 : 0;
    }
    bool all = false;
    while (!all && run.clock.now() - began < 20s) {
      all = serves_all(load, where);
      if (!all) std::this_thread::sleep_for(5ms);
    }
    const Duration took = run.clock.now() - began;
    tally.recoveries.push_back(took);
    servers.push_back(bare.took());
    if (took > kBar) {
      tally.miss(fmt::format("a recovery took {} ms of {}, {} of them the servers' own: {}",
                             took / 1ms, kBar / 1ms, servers.back() / 1ms, where));
    }
    ours.push_back(std::max<Duration>(took - servers.back(), Duration(0)));
    if (ours.back() > kOurs) {
      tally.miss(fmt::format("the servers recovered after {} ms, and the tier after {}: {}",
                             servers.back() / 1ms, took / 1ms, where));
    }
    tally.expect(all, "not all slots are served again: " + where);
    kill ? victim.start() : victim.go_on();
    testing::wait_until([&] {
      const RespValue role = victim.ask({"ROLE"});
      return role.items.size() > 3 && role.items[0].text == "slave" &&
             role.items[3].text == "connected";
    });
    run.tell(fault + 1, 2 * kills);
  }
  tally.expect(asked > 0 && hits * 100 >= asked * 99,
               fmt::format("{} of {} hits on the servers that stayed", hits, asked));
  const auto text = [](const std::vector<Duration>& of) {
    return fmt::format("{} / {} ms", percentile(of, 0.5) / 1ms, percentile(of, 1.0) / 1ms);
  };
  tally.notes.push_back(fmt::format(
      "{} of {} hits on the servers that stayed; the longest get took {} ms; 3 masters, 3 "
      "replicas, node timeout {} s, no recovery longer than {} s; of the recoveries (p50 / max) {} "
      "were the servers' own, until a bare client was served, and {} ours",
      hits, asked, load.longest() / 1ms, kNodeTimeout / 1s, kBar / 1s, text(servers), text(ours)));
  return tally;
}

}  // namespace afterimage::fire
