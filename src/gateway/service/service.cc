// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/service/service.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "afterimage/encode_once.h"
#include "afterimage/prefill_once.h"
#include "afterimage/secret.h"
#include "afterimage/shared_store.h"
#include "caches/identity/fields.h"
#include "caches/invalidation/invalidation_poller.h"
#include "foundation/platform/environment.h"
#include "foundation/platform/files.h"
#include "gateway/engine_backend/engine_backend.h"
#include "gateway/fleet/fleet_backend.h"
#include "gateway/kv_publisher/kv_publisher.h"
#include "gateway/proxy/erasure.h"
#include "gateway/proxy/upstream.h"
#include "gateway/service/make_similar_answers.h"
#include "gateway/service/otlp_target.h"
#include "policy/pressure/device_cache.h"
#include "policy/pressure/linux_gauges.h"
#include "runtime/certificate/moved_certificate.h"
#include "storage/encryption/encrypted_cell.h"
#include "storage/memory/file_cell.h"
#include "storage/remote/redis_leases.h"
#include "storage/remote/remote_cell.h"
#include "storage/stores/stores.h"

namespace afterimage {
namespace {

constexpr unsigned kMostThreads = 8;
/// For answers on their way from a disk into memory.
constexpr Bytes kTransfer = 64_MiB;
/// How long a gateway holds the lease of a question. Shorter than answers.coalesce_timeout, so that
/// those who wait for a gateway that died take over.
constexpr Duration kAnswerLease = std::chrono::seconds(5);

HttpLimits limits_of(const LimitSettings& settings) {
  return {.body = settings.body,
          .bodies = settings.bodies,
          .headers = settings.headers,
          .connections = settings.connections,
          .header_timeout = settings.header_timeout,
          .body_timeout = settings.body_timeout,
          .idle_timeout = settings.idle_timeout,
          .write_timeout = settings.write_timeout};
}

HttpLimits admin_limits() { return {.body = 64_MiB, .connections = 256}; }

HttpReply explain_refusal(unsigned status, std::string_view why) {
  return error_reply(status, why, status < 500 ? "invalid_request_error" : "server_error",
                     "refused");
}

unsigned threads_of(const LimitSettings& settings) {
  if (settings.threads > 0) return settings.threads;
  return std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads);
}

constexpr Bytes kMaxCertificate = 64_KiB;

/// The key in the environment variable that a setting names; empty: it names none.
Result<std::string> key_in(const std::string& setting, const std::string& variable) {
  if (variable.empty()) return std::string();
  auto key = environment(variable);
  if (!key.has_value() || key->empty()) {
    return fail(ErrorCode::kInvalidArgument,
                setting + ": the environment variable '" + variable + "' is not set");
  }
  return *std::move(key);
}

std::vector<MemoryShare> shares_of(const Settings& settings) {
  std::vector<MemoryShare> shares;
  for (const auto& [tenant, fraction] : memory_shares(settings)) {
    shares.push_back({.tenant = tenant, .fraction = std::min(fraction, 1.0)});
  }
  return shares;
}

/// nullptr: plain HTTP. `listener`: "listen" or "admin".
Result<std::shared_ptr<const TlsIdentity>> tls_identity(const std::string& listener,
                                                        const std::string& certificate,
                                                        const std::string& key) {
  if (certificate.empty() && key.empty()) return std::shared_ptr<const TlsIdentity>();
  if (certificate.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                listener + ".tls_key: without " + listener + ".tls_certificate it has no use");
  }
  auto identity = TlsIdentity::load(certificate, key);
  if (!identity.has_value()) {
    return fail(identity.error().code, listener + ".tls_certificate: " + identity.error().message);
  }
  return identity;
}

/// nullptr: memory is not watched.
Result<NamedGauges> gauges_of(const MemorySettings& memory, const Files& files) {
  if (memory.idle_limit.has_value() && memory.governor.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "memory.idle_limit: the governor applies it: set memory.governor, too");
  }
  auto gauges = open_gauges(memory.governor, files);
  if (!gauges.has_value()) {
    return fail(gauges.error().code, "memory.governor: " + gauges.error().message);
  }
  if (gauges->device == nullptr || memory.gpu_size > 0_B) return gauges;
  return fail(ErrorCode::kInvalidArgument,
              "memory.governor names a GPU, and nothing is cached there: set memory.gpu_size");
}

