// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/fleet_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <set>
#include <utility>

#include "foundation/platform/mutex.h"
#include "gateway/fleet/fleet_call.h"
#include "gateway/fleet/fleet_models.h"
#include "gateway/fleet/sleep_state.h"
#include "gateway/proxy/upstream.h"

namespace afterimage {
namespace {

/// Ends of ejections and deadlines are noticed this soon while requests wait.
constexpr Duration kTick = std::chrono::milliseconds(50);
constexpr Duration kLongestProbe = std::chrono::seconds(5);
constexpr std::size_t kMostShown = 20;  // fatal requests
/// The fleet limits what a replica gets; its Upstream need not.
constexpr std::uint32_t kUnlimited = 1'000'000;

/// Hears whether a replica answers a probe.
class ProbeListener final : public HttpListener {
 public:
  explicit ProbeListener(std::function<void(bool)> heard) : heard_(std::move(heard)) {}
  void on_head(unsigned status, HttpHeaders /*headers*/) override { say(status < 500); }
  void on_bytes(std::string_view /*bytes*/) override {}
  void on_end() override { say(false); }
  void on_error(const Error& /*error*/) override { say(false); }

 private:
  void say(bool answered) {
    if (heard_) std::exchange(heard_, nullptr)(answered);
  }
  std::function<void(bool)> heard_;
};

/// Reads from a server's metrics whether its engine sleeps; says nothing of other servers.
class SleepListener final : public HttpListener {
 public:
  explicit SleepListener(std::function<void(bool asleep)> heard) : heard_(std::move(heard)) {}
  void on_head(unsigned status, HttpHeaders /*headers*/) override { is_good_ = status == 200; }
  void on_bytes(std::string_view bytes) override {
    if (is_good_) state_.feed(bytes);
  }
  void on_end() override {
    const auto asleep = state_.asleep();
    if (is_good_ && asleep.has_value()) heard_(*asleep);
  }
  void on_error(const Error& /*error*/) override {}

