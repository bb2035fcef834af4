// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "foundation/platform/mutex.h"
#include "gateway/config/replica_setting.h"
#include "gateway/config/settings.h"
#include "gateway/fleet/replica_health.h"
#include "gateway/fleet/residency.h"
#include "gateway/fleet/wait_model.h"
#include "gateway/prompts/content_chain.h"
#include "gateway/proxy/backend.h"

namespace afterimage {

enum class Routing : unsigned char { kContent, kLeastLoaded, kRoundRobin };

inline constexpr std::size_t kCallResults = 6;
/// "answered", "connection", "timeout", "status", "busy", "cancelled".
[[nodiscard]] std::string_view to_string(CallResult result);

/// One server of a fleet. The fleet's mutex guards everything in it but `server`.
struct Replica {
  Replica(ReplicaSetting its, std::shared_ptr<Backend> answers)
      : setting(std::move(its)), server(std::move(answers)), wait(setting.weight) {}

  /// What its events confirmed is theirs to take back, when their connection breaks at the latest.
  void may_have_restarted() {
    residency.forget_assumed();
    ++starts;
  }
  void lost_its_caches() {
    residency.clear();
    ++starts;
  }

  ReplicaSetting setting;
  std::shared_ptr<Backend> server;
  std::uint32_t limit = 1;
  bool draining = false;
  bool asleep = false;
  ReplicaHealth health;
  Residency residency;
  std::uint64_t starts = 0;  // how often it may have been started again, with empty caches
  WaitModel wait;
  std::uint32_t in_flight = 0;
  WaitModel::Load load;
  double turn = 0;           // of weighted round-robin
  std::uint64_t chosen = 0;  // when it was chosen last, counted in requests
  std::array<std::uint64_t, kCallResults> results{};
  std::map<std::string_view, std::uint64_t> routed;  // by reason
  double expected_tokens = 0;  // of prompts, that were expected to be resident
  double cached_tokens = 0;    // that the server reported
  double prompt_tokens = 0;    // of the prompts for which it did
};

/// For metrics and pages.
struct ReplicaStats {
  ReplicaSetting setting;
  std::string state;  // "ready", "full", "draining", "asleep", "ejected", "on-trial"
  std::uint32_t limit = 0;
  std::uint32_t in_flight = 0;
  std::uint64_t ejections = 0;
  std::array<std::uint64_t, kCallResults> results{};
  std::map<std::string_view, std::uint64_t> routed;
  std::size_t links = 0;
  std::size_t media = 0;
  double resident_tokens = 0;
  double expected_tokens = 0;
  double cached_tokens = 0;
  double prompt_tokens = 0;
  double wait_s = 0;
  double slowness = 1;
};

/// What a request asks of a fleet.
struct FleetAsk {
  std::string model = {};                               // empty: unknown
  std::shared_ptr<const ContentChain> chain = nullptr;  // nullptr: unknown
  std::vector<std::string> avoid = {};                  // replicas that were tried
  std::uint32_t attempt = 1;
  /// A replica has had it and failed: only one that is known to be healthy gets it, none on trial.
  bool only_healthy = false;
};

/// One request at one replica, from claim() to ended().
struct FleetClaim {
  std::shared_ptr<Replica> replica = nullptr;
  std::shared_ptr<const ContentChain> chain = nullptr;
  std::vector<float> tokens = {};  // of each link
  double all_tokens = 0;
  Resident before = {};
  double uncached_media = 0;
  double cost_s = 0;  // on an idle replica
  WaitModel::Load load = {};
  Duration sent{0};
  bool began = false;
  /// Prompts a second that the replica may be asked to tokenize; 0: none, or it publishes no events.
  std::uint32_t tokenize = 0;
  Route route = {};
};

/// Why no replica takes a request now.
enum class FleetRefusal : unsigned char {
  kFull,       // each that may be asked has as many requests as it takes
  kNone,       // each is draining, asleep, ejected, or was tried
  kNotServed,  // none serves this model
};

/// The counts of a response; absent: the server did not say.
struct FleetUsage {
  std::optional<std::uint64_t> prompt_tokens = std::nullopt;
  std::optional<std::uint64_t> cached_tokens = std::nullopt;
};

/// Several servers of the same models, and the choice of one for each request.
///
/// Content routing minimizes expected seconds: prefill and encoding of what a replica is not
/// expected to hold, and the wait for the requests before it; both are learned from responses.
/// Choices that differ by less than the estimates can tell go to the least loaded replica.
///
/// Errors   apply: kInvalidArgument: a replica that cannot be read; nothing changes.
/// Threads  Any.
/// Source   src/gateway/fleet/DESIGN.md.
class Fleet {
 public:
  using Connect = std::function<Result<std::shared_ptr<Backend>>(const ReplicaSetting&)>;
  /// `clock` outlives it.
  Fleet(const Clock& clock, Connect connect) : clock_(clock), connect_(std::move(connect)) {}

