// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/service/service.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/encoder_cache.h"
#include "afterimage/shared_store.h"
#include "foundation/platform/open_files.h"
#include "gateway/access/cors.h"
#include "gateway/service/service_state.h"
#include "policy/pressure/gauges.h"

namespace afterimage {
namespace {

HttpLimits admin_limits() { return {.body = 64_MiB, .connections = 256}; }

HttpReply explain_refusal(unsigned status, std::string_view why) {
  return error_reply(status, why, status < 500 ? "invalid_request_error" : "server_error",
                     "refused");
}

std::vector<MemoryShare> shares_of(const Settings& settings) {
  std::vector<MemoryShare> shares;
  for (const auto& [tenant, fraction] : memory_shares(settings)) {
    shares.push_back({.tenant = tenant, .fraction = std::min(fraction, 1.0)});
  }
  return shares;
}

/// nullptr: memory is not watched.
Result<NamedGauges> gauges_of(const MemorySettings& memory, const Files& files) {
  if (memory.idle_limit.has_value() && memory.governor.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "memory.idle_limit: the governor applies it: set memory.governor, too");
  }
  if (memory.modes != MemorySettings().modes && memory.governor.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "memory.modes: they are the governor's: set memory.governor, too");
  }
  auto gauges = open_gauges(memory.governor, files);
  if (!gauges.has_value()) {
    return fail(gauges.error().code, "memory.governor: " + gauges.error().message);
  }
  if (gauges->device == nullptr || memory.gpu_size > 0_B) return gauges;
  return fail(ErrorCode::kInvalidArgument,
              "memory.governor names a GPU, and nothing is cached there: set memory.gpu_size");
}

}  // namespace

/// The usual soft limit of 1024 is below limits.connections.
void Service::State::raise_open_files() {
  const std::uint64_t before = open_file_limit();
  raise_open_file_limit();
  const std::uint64_t now = open_file_limit();
  if (now != before) log.info("open_files_raised", {{"limit", now}, {"was", before}});
  const std::uint64_t wanted = options.settings.limits.http.connections;
  if (now >= wanted) return;
  log.warn("open_files_too_few",
           {{"limit", now},
            {"connections", wanted},
            {"advice", "raise the hard limit of open files, or lower limits.connections"}});
}

Result<void> Service::State::open_reuse() {
  const Settings& settings = options.settings;
  ReuseOptions kept{
      .budget = settings.memory.budget,
      .shares = shares_of(settings),
      .max_encoder_entries = EntryCount(settings.memory.max_encoder_entries),
      .min_encoder_entries = settings.memory.min_encoder_entries.is_auto
                                 ? kMinEntriesFromLoad
                                 : EntryCount(settings.memory.min_encoder_entries.count),
      .policy = settings.memory.policy,
      .prefixes = settings.prefix.enabled,
      .max_kv_tokens =
          settings.memory.max_kv_tokens == 0 ? UINT64_MAX : settings.memory.max_kv_tokens,
      .tier = stores->tier(),
      .weigh_writes = !settings.memory.disk_all,
      .leases = stores->leases()};
  // Also while answers.enabled is false: a reload may turn it on.
  kept.answers = AnswerReuse{.rules = {}, .ttl = settings.answers.ttl};
  if (settings.memory.max_sequences > 0) {
    kept.max_sequences = EntryCount(settings.memory.max_sequences);
  }
  kept.on_encoder_evicted = [this](const EncoderEntryInfo& item) {
    if (!log.wants(LogLevel::kDebug)) return;
    const auto& content = item.facts.content;
    log.debug("media_evicted", {{"digest", content.has_value() ? content->hex() : ""},
                                {"modality", to_string(item.facts.modality)},
                                {"bytes", item.bytes.value()},
                                {"uses", item.access_count}});
  };
  kept.pressure.gauge = gauges.host;
  AFI_TRY(kept.pressure.governor.modes, parse_modes(settings.memory.modes));
  if (settings.memory.idle_limit.has_value()) {
    kept.pressure.governor.idle = IdleLimits::of(*settings.memory.idle_limit);
  }
  open_moved_media(kept);
  AFI_TRY(reuse, Reuse::create(kept, stores->secret(), clock));
  return {};
}