 private:
  std::function<void(bool asleep)> heard_;
  SleepState state_;
  bool is_good_ = false;
};

}  // namespace

class FleetBackend::Core final : public FleetCallHost,
                                 public std::enable_shared_from_this<FleetBackend::Core> {
 public:
  Core(UpstreamSettings settings, std::string key, HttpCaller& caller, IoThreads& threads,
       const Clock& clock, Log* log)
      : settings_(std::move(settings)),
        fleet_name_(settings_.fleet),
        epoch_(settings_.epoch),
        caller_(caller),
        threads_(threads),
        clock_(clock),
        log_(log),
        fleet_(clock, [this, key = std::move(key)](
                          const ReplicaSetting& replica) { return connect(replica, key); }),
        models_(fleet_, threads, clock) {}

  Result<void> apply(const UpstreamSettings& settings);
  void start_probes();
  void stop();
  [[nodiscard]] const std::string& fleet_name() const { return fleet_name_; }
  [[nodiscard]] const std::string& epoch() const { return epoch_; }
  [[nodiscard]] FleetBackendStats stats() const;
  [[nodiscard]] std::map<std::string, KvSourceStats> kv_events() const;

  Fleet& fleet() override { return fleet_; }
  [[nodiscard]] Duration now() const override { return clock_.now(); }
  void place(const std::shared_ptr<FleetCall>& call) override;
  void pump() override;
  void count_retry(bool allowed) override;
  void answered(const BackendRequest& request, const FleetClaim& claim) override;
  void sent(const std::shared_ptr<FleetCall>& call) override;
  void doubt(const std::string& replica) override;
  FatalRequests& fatal() override { return fatal_; }
  void check(const std::string& replica, std::function<void(bool alive)> heard) override;
  void died(const BackendRequest& request, const RequestDigest& digest,
            const std::string& replica) override;
  FleetModels& models() { return models_; }
  [[nodiscard]] std::vector<FatalRequest> fatal_requests() const {
    return fatal_.newest(kMostShown, clock_.now());
  }

 private:
  using Calls = std::vector<std::shared_ptr<FleetCall>>;
  Result<std::shared_ptr<Backend>> connect(const ReplicaSetting& replica, const std::string& key);
  void follow_events() AFI_REQUIRES(mutex_);
  std::shared_ptr<PromptReader> make_reader();
  void probe_all();
  void probe(const ReplicaSetting& replica, std::function<void(bool)> heard);
  void ask_for_health(const ReplicaSetting& replica, std::function<void(bool)> heard);
  void ask_whether_it_sleeps(const ReplicaSetting& replica);
  void slept(const std::string& replica, bool asleep);
  [[nodiscard]] UpstreamSettings settings() const {
    const MutexLock lock(mutex_);
    return settings_;
  }
  void schedule_tick() AFI_REQUIRES(mutex_);
  void take_late(Calls& late) AFI_REQUIRES(mutex_);
  void refuse_late(const Calls& late);
  void refuse_full(FleetCall& call);
  static void refuse_model(FleetCall& call);
  [[nodiscard]] unsigned retry_after() const;

  mutable Mutex mutex_;
  UpstreamSettings settings_ AFI_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<FleetCall>> queue_ AFI_GUARDED_BY(mutex_);
  FleetBackendStats stats_ AFI_GUARDED_BY(mutex_);
  bool ticks_ AFI_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<FleetCall>> sent_ AFI_GUARDED_BY(mutex_);  // to replicas; some are over
  std::size_t prune_sent_at_ AFI_GUARDED_BY(mutex_) = 64;
  const std::string fleet_name_;
  const std::string epoch_;
  HttpCaller& caller_;
  IoThreads& threads_;
  const Clock& clock_;
  Log* const log_;  // nullptr: nothing is logged
  std::atomic<bool> stopped_ = false;
  Fleet fleet_;
  FatalRequests fatal_;
  FleetModels models_;
  /// nullptr: no replica publishes events. Its thread uses the fleet.
  std::unique_ptr<KvSubscriber> subscriber_ AFI_GUARDED_BY(mutex_);
  /// With the subscriber. Calls on their way hold it, too.
  std::shared_ptr<PromptReader> reader_ AFI_GUARDED_BY(mutex_);
};

Result<std::shared_ptr<Backend>> FleetBackend::Core::connect(const ReplicaSetting& replica,
                                                             const std::string& key) {
  UpstreamSettings its = settings();
  its.url = replica.url;
  its.max_connections = kUnlimited;
  if (replica.cache_salt.has_value()) its.cache_salt = replica.cache_salt;
  AFI_TRY(auto upstream, Upstream::create(its, key, caller_, clock_));
  return std::shared_ptr<Backend>(std::move(upstream));
}

Result<void> FleetBackend::Core::apply(const UpstreamSettings& settings) {
  AFI_TRY_VOID(fleet_.apply(settings));
  fatal_.set_refusal(settings.fatal_refusal);
  {
    const MutexLock lock(mutex_);
    settings_ = settings;
    follow_events();
  }
  pump();
  return {};
}

void FleetBackend::Core::stop() {
  stopped_ = true;
  const MutexLock lock(mutex_);
  if (reader_ != nullptr) reader_->stop();
  subscriber_.reset();
}

void FleetBackend::Core::answered(const BackendRequest& request, const FleetClaim& claim) {
  std::shared_ptr<PromptReader> reader;
  {
    const MutexLock lock(mutex_);
    reader = reader_;
  }
  if (reader != nullptr) reader->offer(request, claim);
}

/// Its calls may end after this backend has: they hold the reader, and only the reader.
std::shared_ptr<PromptReader> FleetBackend::Core::make_reader() {
  const std::weak_ptr<Core> weak = weak_from_this();
  return std::make_shared<PromptReader>(
      threads_, clock_,
      PromptReader::Callbacks{.sources =
                                  [weak] {
                                    const auto self = weak.lock();
                                    return self == nullptr ? std::map<std::string, KvSourceStats>()
                                                           : self->kv_events();
                                  },
                              .learned =
                                  [weak](KnownPrompt prompt) {
                                    const auto self = weak.lock();
                                    if (self == nullptr) return;
                                    const MutexLock lock(self->mutex_);
                                    if (self->subscriber_ != nullptr)
                                      self->subscriber_->learn(std::move(prompt));
                                  }});
}

void FleetBackend::Core::follow_events() {
  std::vector<KvSource> sources;
  for (const std::string& text : settings_.replicas) {
    const auto replica = parse_replica(text);
    if (!replica.has_value() || replica->events.empty()) continue;
    sources.push_back(
        {.name = replica->name, .events = replica->events, .replay = replica->replay});
  }
  if (sources.empty() && subscriber_ == nullptr) return;
  if (subscriber_ == nullptr) {
    subscriber_ = std::make_unique<KvSubscriber>(KvSubscriber::Callbacks{
        .evicted = [this](const std::string& name,
                          double share) { fleet_.engine_evicted(name, share); },
        .cleared = [this](const std::string& name) { fleet_.engine_cleared(name); },
        .holds = [this](const std::string& name, std::span<const ChainKey> keys,
                        std::uint32_t tokens) { fleet_.engine_holds(name, keys, tokens); },
        .lost = [this](const std::string& name,
                       std::span<const ChainKey> keys) { fleet_.engine_lost(name, keys); }});
    reader_ = make_reader();
  }
  subscriber_->follow(std::move(sources));
}

std::map<std::string, KvSourceStats> FleetBackend::Core::kv_events() const {
  const MutexLock lock(mutex_);
  return subscriber_ == nullptr ? std::map<std::string, KvSourceStats>() : subscriber_->stats();
}

void FleetBackend::Core::start_probes() {
  threads_.post_after(threads_.here_or_next(), settings().health_interval,
                      [weak = weak_from_this()] {
                        const auto self = weak.lock();
                        if (self == nullptr || self->stopped_) return;
                        self->probe_all();
                        self->start_probes();
                      });
}

void FleetBackend::Core::probe_all() {
  for (const ReplicaStats& replica : fleet_.stats()) {
    probe(replica.setting, [weak = weak_from_this(), setting = replica.setting](bool answered) {
      const auto self = weak.lock();
      if (answered && self != nullptr && !self->stopped_) self->ask_whether_it_sleeps(setting);
    });
  }
}

/// vLLM answers for its health while it sleeps, and keeps requests until it is woken.
void FleetBackend::Core::ask_whether_it_sleeps(const ReplicaSetting& replica) {
  auto url = parse_url(replica.url);
  if (!url.has_value()) return;
  url->target = "/metrics";
  const Duration most = std::min(settings().health_interval, kLongestProbe);
  caller_.call(
      {.method = "GET",
       .url = *std::move(url),
       .headers = {},
       .body = nullptr,
       .connect_timeout = most,
       .idle_timeout = most,
       .deadline = most},
      std::make_shared<SleepListener>([weak = weak_from_this(), name = replica.name](bool asleep) {
        const auto self = weak.lock();
        if (self != nullptr && !self->stopped_) self->slept(name, asleep);
      }));
}

void FleetBackend::Core::slept(const std::string& replica, bool asleep) {
  if (fleet_.slept(replica, asleep)) {
    if (log_ != nullptr) {
      log_->info(asleep ? "replica_sleeps" : "replica_awake", {{"replica", replica}});
    }
    doubt(replica);
    if (!asleep) pump();
  }
  if (!asleep) return;
  Calls calls;
  {
    const MutexLock lock(mutex_);
    for (const auto& one : sent_) {
      if (auto call = one.lock()) calls.push_back(std::move(call));
    }
  }
  for (const auto& call : calls) call->leave_sleeping(replica);
}

void FleetBackend::Core::sent(const std::shared_ptr<FleetCall>& call) {
  const MutexLock lock(mutex_);
  if (sent_.size() >= prune_sent_at_) {
    std::erase_if(sent_, [](const auto& one) { return one.expired(); });
    prune_sent_at_ = std::max<std::size_t>(64, 2 * sent_.size());
  }
  sent_.push_back(call);
}

void FleetBackend::Core::doubt(const std::string& replica) {
  const MutexLock lock(mutex_);
  if (subscriber_ != nullptr) subscriber_->doubt(replica);
}

/// `heard` is told, too, whatever becomes of this.
void FleetBackend::Core::probe(const ReplicaSetting& replica, std::function<void(bool)> heard) {
  ask_for_health(replica, [weak = weak_from_this(), name = replica.name,
                           heard = std::move(heard)](bool answered) {
    const auto self = weak.lock();
    const bool runs = self != nullptr && !self->stopped_;
    if (runs) self->fleet_.probed(name, answered);
    heard(answered);
    if (runs && answered) self->pump();
  });
}

void FleetBackend::Core::ask_for_health(const ReplicaSetting& replica,
                                        std::function<void(bool)> heard) {
  const UpstreamSettings now = settings();
  auto url = parse_url(replica.url);
  if (!url.has_value()) return;  // apply() has parsed it
  url->target = now.health_path;
  const Duration most = std::min(now.health_interval, kLongestProbe);
  caller_.call({.method = "GET",
                .url = *std::move(url),
                .headers = {},
                .body = nullptr,
                .connect_timeout = most,
                .idle_timeout = most},
               std::make_shared<ProbeListener>(std::move(heard)));
}

void FleetBackend::Core::check(const std::string& replica, std::function<void(bool alive)> heard) {
  const auto setting = fleet_.setting(replica);
  if (!setting.has_value()) return heard(false);  // a reload has removed it
  // Not probe(): that it answers for its health does not end the ejection for what it has just failed.
  ask_for_health(*setting, std::move(heard));
}

void FleetBackend::Core::died(const BackendRequest& request, const RequestDigest& digest,
                              const std::string& replica) {
  fleet_.died(replica);
  const std::string model = request.request == nullptr ? "" : request.request->model;
  const std::uint32_t deaths = fatal_.died(digest, model, replica, clock_.now());
  if (log_ == nullptr) return;
  log_->error("fatal_request", {{"replica", replica},
                                {"request_id", request.headers.find("x-request-id").value_or("")},
                                {"digest", digest.hex()},
                                {"model", model},
                                {"deaths", deaths}});
}

FleetBackendStats FleetBackend::Core::stats() const {
  const MutexLock lock(mutex_);
  FleetBackendStats stats = stats_;
  stats.waiting = queue_.size();
  if (reader_ != nullptr) stats.prompts = reader_->stats();
  stats.fatal = fatal_.deaths();
  stats.fatal_refused = fatal_.refused();
  return stats;
}

void FleetBackend::Core::count_retry(bool allowed) {
  const MutexLock lock(mutex_);
  ++(allowed ? stats_.retries : stats_.retries_denied);
}

/// While requests wait: ends of ejections and deadlines have no event of their own.
void FleetBackend::Core::schedule_tick() {
  if (std::exchange(ticks_, true)) return;
  threads_.post_after(threads_.here_or_next(), kTick, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->stopped_) return;
    {
      const MutexLock lock(self->mutex_);
      self->ticks_ = false;
    }
    self->pump();
  });
}

