// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "afterimage/reuse.h"
#include "caches/answers/answer_archive.h"
#include "caches/invalidation/invalidation_log.h"
#include "foundation/http/caller.h"
#include "foundation/http/server.h"
#include "foundation/platform/files.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/periodic_task.h"
#include "foundation/telemetry/log.h"
#include "foundation/telemetry/metrics.h"
#include "foundation/telemetry/span_exporter.h"
#include "gateway/admin/admin.h"
#include "gateway/engine_backend/engine_backend.h"
#include "gateway/fleet/fleet_backend.h"
#include "gateway/keys/key_store.h"
#include "gateway/kv_publisher/kv_publisher.h"
#include "gateway/proxy/gateway.h"
#include "gateway/service/make_similar_answers.h"
#include "gateway/service/service.h"
#include "gateway/service/tier_watch.h"
#include "policy/pressure/device_cache.h"
#include "policy/pressure/gauges.h"
#include "policy/pressure/linux_gauges.h"
#include "storage/remote/redis_leases.h"
#include "storage/stores/stores.h"

namespace afterimage {

/// The key in the environment variable that a setting names; empty: it names none.
[[nodiscard]] Result<std::string> key_in(const std::string& setting, const std::string& variable);
/// That answer requests; the settings or the machine say how many.
[[nodiscard]] unsigned threads_of(const LimitSettings& settings);

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
    {
      const MutexLock lock(reloading);  // waits for a reload, and lets none begin
      runs = false;
    }
    // Connections and calls first: they use everything else.
    admin_server.reset();
    server.reset();
    if (threads != nullptr) threads->stop();
    poller.reset();  // it gives work to the gateway
    tier_watcher.reset();
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

  void raise_open_files();
  void open_device();
  Result<void> open_stores();
  Result<void> open_reuse();
  Result<EngineBackend::OnComputed> publish_kv_events();
  Result<std::unique_ptr<SharedCell>> remote_cell(std::string_view domain,
                                                  std::unique_ptr<SharedCell>& stored) const;
  Result<void> share_answers();
  void erase_what_others_erased(const Invalidation& invalidation);
  Result<void> erase_own_copies();
  [[nodiscard]] std::optional<SimilarStorage> similar_storage();
  Result<void> open_similar();
  [[nodiscard]] Result<SharedCell*> evidence_cell(const std::string& name);
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
  Result<Reloaded> reload_now() AFI_REQUIRES(reloading);

  ServiceOptions options;
  // One reload at a time, none before everything listens and none while it ends: requests may come
  // as soon as the first port is open.
  Mutex reloading;
  bool runs AFI_GUARDED_BY(reloading) = false;
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
  MemoryBudget transfer{64_MiB};  // for answers on their way from a disk into memory
  std::unique_ptr<SharedCell> remote_invalidations;
  std::unique_ptr<SharedCell> invalidations;  // the same, decrypted
  std::unique_ptr<InvalidationLog> invalidation_log;
  std::unique_ptr<SharedCell> stored_evidence;  // of similarity
  std::unique_ptr<SharedCell> evidence;         // the same, decrypted
  std::unique_ptr<RedisLeases> answer_leases;   // apart from the encoder's: they last less long
  std::unique_ptr<AnswerArchive> archive;
  std::unique_ptr<PeriodicTask> poller;
  std::unique_ptr<TierWatch> tier_watch;
  std::unique_ptr<PeriodicTask> tier_watcher;
  std::unique_ptr<PeriodicTask> usage_saver;
  std::unique_ptr<IoThreads> threads;
  std::unique_ptr<HttpCaller> caller;
  std::unique_ptr<HttpCaller> trusting_caller;  // upstream.ca_file; nullptr: `caller`
  std::unique_ptr<KvPublisher> kv_publisher;    // nullptr: nothing is published
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

}  // namespace afterimage
