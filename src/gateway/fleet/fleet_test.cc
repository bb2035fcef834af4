// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/fleet.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <set>

#include "foundation/crypto/sha256.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

/// Is never asked: these tests are about the choice.
class NoServer final : public Backend {
 public:
  [[nodiscard]] std::string_view kind() const override { return "test"; }
  [[nodiscard]] std::string name() const override { return "none"; }
  [[nodiscard]] ModelIdentity identity(const std::string& model) const override {
    return {.model = model, .weights_epoch = {}, .encoder = {}, .adapter = {}, .chat_template = {}};
  }
  [[nodiscard]] bool takes_anything() const override { return true; }
  BackendCall ask(BackendRequest /*request*/,
                  std::shared_ptr<BackendListener> /*listener*/) override {
    return {};
  }
};

UpstreamSettings replicas(std::vector<std::string> texts, const std::string& routing = "content") {
  UpstreamSettings settings;
  settings.replicas = std::move(texts);
  settings.routing = routing;
  settings.max_connections = 1000;
  return settings;
}

/// A prompt of blocks of 4,000 bytes (about 1,000 tokens each), named by their words.
std::shared_ptr<const ContentChain> prompt(const std::vector<std::string>& blocks) {
  ContentChain chain;
  std::string before;
  for (const std::string& block : blocks) {
    before += "/" + block;
    ChainLink link{.key = {sha256(std::as_bytes(std::span(before)))}};
    link.is_media = block.starts_with("image");
    if (link.is_media) link.media.bytes = sha256(std::as_bytes(std::span(block)));
    if (!link.is_media) link.text_bytes = 4000;
    chain.links.push_back(link);
  }
  return std::make_shared<const ContentChain>(std::move(chain));
}

struct World {
  explicit World(const UpstreamSettings& settings)
      : fleet(clock, [](const ReplicaSetting&) -> Result<std::shared_ptr<Backend>> {
          return std::make_shared<NoServer>();
        }) {
    EXPECT_TRUE(fleet.apply(settings).has_value());
  }
  FleetClaim claim(const std::vector<std::string>& blocks, const std::string& model = "m") {
    auto claimed = fleet.claim({.model = model, .chain = prompt(blocks)});
    EXPECT_TRUE(claimed.has_value());
    return *std::move(claimed);
  }
  /// Asks, and is answered after `took`. Returns the replica.
  Route serve(const std::vector<std::string>& blocks, Duration took = 1ms) {
    FleetClaim one = claim(blocks);
    clock.advance(took);
    fleet.began(one, true);
    fleet.ended(one, CallResult::kAnswered, {});
    return one.route;
  }
  void fail(FleetClaim& one, CallResult result) { fleet.ended(one, result, {}); }
  ReplicaStats stats(const std::string& name) {
    for (const ReplicaStats& one : fleet.stats()) {
      if (one.setting.name == name) return one;
    }
    ADD_FAILURE() << name;
    return {};
  }

  ManualClock clock;
  Fleet fleet;
};

const std::vector<std::string> kThree{"http://a name=a", "http://b name=b", "http://c name=c"};

TEST(Fleet, SendsARequestWhereItsBeginningIs) {
  World world(replicas(kThree));
  const Route first = world.serve({"system", "one", "two"});
  EXPECT_EQ(first.reason, "least-loaded");
  for (int i = 0; i < 20; ++i) {
    const Route again = world.serve({"system", "one", "two", "next" + std::to_string(i)});
    EXPECT_EQ(again.replica, first.replica);
    EXPECT_EQ(again.reason, "prefix");
  }
  EXPECT_TRUE(first.why.contains("0 are expected to be resident")) << first.why;
}

TEST(Fleet, SendsAPictureWhereItWasEncoded) {
  World world(replicas(kThree));
  const Route first = world.serve({"image1", "what"});
  const Route other = world.serve({"other system", "image1", "why"});
  EXPECT_EQ(other.replica, first.replica);
  EXPECT_EQ(other.reason, "media");
}

TEST(Fleet, NewContentGoesToTheLeastLoadedByWeight) {
  World world(replicas({"http://a name=a", "http://b name=b weight=3"}));
  std::map<std::string, int> chosen;
  std::vector<FleetClaim> claims;
  for (int i = 0; i < 40; ++i) {
    claims.push_back(world.claim({"new" + std::to_string(i)}));
    ++chosen[claims.back().route.replica];
  }
  EXPECT_NEAR(chosen["b"], 30, 2);
  for (auto& one : claims) world.fail(one, CallResult::kCancelled);
}