Result<void> Service::State::open_similar() {
  const SimilaritySettings& settings = options.settings.similarity;
  AFI_TRY(const std::string similarity_key, key_in("similarity.key_env", settings.key_env));
  AFI_TRY(const std::string verifier_key,
          key_in("similarity.verifier_key_env", settings.verifier_key_env));
  auto by_meaning = make_similar_answers(
      settings,
      {std::move(options.embedder), std::move(options.verifier), std::move(options.projection)},
      {.embedder = similarity_key, .verifier = verifier_key}, similar_storage(), *reuse, clock);
  if (by_meaning.has_value()) {
    similar = *std::move(by_meaning);
  } else if (by_meaning.error().code == ErrorCode::kInvalidArgument) {
    return std::unexpected(by_meaning.error());
  } else {  // costs hits and nothing else
    log.warn("similarity_not_used", {{"why", by_meaning.error().message}});
  }
  return {};
}

Result<void> Service::State::start() {
  const Settings& settings = options.settings;
  raise_open_files();
  AFI_TRY_VOID(open_keys());
  AFI_TRY_VOID(open_traces());
  AFI_TRY_VOID(load_certificates());
  AFI_TRY(gauges, gauges_of(settings.memory, files));
  AFI_TRY_VOID(open_stores());
  AFI_TRY_VOID(open_reuse());
  if (stores->shared_store() == nullptr) {
    open_archive();
  } else if (reuse->answer_cache() != nullptr) {
    AFI_TRY_VOID(share_answers());
  }
  const Duration busy_poll =
      options.engine == nullptr ? settings.limits.busy_poll : Duration(0);  // it needs the cores
  threads = std::make_unique<IoThreads>(threads_of(settings.limits), busy_poll);
  caller = std::make_unique<HttpCaller>(
      HttpCaller::Options{.max_idle = settings.upstream.max_connections}, *threads);
  AFI_TRY_VOID(open_backend());
  AFI_TRY_VOID(open_similar());
  AFI_TRY(gateway, Gateway::create(settings, {.backend = *backend,
                                              .reuse = *reuse,
                                              .archive = archive.get(),
                                              .similar = similar.get(),
                                              .caller = *caller,
                                              .threads = *threads,
                                              .metrics = metrics,
                                              .log = log,
                                              .ids = ids,
                                              .clock = clock,
                                              .root = stores->secret(),
                                              .keys = key_store.get(),
                                              .traces = traces.get()}));
  if (invalidation_log != nullptr) {
    poller = std::make_unique<PeriodicTask>(
        // A failed poll is counted, and reduces hits only.
        [this] { static_cast<void>(archive->refresh()); }, InvalidationLog::kPollEvery);
  }
  return listen();
}

Result<void> Service::State::listen() {
  const Settings& settings = options.settings;
  const auto connections = [this] {
    return server == nullptr ? HttpServerStats() : server->stats();
  };
  std::vector<NamedTier> below;
  const DiskTier* const disk = stores->disk_tier();
  SharedStore* const remote = stores->shared_store();
  const Tier* const gpu = device == nullptr ? nullptr : &device->tier();
  if (gpu != nullptr) below.push_back({.name = "gpu", .tier = gpu});
  if (disk != nullptr) below.push_back({.name = "disk", .tier = disk});
  if (remote != nullptr) below.push_back({.name = "remote", .tier = &remote->tier()});
  if (!below.empty()) {
    tier_watch = std::make_unique<TierWatch>(log, clock);
    tier_watcher = std::make_unique<PeriodicTask>(
        [this, below] {
          for (const NamedTier& named : below) {
            tier_watch->look(named.name, named.tier->stats().degraded_reason);
          }
        },
        std::chrono::seconds(1));
  }
  admin =
      std::make_unique<Admin>(Admin::Dependencies{.gateway = *gateway,
                                                  .connections = connections,
                                                  .reload = reload,
                                                  .drain = options.wants_to_end,
                                                  .version = options.version,
                                                  .tiers = std::move(below),
                                                  .fleet = fleet,
                                                  .demo = options.demo,
                                                  .max_kv_tokens = settings.memory.max_kv_tokens});
  publish_stats(metrics, *gateway, connections, options.version);
  if (fleet != nullptr) publish_fleet(metrics, *fleet);
  publish_keys(metrics, *key_store);
  if (traces != nullptr) publish_traces(metrics, *traces);
  publish_tiers(metrics, gpu, disk, remote, archive.get());
  const auto no_descriptors = [this] {
    log.error("no_file_descriptors",
              {{"limit", open_file_limit()},
               {"advice",
                "new clients get a 503: raise the hard limit of open files (ulimit -Hn, "
                "LimitNOFILE=), or lower limits.connections"}});
  };
  const auto public_handler = [this](HttpRequest request, Responder responder) {
    gateway->handle(std::move(request), std::move(responder));
  };
  const auto cors = [this](const HttpHeaders& asked) {
    return cors_headers(gateway->config()->settings.listen.cors_origins, asked);
  };
  AFI_TRY(server, HttpServer::listen({.address = settings.listen.address,
                                      .port = settings.listen.port,
                                      .limits = settings.limits.http,
                                      .error_reply = explain_refusal,
                                      .added_headers = cors,
                                      .tls = tls,
                                      .on_no_descriptors = no_descriptors},
                                     public_handler, *threads));
  const auto admin_handler = [this](const HttpRequest& request, const Responder& responder) {
    admin->handle(request, responder);
  };
  AFI_TRY(admin_server, HttpServer::listen({.address = settings.admin.address,
                                            .port = settings.admin.port,
                                            .limits = admin_limits(),
                                            .error_reply = explain_refusal,
                                            .tls = admin_tls,
                                            .on_no_descriptors = no_descriptors},
                                           admin_handler, *threads));
  return {};
}