  /// Replicas that stay, by name and URL, keep what is known of them. Those that go finish the
  /// requests that they have.
  Result<void> apply(const UpstreamSettings& settings);

  /// Chooses a replica and takes one of its places.
  [[nodiscard]] std::expected<FleetClaim, FleetRefusal> claim(const FleetAsk& ask);
  /// The same choice, without taking it.
  [[nodiscard]] Route expected_route(const FleetAsk& ask) const;
  /// The first byte of a good response. `streamed`: the rest is yet to be generated.
  void began(FleetClaim& claim, bool streamed);
  /// Gives the place back. True: the server computed what its own events say it holds.
  bool ended(FleetClaim& claim, CallResult result, const FleetUsage& usage);

  /// Whether there is a replica that it may wait for; `also_ejected`: for the end of an ejection, too.
  [[nodiscard]] bool others_may_take(const FleetAsk& ask, bool also_ejected) const;
  /// False: the budget is spent.
  [[nodiscard]] bool may_retry();
  void probed(const std::string& name, bool answered);
  /// Its engine sleeps, or is awake. It gets no requests while it sleeps, and then its caches are empty.
  /// True: that is new.
  bool slept(const std::string& name, bool asleep);
  /// It was found dead right after a request: it is ejected, and nothing is assumed of its caches.
  void died(const std::string& name);
  /// Those that are not ejected, in the order of the settings.
  [[nodiscard]] std::vector<std::pair<ReplicaSetting, std::shared_ptr<Backend>>> servers() const;
  /// Whether the server of a replica may take salts.
  [[nodiscard]] bool may_take_salts() const;
  /// nullopt: no such replica.
  [[nodiscard]] std::optional<ReplicaSetting> setting(std::string_view name) const;
  /// nullopt: no such replica. Else how many requests it still has.
  std::optional<std::uint32_t> drain(std::string_view name, bool draining);

  /// What an engine's own events say: this share of its cache is gone, or all. Unknown replicas are
  /// ignored.
  void engine_evicted(std::string_view name, double share);
  void engine_cleared(std::string_view name);
  /// The same from an engine that names its content: it holds these links of chains, or has lost them.
  void engine_holds(std::string_view name, std::span<const ChainKey> keys, std::uint32_t tokens);
  void engine_lost(std::string_view name, std::span<const ChainKey> keys);

  [[nodiscard]] std::vector<ReplicaStats> stats() const;
  /// The shortest expected wait, in seconds.
  [[nodiscard]] double shortest_wait_s() const;

 private:
  struct Choice;
  [[nodiscard]] std::string_view state_of(const Replica& replica, const FleetAsk& ask,
                                          Duration now) const AFI_REQUIRES(mutex_);
  [[nodiscard]] Choice weigh(const FleetAsk& ask, Duration now) const AFI_REQUIRES(mutex_);
  void pick(Choice& choice) const AFI_REQUIRES(mutex_);
  void take_turns(const Replica& chosen, const Choice& choice) AFI_REQUIRES(mutex_);
  [[nodiscard]] bool others_available(const Replica& than, Duration now) const AFI_REQUIRES(mutex_);
  bool learn_usage(FleetClaim& claim, const FleetUsage& usage, Duration now) AFI_REQUIRES(mutex_);
  [[nodiscard]] Replica* find(std::string_view name) const AFI_REQUIRES(mutex_);

  const Clock& clock_;
  const Connect connect_;
  mutable Mutex mutex_;
  Routing routing_ AFI_GUARDED_BY(mutex_) = Routing::kContent;
  std::vector<std::shared_ptr<Replica>> replicas_ AFI_GUARDED_BY(mutex_);
  CostModel cost_ AFI_GUARDED_BY(mutex_);
  RetryBudget budget_ AFI_GUARDED_BY(mutex_);
  std::uint64_t claims_ AFI_GUARDED_BY(mutex_) = 0;
};

}  // namespace afterimage