void FleetBackend::Core::place(const std::shared_ptr<FleetCall>& call) {
  std::optional<FleetClaim> claim;
  bool not_served = false;
  {
    const MutexLock lock(mutex_);
    // Those that wait for the same model were here before.
    const bool behind = std::ranges::any_of(
        queue_, [&](const auto& waiting) { return waiting->ask().model == call->ask().model; });
    if (!behind || call->ask().attempt > 1) {
      auto claimed = fleet_.claim(call->ask());
      if (claimed.has_value()) {
        claim = *std::move(claimed);
      } else {
        not_served = claimed.error() == FleetRefusal::kNotServed;
      }
    }
    if (!claim.has_value() && !not_served && queue_.size() < settings_.queue) {
      // A retry has waited already.
      if (call->ask().attempt > 1)
        queue_.push_front(call);
      else
        queue_.push_back(call);
      ++stats_.queued;
      return schedule_tick();
    }
    if (!claim.has_value() && !not_served) ++stats_.refused_full;
  }
  if (claim.has_value()) return call->send(*std::move(claim));
  if (not_served) return refuse_model(*call);
  refuse_full(*call);
}

void FleetBackend::Core::take_late(Calls& late) {
  const Duration now = clock_.now();
  std::erase_if(queue_, [&](const auto& call) AFI_REQUIRES(mutex_) {
    if (call->is_over()) return true;
    const bool is_late = now - call->waits_since() >= settings_.queue_timeout;
    if (is_late) late.push_back(call);
    return is_late;
  });
  stats_.refused_late += late.size();
}