TEST(Fleet, AHotItemSpreadsAsItsQueueGrows) {
  World world(replicas(kThree));
  const Route first = world.serve({"image1", "what"});
  std::map<std::string, int> chosen;
  std::set<std::string> reasons;
  std::vector<FleetClaim> claims;
  for (int i = 0; i < 60; ++i) {
    claims.push_back(world.claim({"image1", "what", "ask" + std::to_string(i)}));
    ++chosen[claims.back().route.replica];
    reasons.emplace(claims.back().route.reason);
  }
  EXPECT_EQ(chosen.size(), 3U);
  EXPECT_TRUE(reasons.contains("spread"));
  // The one that holds it still gets the largest part.
  for (const auto& [name, count] : chosen) {
    if (name != first.replica) EXPECT_LT(count, chosen[first.replica]);
  }
  for (auto& one : claims) world.fail(one, CallResult::kCancelled);
  EXPECT_EQ(world.serve({"image1", "what"}).replica, first.replica) << "the queue is gone";
}

TEST(Fleet, RoundRobinFollowsWeights) {
  World world(replicas({"http://a name=a weight=2", "http://b name=b"}, "round-robin"));
  std::string order;
  for (int i = 0; i < 6; ++i) order += world.serve({"same"}).replica;
  EXPECT_EQ(order, "abaaba");
}

TEST(Fleet, LeastLoadedIgnoresContent) {
  World world(replicas(kThree, "least-loaded"));
  std::set<std::string> chosen;
  for (int i = 0; i < 3; ++i) chosen.insert(world.serve({"same", "content"}).replica);
  EXPECT_EQ(chosen.size(), 3U);
}

TEST(Fleet, RespectsModelsLimitsAndDraining) {
  World world(replicas({"http://a name=a models=qwen* limit=1", "http://b name=b models=llava"}));
  const auto ask = [&](const std::string& model) {
    return world.fleet.claim({.model = model, .chain = prompt({"x"})});
  };
  auto first = ask("qwen3");
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->route.replica, "a");
  EXPECT_EQ(ask("qwen3").error(), FleetRefusal::kFull);
  EXPECT_EQ(ask("gemma").error(), FleetRefusal::kNotServed);
  EXPECT_EQ(world.fleet.drain("b", true), 0U);
  EXPECT_EQ(ask("llava").error(), FleetRefusal::kNone);
  EXPECT_EQ(world.fleet.drain("b", false), 0U);
  auto second = ask("llava");
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(world.fleet.drain("a", true), 1U);
  EXPECT_EQ(world.fleet.drain("x", true), std::nullopt);
  world.fail(*first, CallResult::kCancelled);
  world.fail(*second, CallResult::kCancelled);
}

TEST(Fleet, AFailedReplicaIsEjectedAndItsRecordIsGone) {
  World world(replicas(kThree));
  const Route first = world.serve({"system", "one"});
  FleetClaim broken = world.claim({"system", "one"});
  EXPECT_EQ(broken.route.replica, first.replica);
  world.fail(broken, CallResult::kConnection);
  EXPECT_EQ(world.stats(first.replica).state, "ejected");
  EXPECT_EQ(world.stats(first.replica).links, 0U);
  for (int i = 0; i < 10; ++i)
    EXPECT_NE(world.serve({"new" + std::to_string(i)}).replica, first.replica);
  world.clock.advance(1s);
  EXPECT_EQ(world.stats(first.replica).state, "on-trial");
}

TEST(Fleet, OnTrialAReplicaGetsOneRequestAtATime) {
  World world(replicas({"http://a name=a"}));
  FleetClaim broken = world.claim({"x"});
  world.fail(broken, CallResult::kConnection);
  world.clock.advance(2s);
  FleetClaim trial = world.claim({"x"});
  EXPECT_EQ(world.fleet.claim({.model = "m", .chain = nullptr}).error(), FleetRefusal::kNone);
  world.fleet.began(trial, true);
  FleetClaim next = world.claim({"x"});
  world.fleet.ended(trial, CallResult::kAnswered, {});
  world.fleet.ended(next, CallResult::kCancelled, {});
}

TEST(Fleet, StatusesNeverEjectTheLastAvailableReplica) {
  World world(replicas({"http://a name=a", "http://b name=b"}));
  for (int i = 0; i < 40; ++i) {
    FleetClaim one = world.claim({"poison" + std::to_string(i)});
    world.fail(one, CallResult::kStatus);
  }
  const auto available = [&](const std::string& name) {
    return world.stats(name).state == "ready";
  };
  EXPECT_TRUE(available("a") || available("b"));
}

