// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "afterimage/clock.h"
#include "foundation/http/caller.h"
#include "foundation/http/io_threads.h"
#include "foundation/telemetry/log.h"
#include "gateway/config/settings.h"
#include "gateway/fleet/fatal_requests.h"
#include "gateway/fleet/fleet.h"
#include "gateway/fleet/kv_subscriber.h"
#include "gateway/fleet/prompt_reader.h"
#include "gateway/proxy/backend.h"

namespace afterimage {

struct FleetBackendStats {
  std::uint64_t waiting = 0;
  std::uint64_t queued = 0;        // ever
  std::uint64_t refused_full = 0;  // 429: the queue was full
  std::uint64_t refused_late = 0;  // 503: no replica had room in time
  std::uint64_t retries = 0;
  std::uint64_t retries_denied = 0;  // by the budget
  std::uint64_t fatal = 0;           // requests whose replica died while it ran
  std::uint64_t fatal_refused = 0;   // requests that had ended two
  PromptReaderStats prompts = {};
};

/// Several servers as one backend: each request goes to the replica that the fleet chooses. One that
/// fails before the first byte of its response is asked again at another replica, within the retry
/// budget, unless its replica died while it ran (FatalRequests); later failures are the client's to
/// see. Requests that no replica has room for wait in a bounded queue, in order.
///
/// The identity of cached answers names the fleet and no replica, so that replicas come and go.
///
/// Errors   create, apply: kInvalidArgument: a replica that cannot be read. Requests: 429 with
///          Retry-After if the queue is full, 503 if none had room in time, 404 if none serves the
///          model, 502 if its replica died, 503 if it has ended two; else as Upstream.
/// Threads  Any.
/// Source   src/gateway/fleet/DESIGN.md.
class FleetBackend final : public Backend {
 public:
  /// All but `settings` outlive it, and its calls.
  static Result<std::unique_ptr<FleetBackend>> create(const UpstreamSettings& settings,
                                                      std::string key, HttpCaller& caller,
                                                      IoThreads& threads, const Clock& clock,
                                                      Log* log = nullptr);
  ~FleetBackend() override;
  FleetBackend(const FleetBackend&) = delete;
  FleetBackend& operator=(const FleetBackend&) = delete;

  /// Applies to requests that begin from now on; those on their way end where they are.
  Result<void> apply(const UpstreamSettings& settings);
  [[nodiscard]] Fleet& fleet();
  [[nodiscard]] FleetBackendStats stats() const;
  /// Of the replicas that publish KV events, by name.
  [[nodiscard]] std::map<std::string, KvSourceStats> kv_events() const;
  /// The newest of those that are remembered.
  [[nodiscard]] std::vector<FatalRequest> fatal_requests() const;
  /// Requests that wait get a replica that was drained before.
  void pump();

  [[nodiscard]] std::string_view kind() const override { return "upstream"; }
  [[nodiscard]] std::string name() const override;
  [[nodiscard]] ModelIdentity identity(const std::string& model) const override;
  [[nodiscard]] bool takes_anything() const override { return true; }
  /// One of its replicas.
  [[nodiscard]] bool may_take_salts() const override;
  [[nodiscard]] std::shared_ptr<const Route> route(const BackendRequest& request) const override;
  BackendCall ask(BackendRequest request, std::shared_ptr<BackendListener> listener) override;

 private:
  class Core;
  explicit FleetBackend(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  std::shared_ptr<Core> core_;  // calls hold it, too
};

}  // namespace afterimage