/// In order; a model that has no room does not hold up others.
void FleetBackend::Core::pump() {
  if (stopped_) return;
  std::vector<std::pair<std::shared_ptr<FleetCall>, FleetClaim>> ready;
  Calls late;
  {
    const MutexLock lock(mutex_);
    if (queue_.empty()) return;
    take_late(late);
    std::set<std::string> full;
    for (auto it = queue_.begin(); it != queue_.end();) {
      const FleetAsk& ask = (*it)->ask();
      if (full.contains(ask.model)) {
        ++it;
        continue;
      }
      auto claim = fleet_.claim(ask);
      if (!claim.has_value()) {
        // One that avoids replicas says nothing of the others.
        if (ask.avoid.empty()) full.insert(ask.model);
        ++it;
        continue;
      }
      ready.emplace_back(std::move(*it), *std::move(claim));
      it = queue_.erase(it);
    }
    if (!queue_.empty()) schedule_tick();
  }
  for (auto& [call, claim] : ready) call->send(std::move(claim));
  refuse_late(late);
}

unsigned FleetBackend::Core::retry_after() const {
  return static_cast<unsigned>(std::clamp(std::ceil(fleet_.shortest_wait_s()), 1.0, 60.0));
}

void FleetBackend::Core::refuse_full(FleetCall& call) {
  call.refuse(
      {.status = 429,
       .message = "every replica is busy and upstream.queue requests are waiting; try again later",
       .type = "rate_limit_error",
       .code = "fleet_busy",
       .retry_after_s = retry_after()});
}

