// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/fleet.h"

#include <algorithm>
#include <utility>

#include "afterimage/result.h"
#include "gateway/fleet/fleet_choice.h"

namespace afterimage {

std::string_view to_string(CallResult result) {
  static constexpr std::array<std::string_view, kCallResults> kNames{
      "answered", "connection", "timeout", "status", "busy", "cancelled"};
  return kNames.at(static_cast<std::size_t>(result));
}

namespace {

Routing routing_of(std::string_view name) {
  if (name == "least-loaded") return Routing::kLeastLoaded;
  return name == "round-robin" ? Routing::kRoundRobin : Routing::kContent;
}

double seconds_between(Duration from, Duration to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Result<void> Fleet::apply(const UpstreamSettings& settings) {
  std::vector<std::shared_ptr<Replica>> next;
  for (const std::string& text : settings.replicas) {
    AFI_TRY(ReplicaSetting setting, parse_replica(text));
    AFI_TRY(auto server, connect_(setting));
    next.push_back(std::make_shared<Replica>(std::move(setting), std::move(server)));
  }
  const MutexLock lock(mutex_);
  for (auto& replica : next) {
    const ReplicaSetting setting = replica->setting;
    Replica* const same = find(setting.name);
    if (same != nullptr && same->setting.url == setting.url) {
      replica = *std::ranges::find_if(replicas_, [&](const auto& r) { return r.get() == same; });
      replica->setting = setting;
    }
    replica->limit = setting.limit == 0 ? settings.max_connections : setting.limit;
  }
  replicas_ = std::move(next);
  routing_ = routing_of(settings.routing);
  budget_.set_share(settings.retry_budget);
  return {};
}

std::expected<FleetClaim, FleetRefusal> Fleet::claim(const FleetAsk& ask) {
  const MutexLock lock(mutex_);
  const Duration now = clock_.now();
  Choice choice = weigh(ask, now);
  pick(choice);
  if (choice.chosen == nullptr) return std::unexpected(choice.refusal());
  Replica& replica = *choice.chosen;
  take_turns(replica, choice);
  if (ask.attempt == 1) budget_.requested(now);
  FleetClaim claim{.replica = choice.chosen,
                   .chain = ask.chain,
                   .tokens = std::move(choice.tokens),
                   .all_tokens = choice.all_tokens,
                   .before = choice.picked().resident,
                   .uncached_media = choice.picked().uncached_media,
                   .cost_s = choice.picked().cost_s,
                   .load = replica.load,
                   .sent = now,
                   .tokenize = replica.setting.events.empty() ? 0 : replica.setting.tokenize,
                   .route = std::move(choice.route)};
  ++replica.in_flight;
  replica.load.prefill_s += claim.cost_s;
  ++replica.routed[claim.route.reason];
  replica.expected_tokens += claim.before.tokens;
  return claim;
}

Route Fleet::expected_route(const FleetAsk& ask) const {
  const MutexLock lock(mutex_);
  Choice choice = weigh(ask, clock_.now());
  pick(choice);
  return std::move(choice.route);
}

void Fleet::began(FleetClaim& claim, bool streamed) {
  const MutexLock lock(mutex_);
  AFI_CHECK(!claim.began);
  const Duration now = clock_.now();
  claim.began = true;
  Replica& replica = *claim.replica;
  replica.load.prefill_s = std::max(0.0, replica.load.prefill_s - claim.cost_s);
  ++replica.load.generating;
  replica.health.called(CallResult::kAnswered, now, /*may_eject=*/false);
  if (claim.chain == nullptr) return;
  replica.residency.assume(*claim.chain, claim.tokens, now);
  if (!streamed) return;
  const double took = seconds_between(claim.sent, now);
  const bool was_idle = claim.load.prefill_s == 0 && claim.load.generating == 0;
  if (was_idle) {
    cost_.learn_compute(claim.all_tokens - claim.before.tokens, claim.uncached_media,
                        took / std::clamp(replica.wait.slowness(), 0.1, 10.0));
  }
  replica.wait.learn(claim.cost_s, claim.load, took);
}

bool Fleet::ended(FleetClaim& claim, CallResult result, const FleetUsage& usage) {
  const MutexLock lock(mutex_);
  const Duration now = clock_.now();
  Replica& replica = *claim.replica;
  AFI_CHECK(replica.in_flight > 0);
  --replica.in_flight;
  if (claim.began) {
    replica.load.generating = std::max(0.0, replica.load.generating - 1);
  } else {
    replica.load.prefill_s = std::max(0.0, replica.load.prefill_s - claim.cost_s);
  }
  // Rounding must not leave a wait behind.
  if (replica.in_flight == 0) replica.load = {};
  ++replica.results[static_cast<std::size_t>(result)];
  replica.health.called(result, now, others_available(replica, now));
  if (result == CallResult::kConnection) replica.may_have_restarted();
  return result == CallResult::kAnswered && claim.began && learn_usage(claim, usage, now);
}

bool Fleet::learn_usage(FleetClaim& claim, const FleetUsage& usage, Duration now) {
  Replica& replica = *claim.replica;
  if (claim.chain == nullptr || !usage.prompt_tokens.has_value() || *usage.prompt_tokens == 0) {
    return false;
  }
  const auto prompt = static_cast<double>(*usage.prompt_tokens);
  cost_.learn_tokens(*claim.chain, prompt);
  if (!usage.cached_tokens.has_value()) return false;
  const double cached = std::min(static_cast<double>(*usage.cached_tokens), prompt);
  replica.cached_tokens += cached;
  replica.prompt_tokens += prompt;
  const double reused = cached / prompt * claim.all_tokens;
  replica.residency.learn(*claim.chain, claim.tokens, reused, claim.before);
  return replica.residency.is_contradicted(*claim.chain, claim.tokens, reused, claim.before, now);
}

bool Fleet::others_available(const Replica& than, Duration now) const {
  return std::ranges::any_of(replicas_, [&](const auto& other) {
    return other.get() != &than && !other->draining && !other->asleep &&
           !other->health.ejected(now) && !other->health.on_trial(now);
  });
}

bool Fleet::others_may_take(const FleetAsk& ask, bool also_ejected) const {
  const MutexLock lock(mutex_);
  const Duration now = clock_.now();
  return std::ranges::any_of(replicas_, [&](const auto& replica) AFI_REQUIRES(mutex_) {
    const std::string_view state = state_of(*replica, ask, now);
    return state == "ready" || state == "full" || (also_ejected && state == "ejected");
  });
}

bool Fleet::may_retry() {
  const MutexLock lock(mutex_);
  return budget_.take(clock_.now());
}

Replica* Fleet::find(std::string_view name) const {
  const auto it = std::ranges::find_if(
      replicas_, [&](const auto& replica) { return replica->setting.name == name; });
  return it == replicas_.end() ? nullptr : it->get();
}

void Fleet::probed(const std::string& name, bool answered) {
  const MutexLock lock(mutex_);
  Replica* const replica = find(name);
  if (replica == nullptr) return;
  const std::uint64_t before = replica->health.ejections();
  replica->health.probed(answered, clock_.now());
  if (replica->health.ejections() != before) replica->may_have_restarted();
}

bool Fleet::slept(const std::string& name, bool asleep) {
  const MutexLock lock(mutex_);
  Replica* const replica = find(name);
  if (replica == nullptr || std::exchange(replica->asleep, asleep) == asleep) return false;
  replica->lost_its_caches();
  return true;
}

void Fleet::died(const std::string& name) {
  const MutexLock lock(mutex_);
  Replica* const replica = find(name);
  if (replica == nullptr) return;
  replica->health.called(CallResult::kConnection, clock_.now(), /*may_eject=*/true);
  replica->may_have_restarted();
}

std::vector<std::pair<ReplicaSetting, std::shared_ptr<Backend>>> Fleet::servers() const {
  const MutexLock lock(mutex_);
  std::vector<std::pair<ReplicaSetting, std::shared_ptr<Backend>>> servers;
  for (const auto& replica : replicas_) {
    if (replica->health.ejected(clock_.now())) continue;
    servers.emplace_back(replica->setting, replica->server);
  }
  return servers;
}

bool Fleet::may_take_salts() const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(replicas_,
                             [](const auto& replica) { return replica->server->may_take_salts(); });
}

std::optional<ReplicaSetting> Fleet::setting(std::string_view name) const {
  const MutexLock lock(mutex_);
  const Replica* const replica = find(name);
  return replica == nullptr ? std::nullopt : std::optional(replica->setting);
}

std::optional<std::uint32_t> Fleet::drain(std::string_view name, bool draining) {
  const MutexLock lock(mutex_);
  Replica* const replica = find(name);
  if (replica == nullptr) return std::nullopt;
  replica->draining = draining;
  return replica->in_flight;
}

void Fleet::engine_evicted(std::string_view name, double share) {
  const MutexLock lock(mutex_);
  Replica* const replica = find(name);
  if (replica == nullptr) return;
  // Engines evict the least recently used blocks, of prompts and answers alike.
  replica->residency.forget_share(share);
}

void Fleet::engine_holds(std::string_view name, std::span<const ChainKey> keys,
                         std::uint32_t tokens) {
  const MutexLock lock(mutex_);
  Replica* const replica = find(name);
  if (replica == nullptr) return;
  for (const ChainKey& key : keys) {
    replica->residency.report_held(key, static_cast<float>(tokens), clock_.now());
  }
}

void Fleet::engine_lost(std::string_view name, std::span<const ChainKey> keys) {
  const MutexLock lock(mutex_);
  Replica* const replica = find(name);
  if (replica == nullptr) return;
  for (const ChainKey& key : keys) replica->residency.report_lost(key);
}

void Fleet::engine_cleared(std::string_view name) {
  const MutexLock lock(mutex_);
  if (Replica* const replica = find(name)) replica->lost_its_caches();
}

double Fleet::shortest_wait_s() const {
  const MutexLock lock(mutex_);
  double shortest = 1e9;
  for (const auto& replica : replicas_) {
    shortest = std::min(shortest, replica->wait.wait_s(replica->load));
  }
  return replicas_.empty() ? 0 : shortest;
}

std::vector<ReplicaStats> Fleet::stats() const {
  const MutexLock lock(mutex_);
  const Duration now = clock_.now();
  std::vector<ReplicaStats> all;
  for (const auto& replica : replicas_) {
    const Replica& r = *replica;
    std::string state(state_of(r, {}, now));
    if (state == "ready" && r.health.on_trial(now)) state = "on-trial";
    all.push_back({.setting = r.setting,
                   .state = std::move(state),
                   .limit = r.limit,
                   .in_flight = r.in_flight,
                   .ejections = r.health.ejections(),
                   .results = r.results,
                   .routed = r.routed,
                   .links = r.residency.links(),
                   .media = r.residency.media(),
                   .resident_tokens = r.residency.tokens(),
                   .expected_tokens = r.expected_tokens,
                   .cached_tokens = r.cached_tokens,
                   .prompt_tokens = r.prompt_tokens,
                   .wait_s = r.wait.wait_s(r.load),
                   .slowness = r.wait.slowness()});
  }
  return all;
}

}  // namespace afterimage