TEST(Fleet, ReloadKeepsWhatIsKnownOfReplicasThatStay) {
  World world(replicas({"http://a name=a", "http://b name=b"}));
  const Route first = world.serve({"system", "one"});
  FleetClaim on_its_way = world.claim({"system", "one"});
  ASSERT_TRUE(world.fleet.apply(replicas({"http://b name=b", "http://a name=a", "http://c name=c"}))
                  .has_value());
  EXPECT_EQ(world.stats(first.replica).in_flight, 1U);
  EXPECT_EQ(world.serve({"system", "one", "two"}).replica, first.replica);
  ASSERT_TRUE(world.fleet.apply(replicas({"http://c name=c"})).has_value());
  world.fleet.ended(on_its_way, CallResult::kAnswered, {});  // it had gone meanwhile
  EXPECT_EQ(world.serve({"system", "one"}).replica, "c");
  EXPECT_FALSE(world.fleet.apply(replicas({"nonsense"})).has_value());
  EXPECT_EQ(world.fleet.stats().size(), 1U);
}

TEST(Fleet, LearnsWhichReplicaIsSlow) {
  World world(replicas({"http://slow name=slow", "http://fast name=fast"}));
  for (int i = 0; i < 60; ++i) {
    FleetClaim one = world.claim({"new" + std::to_string(i), "more"});
    world.clock.advance(one.route.replica == "slow" ? 900ms : 100ms);
    world.fleet.began(one, true);
    world.fleet.ended(one, CallResult::kAnswered, {});
  }
  EXPECT_GT(world.stats("slow").slowness, 2 * world.stats("fast").slowness);
  EXPECT_EQ(world.serve({"another"}, 50ms).replica, "fast");
}

TEST(Fleet, ReportsOfCachedTokensConfirmAndDisprove) {
  World world(replicas({"http://a name=a"}));
  const auto ask = [&](std::uint64_t cached) {
    FleetClaim one = world.claim({"x", "y"});
    world.fleet.began(one, true);
    world.fleet.ended(one, CallResult::kAnswered, {.prompt_tokens = 2000, .cached_tokens = cached});
    return one.route.candidates[0].confirmed_tokens;
  };
  EXPECT_EQ(ask(0), 0);
  EXPECT_EQ(ask(2000), 0);
  EXPECT_GT(ask(2000), 1900);
  EXPECT_EQ(world.stats("a").cached_tokens, 4000);
  EXPECT_EQ(ask(0) > 1900, true) << "a report counts from the next request on";
  EXPECT_EQ(ask(0), 0);
}

TEST(Fleet, WhatAnEngineReportsOfItsCacheShortensTheRecord) {
  World world(replicas({"http://a name=a", "http://b name=b"}));
  const Route first = world.serve({"s", "one", "two", "three"});
  world.fleet.engine_evicted(first.replica, 0.5);
  const auto tokens = [&] { return world.stats(first.replica).resident_tokens; };
  EXPECT_NEAR(tokens(), 2000, 100);
  EXPECT_EQ(world.serve({"s", "one"}).replica, first.replica) << "the beginning stays longest";
  world.fleet.engine_evicted("unknown", 1);
  world.fleet.engine_cleared(first.replica);
  EXPECT_EQ(tokens(), 0);
}

TEST(Fleet, ExplainTakesNoPlace) {
  World world(replicas(kThree));
  const Route first = world.serve({"system", "one"});
  const Route said = world.fleet.expected_route({.model = "m", .chain = prompt({"system", "one"})});
  EXPECT_EQ(said.replica, first.replica);
  EXPECT_EQ(said.candidates.size(), 3U);
  for (const ReplicaStats& one : world.fleet.stats()) EXPECT_EQ(one.in_flight, 0U);
}