void FleetBackend::Core::refuse_late(const Calls& late) {
  for (const auto& call : late) {
    call->refuse({.status = 503,
                  .message = "no replica had room within upstream.queue_timeout; try again later",
                  .type = "server_error",
                  .code = "fleet_unavailable",
                  .retry_after_s = retry_after()});
  }
}

void FleetBackend::Core::refuse_model(FleetCall& call) {
  call.refuse(
      {.status = 404,
       .message = fmt::format("no replica serves the model '{}': see models= of upstream.replicas",
                              call.ask().model),
       .type = "invalid_request_error",
       .code = "model_not_found"});
}

Result<std::unique_ptr<FleetBackend>> FleetBackend::create(const UpstreamSettings& settings,
                                                           std::string key, HttpCaller& caller,
                                                           IoThreads& threads, const Clock& clock,
                                                           Log* log) {
  auto core = std::make_shared<Core>(settings, std::move(key), caller, threads, clock, log);
  AFI_TRY_VOID(core->apply(settings));
  core->start_probes();
  return std::unique_ptr<FleetBackend>(new FleetBackend(std::move(core)));
}

FleetBackend::~FleetBackend() { core_->stop(); }

Result<void> FleetBackend::apply(const UpstreamSettings& settings) {
  return core_->apply(settings);
}

Fleet& FleetBackend::fleet() { return core_->fleet(); }
FleetBackendStats FleetBackend::stats() const { return core_->stats(); }
std::map<std::string, KvSourceStats> FleetBackend::kv_events() const { return core_->kv_events(); }
void FleetBackend::pump() { core_->pump(); }
std::vector<FatalRequest> FleetBackend::fatal_requests() const { return core_->fatal_requests(); }

std::string FleetBackend::name() const { return core_->fleet_name(); }

ModelIdentity FleetBackend::identity(const std::string& model) const {
  return {.model = model,
          .weights_epoch = core_->epoch(),
          .encoder = "upstream",
          .adapter = core_->fleet_name(),
          .chat_template = ""};
}

bool FleetBackend::may_take_salts() const { return core_->fleet().may_take_salts(); }

std::shared_ptr<const Route> FleetBackend::route(const BackendRequest& request) const {
  return std::make_shared<const Route>(core_->fleet().expected_route(fleet_ask(request)));
}

BackendCall FleetBackend::ask(BackendRequest request, std::shared_ptr<BackendListener> listener) {
  if (FleetModels::answers(request)) return core_->models().ask(request, listener);
  const auto call = std::make_shared<FleetCall>(core_, std::move(request), std::move(listener));
  if (!call->is_refused()) core_->place(call);
  // The response holds what this returns, and the call holds the response.
  const std::weak_ptr<FleetCall> weak = call;
  return {.cancel =
              [weak] {
                if (const auto held = weak.lock()) held->cancel();
              },
          .handle = {},
          .hold =
              [weak](bool paused) {
                if (const auto held = weak.lock()) held->hold(paused);
              }};
}

}  // namespace afterimage