/// kInvalidArgument and others: what the operator has to change.
Result<MovedMediaOptions> moved_media_options(const MovedMediaSettings& settings,
                                              const Engine& engine, const Files& files) {
  const KvLayout* const layout = engine.kv_layout();
  if (layout == nullptr || engine.key_rotation() == nullptr) {
    return fail(ErrorCode::kUnsupported,
                "moved_media.mode: KV of this model cannot be used at other positions");
  }
  const auto named = [](const Error& error) {
    return fail(error.code, "moved_media.certificate: " + error.message);
  };
  const auto bytes = files.read(settings.certificate, kMaxCertificate);
  if (!bytes.has_value()) return named(bytes.error());
  const auto read =
      parse_certificate({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (!read.has_value()) return named(read.error());
  const KvOrigin origin = kv_origin(engine.identity(), *layout);
  const auto holds = check_certificate(*read, origin, settings.max_loss);
  if (!holds.has_value()) return named(holds.error());
  return MovedMediaOptions{.certified = origin,
                           .recomputed = read->recomputed,
                           .max_loss = settings.max_loss,
                           .sample_every = settings.sample_every,
                           .capacity = settings.capacity};
}

}  // namespace

/// Each member uses those before it; they are destroyed from the last to the first.
struct Service::State {
  explicit State(ServiceOptions given, const Clock& on, const WallClock& wall_clock)
      : options(std::move(given)),
        clock(on),
        log({.level = parse_log_level(options.settings.log.level).value_or(LogLevel::kInfo)},
            wall_clock, options.log),
        ids(wall_clock),
        wall(wall_clock) {}
  ~State() {
    // Connections and calls first: they use everything else.
    admin_server.reset();
    server.reset();
    if (threads != nullptr) threads->stop();
    poller.reset();  // it gives work to the gateway
    // Then the workers: a response may be out before its request is done.
    if (gateway != nullptr) gateway->stop();
    backend.reset();
    // No backend answers any more, and requests and responses hold each other.
    if (gateway != nullptr) gateway->responses().forget_all();
    usage_saver.reset();
    if (key_store != nullptr) save_usage();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void open_device();
  Result<void> open_stores();
  Result<EngineBackend::OnComputed> publish_kv_events();
  Result<std::unique_ptr<SharedCell>> remote_cell(std::string_view domain,
                                                  std::unique_ptr<SharedCell>& stored) const;
  Result<void> share_answers();
  void erase_what_others_erased(const Invalidation& invalidation);
  Result<void> erase_own_copies();
  [[nodiscard]] Result<std::optional<SimilarStorage>> similar_storage();
  void open_archive();
  void open_moved_media(ReuseOptions& kept);
  Result<void> open_backend();
  Result<void> open_keys();
  Result<void> open_traces();
  /// Reads the files of both certificates; applies them if all can be used.
  Result<void> load_certificates();
  Result<HttpCaller*> upstream_caller();
  void save_usage();
  Result<void> start();
  Result<void> listen();

  ServiceOptions options;
  std::function<Result<Reloaded>()> reload;
  const Clock& clock;
  Log log;
  IdGenerator ids;
  SystemFiles files;
  const WallClock& wall;
  Metrics metrics;
  std::unique_ptr<KeyStore> key_store;
  std::unique_ptr<SpanExporter> traces;
  NamedGauges gauges;
  std::unique_ptr<DeviceCache> device;
  std::unique_ptr<Stores> stores;
  std::unique_ptr<Reuse> reuse;
  MemoryBudget transfer{kTransfer};
  std::unique_ptr<SharedCell> remote_invalidations;
  std::unique_ptr<SharedCell> invalidations;  // the same, decrypted
  std::unique_ptr<InvalidationLog> invalidation_log;
  std::unique_ptr<SharedCell> stored_evidence;  // of similarity
  std::unique_ptr<SharedCell> evidence;         // the same, decrypted
  std::unique_ptr<RedisLeases> answer_leases;   // apart from the encoder's: they last less long
  std::unique_ptr<AnswerArchive> archive;
  std::unique_ptr<InvalidationPoller> poller;
  std::unique_ptr<InvalidationPoller> usage_saver;
  std::unique_ptr<IoThreads> threads;
  std::unique_ptr<HttpCaller> caller;
  std::unique_ptr<HttpCaller> trusting_caller;  // upstream.ca_file; nullptr: `caller`
  std::unique_ptr<KvPublisher> kv_publisher;  // nullptr: nothing is published
  std::unique_ptr<Backend> backend;
  FleetBackend* fleet = nullptr;  // the backend, if it has replicas
  std::unique_ptr<SimilarAnswers> similar;
  std::unique_ptr<Gateway> gateway;
  std::unique_ptr<Admin> admin;
  std::shared_ptr<const TlsIdentity> tls;
  std::shared_ptr<const TlsIdentity> admin_tls;
  std::unique_ptr<HttpServer> server;
  std::unique_ptr<HttpServer> admin_server;
};

/// nullptr afterwards: there is no GPU that can be used, which costs hits and nothing else.
void Service::State::open_device() {
  const MemorySettings& memory = options.settings.memory;
  auto opened = DeviceCache::open(
      {.capacity = memory.gpu_size, .device = {.device = memory.gpu}, .gauge = gauges.device},
      clock);
  if (opened.has_value()) {
    device = *std::move(opened);
  } else {
    log.error("gpu_not_used",
              {{"gpu", std::uint64_t{memory.gpu}}, {"why", opened.error().message}});
  }
}

/// A store that cannot be used costs hits and nothing else.
Result<void> Service::State::open_stores() {
  const MemorySettings& memory = options.settings.memory;
  const RemoteSettings& settings = options.settings.remote;
  if (!memory.encrypt_key_file.empty() && !memory.encrypt_key_env.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "memory.encrypt_key_file and memory.encrypt_key_env: only one of them");
  }
  if (memory.gpu_size > 0_B) open_device();
  StoresOptions wanted{.nearest = device == nullptr ? nullptr : &device->tier(),
                       .disk = memory.disk,
                       .disk_capacity = memory.disk_size,
                       .secret_file = options.settings.secret_file,
                       .encrypt_key_file = memory.encrypt_key_file,
                       .encrypt_key_env = memory.encrypt_key_env};
  if (!settings.url.empty()) {
    AFI_TRY_VOID(check_shared_secret(settings.url, options.settings.secret_file));
    const auto password = environment(settings.password_env);
    if (!password.has_value() && settings.password_env != RemoteSettings().password_env) {
      return fail(ErrorCode::kInvalidArgument, "remote.password_env: the environment variable '" +
                                                   settings.password_env + "' is not set");
    }
    wanted.remote = SharedStoreOptions{.url = settings.url,
                                       .password = password.value_or(""),
                                       .ttl = settings.ttl,
                                       .in_flight = settings.in_flight};
  }
  wanted.on_degraded = [this](std::string_view store, const Error& error) {
    if (store == "disk") {
      log.error("disk_not_used",
                {{"folder", options.settings.memory.disk}, {"why", error.message}});
    } else {
      log.warn("remote_not_there", {{"why", error.message}});
    }
  };
  AFI_TRY(stores, Stores::open(wanted, clock));
  return {};
}

/// A value on the servers; `stored` is it as it lies there, and outlives it.
Result<std::unique_ptr<SharedCell>> Service::State::remote_cell(
    std::string_view domain, std::unique_ptr<SharedCell>& stored) const {
  AFI_TRY(auto keys, stores->keys());
  FieldWriter fields(domain);
  fields.number("sealed", keys.has_value() ? 1 : 0);
  const TierKey place{.entry_class = EntryClass::kAnswer,
                      .bytes = hmac_sha256(stores->secret(), fields.message())};
  // It outlives every answer that it is about.
  const Duration ttl = std::max<Duration>(2 * options.settings.remote.ttl, std::chrono::hours(1));
  auto cell = std::make_unique<RemoteCell>(stores->shared_store()->remote_tier(), place.bytes, ttl);
  if (!keys.has_value()) return cell;
  stored = std::move(cell);
  return std::make_unique<EncryptedCell>(*stored, place, *std::move(keys));
}

/// The invalidation log is on the servers, also where answers are kept on disk, too.
Result<void> Service::State::share_answers() {
  SharedStore* const remote = stores->shared_store();
  AFI_TRY(invalidations, remote_cell("afterimage/shared-erasures/1", remote_invalidations));
  invalidation_log = std::make_unique<InvalidationLog>(*invalidations, stores->secret());
  answer_leases = std::make_unique<RedisLeases>(remote->remote_tier(),
                                                RedisLeasesOptions{.lease = kAnswerLease});
  const std::string file =
      stores->disk() == nullptr ? "" : options.settings.memory.disk + "/answers-erased";
  AFI_TRY(archive,
          AnswerArchive::open({.tier = *stores->replaceable_tier(),
                               .transfer = transfer,
                               .cache = *reuse->answer_cache(),
                               .files = stores->files(),
                               .erasures = file,
                               .clock = clock,
                               .wall = ids.clock(),
                               .shared = invalidation_log.get(),
                               .wait = {},
                               .turns = answer_leases.get(),
                               .labels = EntryLabels(stores->secret()),
                               .on_invalidation = [this](const Invalidation& invalidation) {
                                 erase_what_others_erased(invalidation);
                               }}));
  const auto read = archive->refresh();
  if (!read.has_value()) log.warn("answers_not_shared_yet", {{"why", read.error().message}});
  return {};
}

/// Answers are erased already; encoder outputs and KV are here and on this gateway's disk, too.
void Service::State::erase_what_others_erased(const Invalidation& invalidation) {
  const bool unknown = invalidation == Invalidation();
  const auto target = announced(invalidation.tag);
  if (!unknown && !target.has_value()) return;
  const bool posted = gateway->erasers().post([this, unknown, target] {
    const Result<void> erased = unknown ? erase_own_copies() : [&]() -> Result<void> {
      AFI_TRY_VOID(erase_here(*gateway, *target));
      return {};
    }();
    if (!erased.has_value()) return log.error("not_erased", {{"why", erased.error().message}});
    log.info("erased", {{"what", unknown ? "everything" : announcement(*target)},
                        {"because", "another gateway erased it"}});
  });
  if (!posted) log.error("not_erased", {{"why", "too many erasures are waiting; erase it again"}});
}

/// Others may have erased anything: nothing that only this gateway holds is kept. What the servers
/// hold, they have erased there.
Result<void> Service::State::erase_own_copies() {
  reuse->encoder().clear();
  if (reuse->prefix() != nullptr) reuse->prefix()->clear();
  reuse->clear_moved();
  if (device != nullptr) AFI_TRY_VOID(device->tier().erase_matching({}));
  if (stores->disk() != nullptr) AFI_TRY_VOID(stores->disk()->erase_matching({}));
  return {};
}

/// nullopt: no answer outlives the process.
Result<std::optional<SimilarStorage>> Service::State::similar_storage() {
  if (archive == nullptr) return std::nullopt;
  if (stores->shared_store() != nullptr) {
    AFI_TRY(evidence, remote_cell("afterimage/similarity-evidence/1", stored_evidence));
  } else {
    evidence = std::make_unique<FileCell>(stores->files(),
                                          options.settings.memory.disk + "/similarity-evidence");
  }
  // Pages that other gateways write, too, are not copied to the disk: the copy would hide them.
  Tier* const pages = stores->remote() != nullptr ? stores->remote() : stores->disk();
  return SimilarStorage{.answers = *archive,
                        .tier = *pages,
                        .evidence = *evidence,
                        .transfer = transfer,
                        .secret = stores->secret()};
}

/// Without it answers are lost with the process, and requests are served all the same.
void Service::State::open_archive() {
  if (stores->disk() == nullptr || reuse->answer_cache() == nullptr) return;
  auto opened = AnswerArchive::open({.tier = *stores->disk(),
                                     .transfer = transfer,
                                     .cache = *reuse->answer_cache(),
                                     .files = stores->files(),
                                     .erasures = options.settings.memory.disk + "/answers-erased",
                                     .clock = clock,
                                     .wall = ids.clock(),
                                     .labels = EntryLabels(stores->secret())});
  if (opened.has_value()) {
    archive = *std::move(opened);
  } else {
    log.error("answers_not_archived", {{"why", opened.error().message}});
  }
}

/// Empty: nothing is published.
Result<EngineBackend::OnComputed> Service::State::publish_kv_events() {
  const std::string& address = options.settings.engine.kv_events;
  if (address.empty() || reuse->prefix() == nullptr) return EngineBackend::OnComputed();
  auto started = KvPublisher::start(address, *reuse->prefix(), ids.clock());
  if (!started.has_value()) {
    return fail(started.error().code, "engine.kv_events: " + started.error().message);
  }
  kv_publisher = *std::move(started);
  log.info("kv_events", {{"port", std::uint64_t{kv_publisher->port()}}});
  return [this](const ApiRequest& asked, std::shared_ptr<const PrefetchTarget> target) {
    kv_publisher->served(content_chain(asked), std::move(target));
  };
}

Result<void> Service::State::open_backend() {
  const Settings& settings = options.settings;
  if (!settings.upstream.is_set()) {
    AFI_TRY(auto on_computed, publish_kv_events());
    backend = std::make_unique<EngineBackend>(settings.engine, *options.engine, *reuse, ids, clock,
                                              threads_of(settings.limits), std::move(on_computed));
    return {};
  }
  if (!settings.engine.kv_events.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "engine.kv_events: only the built-in engine publishes events: leave it empty where "
                "upstream is set");
  }
  AFI_TRY(const std::string key, key_in("upstream.key_env", settings.upstream.key_env));
  AFI_TRY(HttpCaller* const calls, upstream_caller());
  if (settings.upstream.replicas.empty()) {
    AFI_TRY(backend, Upstream::create(settings.upstream, key, *calls));
    return {};
  }
  AFI_TRY(auto several, FleetBackend::create(settings.upstream, key, *calls, *threads, clock));
  fleet = several.get();
  backend = std::move(several);
  return {};
}