/// Whatever happens: no request goes to a replica that is draining, ejected, full or of another
/// model, and places are given back.
TEST(FleetProperty, NeverChoosesAReplicaThatMayNotBeAsked) {
  for_each_seed(100, [](Rng& rng) {
    const std::vector<std::string> all{"http://a name=a limit=3", "http://b name=b models=m,n",
                                       "http://c name=c models=m weight=2", "http://d name=d"};
    static constexpr std::array<const char*, 3> kRoutings{"content", "least-loaded", "round-robin"};
    World world(replicas(all, kRoutings[rng.below(3)]));
    std::list<FleetClaim> claims;
    std::set<std::string> draining;
    for (int step = 0; step < 300; ++step) {
      world.clock.advance(Duration(static_cast<Duration::rep>(rng.below(400'000'000))));
      const std::string model = rng.chance(0.5) ? "m" : "n";
      std::map<std::string, ReplicaStats> before;
      for (const ReplicaStats& one : world.fleet.stats()) before[one.setting.name] = one;
      const bool avoids = rng.chance(0.2);
      auto claimed = world.fleet.claim(
          {.model = model,
           .chain =
               prompt({"s" + std::to_string(rng.below(3)), "q" + std::to_string(rng.below(9))}),
           .avoid = avoids ? std::vector<std::string>{"d"} : std::vector<std::string>{}});
      if (claimed.has_value()) {
        const ReplicaStats& was = before.at(claimed->route.replica);
        ASSERT_TRUE(was.state == "ready" || (was.state == "on-trial" && was.in_flight == 0))
            << was.state;
        ASSERT_LT(was.in_flight, was.limit);
        ASSERT_FALSE(draining.contains(claimed->route.replica));
        ASSERT_FALSE(avoids && claimed->route.replica == "d");
        ASSERT_TRUE(serves_model(was.setting, model));
        claims.push_back(*std::move(claimed));
      }
      if (!claims.empty() && rng.chance(0.6)) {
        auto one = std::next(claims.begin(), static_cast<long>(rng.below(claims.size())));
        if (!one->began && rng.chance(0.7)) world.fleet.began(*one, rng.chance(0.5));
        world.fleet.ended(*one, static_cast<CallResult>(rng.below(kCallResults)),
                          {.prompt_tokens = rng.below(5000), .cached_tokens = rng.below(9000)});
        claims.erase(one);
      }
      if (rng.chance(0.05)) {
        const std::string name = rng.chance(0.5) ? "a" : "c";
        const bool drains = rng.chance(0.5);
        world.fleet.drain(name, drains);
        draining.erase(name);
        if (drains) draining.insert(name);
      }
      if (rng.chance(0.05)) world.fleet.probed("b", rng.chance(0.5));
    }
    for (FleetClaim& one : claims) world.fleet.ended(one, CallResult::kCancelled, {});
    for (const ReplicaStats& one : world.fleet.stats()) ASSERT_EQ(one.in_flight, 0U);
  });
}

// A simulation: replicas with prefix caches of their own, which the fleet does not see.

/// A server that prefills one prompt after the other and has a prefix cache, least recently used
/// blocks first.
struct SimulatedServer {
  static constexpr double kTokenSeconds = 0.0002;
  static constexpr std::size_t kBlocks = 250;

  std::size_t cached(const std::vector<std::string>& blocks) const {
    std::size_t count = 0;
    std::string key;
    for (const std::string& block : blocks) {
      key += "/" + block;
      if (!known.contains(key)) break;
      ++count;
    }
    return count;
  }
  void use(const std::vector<std::string>& blocks) {
    std::vector<std::string> keys;
    std::string key;
    for (const std::string& block : blocks) keys.push_back(key += "/" + block);
    for (std::size_t i = keys.size(); i-- > 0;) {
      if (const auto it = known.find(keys[i]); it != known.end()) order.erase(it->second);
      order.push_front(keys[i]);
      known[keys[i]] = order.begin();
    }
    while (known.size() > kBlocks) {
      known.erase(order.back());
      order.pop_back();
    }
  }
  std::list<std::string> order;
  std::map<std::string, std::list<std::string>::iterator> known;
  double free_at = 0;  // seconds
  double busy = 0;
};

struct SimulatedTraffic {
  double hit_ratio = 0;
  double imbalance = 0;  // the busiest server's work, relative to the average
};

using SimulatedChoice = std::function<std::size_t(const std::vector<std::string>&,
                                                  const std::vector<SimulatedServer>&, double)>;