Service::Service(std::unique_ptr<State> state) : state_(std::move(state)) {}
Service::~Service() = default;

Result<std::unique_ptr<Service>> Service::start(ServiceOptions options, const Clock& clock,
                                                const WallClock& wall_clock) {
  auto state = std::make_unique<State>(std::move(options), clock, wall_clock);
  State& s = *state;
  std::unique_ptr<Service> service(new Service(std::move(state)));
  s.reload = [&service = *service] { return service.reload(); };
  const MutexLock lock(s.reloading);
  AFI_TRY_VOID(s.start());
  s.runs = true;
  return service;
}

std::uint16_t Service::port() const { return state_->server->port(); }
std::uint16_t Service::admin_port() const { return state_->admin_server->port(); }
Gateway& Service::gateway() { return *state_->gateway; }

Result<Reloaded> Service::reload() {
  State& s = *state_;
  const MutexLock lock(s.reloading);
  if (!s.runs) return fail(ErrorCode::kUnavailable, "the server is ending; nothing was reloaded");
  return s.reload_now();
}

Result<Reloaded> Service::State::reload_now() {
  AFI_TRY(const Settings next, options.read_settings());
  AFI_TRY_VOID(load_certificates());
  const Settings now = gateway->config()->settings;
  // Settings that still need a restart are named again.
  Reloaded done{.applied = {}, .needs_restart = needs_restart(options.settings, next)};
  const std::vector<std::string> not_now = needs_restart(now, next);
  if ((fleet != nullptr) == next.upstream.replicas.empty()) {
    done.needs_restart.emplace_back("upstream.replicas");
  } else if (fleet != nullptr) {
    AFI_TRY_VOID(fleet->apply(next.upstream));
  }
  AFI_TRY_VOID(key_store->reload());
  AFI_TRY_VOID(gateway->apply(next));
  server->set_limits(next.limits.http);
  log.set_level(parse_log_level(next.log.level).value_or(LogLevel::kInfo));
  for (const std::string& key : changed_settings(now, next)) {
    const bool waits = std::ranges::find(not_now, key) != not_now.end() ||
                       std::ranges::find(done.needs_restart, key) != done.needs_restart.end();
    if (!waits) done.applied.push_back(key);
  }
  log.info("settings_reloaded",
           {{"applied", done.applied.size()}, {"needs_restart", done.needs_restart.size()}});
  return done;
}

bool Service::drain() {
  State& s = *state_;
  s.gateway->start_draining();
  const bool all = s.server->drain(s.gateway->config()->settings.limits.drain);
  // So that the client that asked for the drain gets the response.
  if (s.admin_server != nullptr) {
    static_cast<void>(s.admin_server->drain(std::chrono::seconds(1)));
  }
  s.log.info("drained", {{"all_answered", all}});
  return all;
}

}  // namespace afterimage