/// Without a certificate that holds, every answer is exact: the log says why.
void Service::State::open_moved_media(ReuseOptions& kept) {
  const MovedMediaSettings& settings = options.settings.moved_media;
  if (settings.mode == "off" || options.engine == nullptr) return;
  auto opened = moved_media_options(settings, *options.engine, files);
  if (!opened.has_value()) {
    log.error("moved_media_not_used", {{"why", opened.error().message}});
    return;
  }
  opened->on_disabled = [this](const std::string& why) {
    log.error("moved_media_off", {{"why", why}});
  };
  kept.moved = *std::move(opened);
}

/// Media are fetched from other servers, whose authorities are the system's.
Result<HttpCaller*> Service::State::upstream_caller() {
  const UpstreamSettings& upstream = options.settings.upstream;
  if (upstream.ca_file.empty()) return caller.get();
  auto trust = TlsTrust::load(upstream.ca_file);
  if (!trust.has_value()) {
    return fail(trust.error().code, "upstream.ca_file: " + trust.error().message);
  }
  trusting_caller = std::make_unique<HttpCaller>(
      HttpCaller::Options{.max_idle = upstream.max_connections, .trust = *std::move(trust)},
      *threads);
  return trusting_caller.get();
}

Result<void> Service::State::load_certificates() {
  // The files that the server was started with: other names take a restart.
  const ListenSettings& clients = options.settings.listen;
  const AdminSettings& admins = options.settings.admin;
  AFI_TRY(auto of_clients, tls_identity("listen", clients.tls_certificate, clients.tls_key));
  AFI_TRY(auto of_admins, tls_identity("admin", admins.tls_certificate, admins.tls_key));
  tls = std::move(of_clients);
  admin_tls = std::move(of_admins);
  const auto show = [&](const char* listener, const std::shared_ptr<const TlsIdentity>& identity) {
    if (identity == nullptr) return;
    const Duration expires = identity->expires().time_since_epoch();
    metrics
        .gauge("afterimage_tls_certificate_expires_timestamp_seconds",
               "When a listener's certificate expires, seconds since 1970",
               {{"listener", listener}})
        .set(std::chrono::duration<double>(expires).count());
    if (identity->expires() <= wall.now()) {
      log.warn("certificate_expired", {{"listener", listener}});
    }
  };
  show("listen", tls);
  show("admin", admin_tls);
  if (server != nullptr) server->set_tls(tls);
  if (admin_server != nullptr) admin_server->set_tls(admin_tls);
  return {};
}