/// Sessions that grow by a turn, over shared system prompts with Zipf popularity.
SimulatedTraffic simulate(std::uint64_t seed, const std::string& routing,
                          const SimulatedChoice& omniscient) {
  constexpr std::size_t kServers = 8;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < kServers; ++i)
    texts.push_back(fmt::format("http://r{} name={}", i, i));
  World world(replicas(texts, routing));
  std::vector<SimulatedServer> servers(kServers);
  struct Pending {
    double first = 0;
    FleetClaim claim;
    double prompt = 0;
    double cached = 0;
  };
  std::multimap<double, Pending> pending;
  Rng rng(seed);
  std::vector<std::vector<std::string>> sessions;
  double now = 0;
  double asked = 0;
  double hit = 0;
  const auto until = [&](double time) {
    while (!pending.empty() && pending.begin()->first <= time) {
      auto node = pending.extract(pending.begin());
      world.clock.advance(
          std::chrono::duration_cast<Duration>(std::chrono::duration<double>(node.key() - now)));
      now = node.key();
      Pending& done = node.mapped();
      world.fleet.began(done.claim, true);
      world.fleet.ended(done.claim, CallResult::kAnswered,
                        {.prompt_tokens = static_cast<std::uint64_t>(done.prompt),
                         .cached_tokens = static_cast<std::uint64_t>(done.cached)});
    }
    world.clock.advance(
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(time - now)));
    now = time;
  };
  for (int request = 0; request < 4000; ++request) {
    until(now + 0.18 * rng.uniform());
    if (sessions.size() < 60 || rng.chance(0.15)) {
      // Zipf: the most popular of 40 system prompts opens a quarter of the sessions.
      const auto system = static_cast<std::size_t>(40.0 / (1 + 39 * rng.uniform())) - 1;
      std::vector<std::string> begun;
      for (int i = 0; i < 4; ++i) begun.push_back(fmt::format("s{}.{}", system, i));
      if (sessions.size() >= 60) sessions.erase(sessions.begin());
      sessions.push_back(std::move(begun));
    }
    auto& session = sessions[rng.below(sessions.size())];
    session.push_back(fmt::format("t{}", request));
    Pending next;
    std::size_t where = 0;
    if (omniscient) {
      where = omniscient(session, servers, now);
    } else {
      next.claim = world.claim(session);
      where = std::stoul(next.claim.route.replica);
    }
    SimulatedServer& server = servers[where];
    const auto cached = static_cast<double>(server.cached(session)) * 1000;
    const double all = static_cast<double>(session.size()) * 1000;
    const double work = (all - cached) * SimulatedServer::kTokenSeconds;
    server.use(session);
    server.free_at = std::max(server.free_at, now) + work;
    if (request >= 1000) {
      server.busy += work;
      asked += all;
      hit += cached;
    }
    if (omniscient) continue;
    next.prompt = all;
    next.cached = cached;
    pending.emplace(server.free_at, std::move(next));
  }
  until(1e6);
  double most = 0;
  double sum = 0;
  for (const SimulatedServer& server : servers) {
    most = std::max(most, server.busy);
    sum += server.busy;
  }
  return {.hit_ratio = hit / asked, .imbalance = most * kServers / sum};
}

/// Sees every cache and queue.
std::size_t best_server(const std::vector<std::string>& blocks,
                        const std::vector<SimulatedServer>& servers, double now) {
  std::size_t best = 0;
  double least = 1e300;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const double rest = static_cast<double>(blocks.size() - servers[i].cached(blocks));
    const double at =
        std::max(servers[i].free_at, now) + rest * 1000 * SimulatedServer::kTokenSeconds;
    if (at < least) {
      least = at;
      best = i;
    }
  }
  return best;
}

TEST(FleetSimulation, ContentRoutingHitsAlmostAsOftenAsARouterThatSeesAllCaches) {
  for (const std::uint64_t seed : {1UL, 2UL}) {
    const SimulatedTraffic content = simulate(seed, "content", nullptr);
    const SimulatedTraffic loaded = simulate(seed, "least-loaded", nullptr);
    const SimulatedTraffic turns = simulate(seed, "round-robin", nullptr);
    const SimulatedTraffic best = simulate(seed, "content", best_server);
    const std::string all = fmt::format(
        "hit ratio and imbalance: content {:.3f} {:.2f}, least-loaded {:.3f} {:.2f}, round-robin "
        "{:.3f} {:.2f}, all-seeing {:.3f} {:.2f}",
        content.hit_ratio, content.imbalance, loaded.hit_ratio, loaded.imbalance, turns.hit_ratio,
        turns.imbalance, best.hit_ratio, best.imbalance);
    RecordProperty(fmt::format("seed{}", seed), all);
    EXPECT_GE(content.hit_ratio, 0.95 * best.hit_ratio) << all;
    EXPECT_LE(content.imbalance, 1.3) << all;
    EXPECT_GT(content.hit_ratio, loaded.hit_ratio + 0.1) << all;
    EXPECT_GT(content.hit_ratio, turns.hit_ratio + 0.1) << all;
  }
}

}  // namespace
}  // namespace afterimage
