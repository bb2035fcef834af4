// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Who answers: the built-in engine, an upstream or a fleet.
#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "afterimage/prefill_once.h"
#include "foundation/http/tls.h"
#include "gateway/prompts/content_chain.h"
#include "gateway/proxy/upstream.h"
#include "gateway/service/service_state.h"

namespace afterimage {
namespace {

constexpr unsigned kMostThreads = 8;

}  // namespace

unsigned threads_of(const LimitSettings& settings) {
  if (settings.threads > 0) return settings.threads;
  return std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads);
}

/// Empty: nothing is published.
Result<EngineBackend::OnComputed> Service::State::publish_kv_events() {
  const std::string& address = options.settings.engine.kv_events;
  if (address.empty() || reuse->prefix() == nullptr) return EngineBackend::OnComputed();
  auto started = KvPublisher::start(address, reuse->prefix()->cache(), ids.clock());
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
    backend =
        std::make_unique<EngineBackend>(settings.engine, *options.engine, *reuse, ids, clock,
                                        threads_of(settings.limits), std::move(on_computed), &log);
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
    AFI_TRY(backend, Upstream::create(settings.upstream, key, *calls, clock));
    return {};
  }
  AFI_TRY(auto several,
          FleetBackend::create(settings.upstream, key, *calls, *threads, clock, &log));
  fleet = several.get();
  backend = std::move(several);
  return {};
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

}  // namespace afterimage