Result<void> Service::State::open_keys() {
  const TenancySettings& tenancy = options.settings.tenancy;
  auto opened = KeyStore::open({.file = tenancy.keys_file, .files = &files}, wall);
  if (!opened.has_value()) {
    return fail(opened.error().code, "tenancy.keys_file: " + opened.error().message);
  }
  key_store = *std::move(opened);
  if (key_store->is_enabled()) {
    usage_saver =
        std::make_unique<InvalidationPoller>([this] { save_usage(); }, tenancy.save_usage);
  }
  return {};
}

Result<void> Service::State::open_traces() {
  const TelemetrySettings& telemetry = options.settings.telemetry;
  if (telemetry.otlp_endpoint.empty()) return {};
  AFI_TRY(const std::string given, key_in("telemetry.headers_env", telemetry.headers_env));
  AFI_TRY(OtlpTarget target, otlp_target(telemetry.otlp_endpoint, given));
  AFI_TRY(const Secret chance, random_secret());
  SpanExporterOptions wanted{
      .service = telemetry.service_name, .version = options.version, .queue = telemetry.queue};
  std::memcpy(&wanted.seed, chance.data(), sizeof wanted.seed);
  traces = std::make_unique<SpanExporter>(
      std::move(wanted),
      [target = std::move(target)](std::string body) { return post_otlp(target, std::move(body)); },
      [this](std::string_view why) { log.warn("traces_not_sent", {{"why", std::string(why)}}); });
  return {};
}

/// Usage that cannot be saved is kept in memory, and saved as soon as that is possible.
void Service::State::save_usage() {
  const auto saved = key_store->save_usage();
  if (!saved.has_value()) log.error("usage_not_saved", {{"why", saved.error().message}});
}

Result<void> Service::State::start() {
  const Settings& settings = options.settings;
  AFI_TRY_VOID(open_keys());
  AFI_TRY_VOID(open_traces());
  AFI_TRY_VOID(load_certificates());
  AFI_TRY(gauges, gauges_of(settings.memory, files));
  AFI_TRY_VOID(open_stores());
  ReuseOptions kept{.budget = settings.memory.budget,
                    .shares = shares_of(settings),
                    .min_encoder_entries = EntryCount(settings.memory.min_encoder_entries),
                    .policy = settings.memory.policy,
                    .max_kv_tokens = settings.memory.max_kv_tokens == 0
                                         ? UINT64_MAX
                                         : settings.memory.max_kv_tokens,
                    .tier = stores->tier(),
                    .leases = stores->leases()};
  // Also while answers.enabled is false: a reload may turn it on.
  kept.answers = AnswerReuse{.rules = {}, .ttl = settings.answers.ttl, .in_serve = false};
  kept.pressure.gauge = gauges.host;
  if (settings.memory.idle_limit.has_value()) {
    kept.pressure.governor.idle = IdleLimits::of(*settings.memory.idle_limit);
  }
  open_moved_media(kept);
  AFI_TRY(reuse, Reuse::create(kept, stores->secret(), clock));
  if (stores->shared_store() == nullptr) {
    open_archive();
  } else if (reuse->answer_cache() != nullptr) {
    AFI_TRY_VOID(share_answers());
  }
  threads = std::make_unique<IoThreads>(threads_of(settings.limits));
  caller = std::make_unique<HttpCaller>(
      HttpCaller::Options{.max_idle = settings.upstream.max_connections}, *threads);
  AFI_TRY_VOID(open_backend());
  AFI_TRY(const std::string similarity_key,
          key_in("similarity.key_env", settings.similarity.key_env));
  AFI_TRY(const auto storage, similar_storage());
  auto by_meaning = make_similar_answers(settings.similarity, std::move(options.embedder),
                                         similarity_key, storage, *reuse, clock);
  if (by_meaning.has_value()) {
    similar = *std::move(by_meaning);
  } else if (by_meaning.error().code == ErrorCode::kInvalidArgument) {
    return std::unexpected(by_meaning.error());
  } else {  // costs hits and nothing else
    log.warn("similarity_not_used", {{"why", by_meaning.error().message}});
  }
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
    poller = std::make_unique<InvalidationPoller>(
        // A failed poll is counted, and reduces hits only.
        [this] { static_cast<void>(archive->refresh()); });
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
  admin = std::make_unique<Admin>(Admin::Parts{.gateway = *gateway,
                                               .connections = connections,
                                               .reload = reload,
                                               .drain = options.wants_to_end,
                                               .version = options.version,
                                               .tiers = std::move(below),
                                               .fleet = fleet,
                                               .demo = options.demo});
  publish_stats(metrics, *gateway, connections, options.version);
  if (fleet != nullptr) publish_fleet(metrics, *fleet);
  publish_keys(metrics, *key_store);
  if (traces != nullptr) publish_traces(metrics, *traces);
  publish_tiers(metrics, gpu, disk, remote, archive.get());
  const auto public_handler = [this](HttpRequest request, Responder responder) {
    gateway->handle(std::move(request), std::move(responder));
  };
  AFI_TRY(server, HttpServer::listen({.address = settings.listen.address,
                                      .port = settings.listen.port,
                                      .limits = limits_of(settings.limits),
                                      .explain = explain_refusal,
                                      .tls = tls},
                                     public_handler, *threads));
  const auto admin_handler = [this](const HttpRequest& request, const Responder& responder) {
    admin->handle(request, responder);
  };
  AFI_TRY(admin_server, HttpServer::listen({.address = settings.admin.address,
                                            .port = settings.admin.port,
                                            .limits = admin_limits(),
                                            .explain = explain_refusal,
                                            .tls = admin_tls},
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
  AFI_TRY_VOID(s.start());
  return service;
}

std::uint16_t Service::port() const { return state_->server->port(); }
std::uint16_t Service::admin_port() const { return state_->admin_server->port(); }
Gateway& Service::gateway() { return *state_->gateway; }

Result<Reloaded> Service::reload() {
  State& s = *state_;
  AFI_TRY(const Settings next, s.options.read_settings());
  AFI_TRY_VOID(s.load_certificates());
  const Settings now = s.gateway->config()->settings;
  // Settings that still need a restart are named again.
  Reloaded done{.applied = {}, .needs_restart = needs_restart(s.options.settings, next)};
  const std::vector<std::string> not_now = needs_restart(now, next);
  if ((s.fleet != nullptr) == next.upstream.replicas.empty()) {
    done.needs_restart.emplace_back("upstream.replicas");
  } else if (s.fleet != nullptr) {
    AFI_TRY_VOID(s.fleet->apply(next.upstream));
  }
  AFI_TRY_VOID(s.key_store->reload());
  AFI_TRY_VOID(s.gateway->apply(next));
  s.server->set_limits(limits_of(next.limits));
  s.log.set_level(parse_log_level(next.log.level).value_or(LogLevel::kInfo));
  for (const std::string& key : changed_settings(now, next)) {
    const bool waits = std::ranges::find(not_now, key) != not_now.end() ||
                       std::ranges::find(done.needs_restart, key) != done.needs_restart.end();
    if (!waits) done.applied.push_back(key);
  }
  s.log.info("settings_reloaded",
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
