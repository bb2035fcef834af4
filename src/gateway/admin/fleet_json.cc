// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/admin/fleet_json.h"

#include <string>

#include "gateway/proxy/durations.h"

namespace afterimage {

using nlohmann::json;

namespace {

json replica_json(const ReplicaStats& replica) {
  json results = json::object();
  std::uint64_t requests = replica.in_flight;
  for (std::size_t i = 0; i < kCallResults; ++i) {
    results[std::string(to_string(static_cast<CallResult>(i)))] = replica.results[i];
    requests += replica.results[i];
  }
  json routed = json::object();
  for (const auto& [reason, count] : replica.routed) routed[std::string(reason)] = count;
  return {{"name", replica.setting.name},
          {"url", replica.setting.url},
          {"state", replica.state},
          {"weight", replica.setting.weight},
          {"models", replica.setting.models},
          {"limit", replica.limit},
          {"in_flight", replica.in_flight},
          {"requests", requests},
          {"results", std::move(results)},
          {"routed", std::move(routed)},
          {"ejections", replica.ejections},
          {"resident_tokens", replica.resident_tokens},
          {"resident_media", replica.media},
          {"expected_tokens", replica.expected_tokens},
          {"cached_tokens", replica.cached_tokens},
          {"prompt_tokens", replica.prompt_tokens},
          {"wait_s", replica.wait_s},
          {"slowness", replica.slowness}};
}

json kv_json(const KvSourceStats& events) {
  return {{"connected", events.connected},
          {"batches", events.batches},
          {"events", events.events},
          {"invalid", events.invalid},
          {"gaps", events.gaps},
          {"bridged", events.bridged},
          {"restarts", events.restarts},
          {"doubts", events.doubts},
          {"blocks", events.blocks},
          {"tokens", events.tokens},
          {"names_content", events.names_content},
          {"confirmed_links", events.confirmed_links}};
}

}  // namespace

json fleet_json(FleetBackend& fleet) {
  const auto events = fleet.kv_events();
  json replicas = json::array();
  for (const ReplicaStats& replica : fleet.fleet().stats()) {
    json said = replica_json(replica);
    const auto its = events.find(replica.setting.name);
    said["kv_events"] = its == events.end() ? json() : kv_json(its->second);
    replicas.push_back(std::move(said));
  }
  json fatal = json::array();
  for (const FatalRequest& request : fleet.fatal_requests()) {
    fatal.push_back({{"digest", request.digest.hex()},
                     {"model", request.model},
                     {"replica", request.replica},
                     {"deaths", request.deaths},
                     {"refused_for_s", seconds(request.refused_for)}});
  }
  const FleetBackendStats stats = fleet.stats();
  return {{"name", fleet.name()},
          {"replicas", std::move(replicas)},
          {"waiting", stats.waiting},
          {"queued", stats.queued},
          {"refused_full", stats.refused_full},
          {"refused_late", stats.refused_late},
          {"retries", stats.retries},
          {"retries_denied", stats.retries_denied},
          {"fatal_requests", stats.fatal},
          {"fatal_refused", stats.fatal_refused},
          {"fatal", std::move(fatal)},
          {"prompts_tokenized", stats.prompts.read},
          {"prompts_not_tokenized", stats.prompts.failed + stats.prompts.dropped}};
}

json route_json(const Route& route) {
  json candidates = json::array();
  for (const RouteCandidate& one : route.candidates) {
    candidates.push_back({{"replica", one.replica},
                          {"state", one.state},
                          {"in_flight", one.in_flight},
                          {"resident_tokens", one.resident_tokens},
                          {"confirmed_tokens", one.confirmed_tokens},
                          {"resident_media", one.resident_media},
                          {"compute_s", one.compute_s},
                          {"saved_s", one.saved_s},
                          {"wait_s", one.wait_s}});
  }
  return {{"replica", route.replica},
          {"reason", route.reason},
          {"why", route.why},
          {"attempt", route.attempt},
          {"queued_ms", milliseconds(route.queued)},
          {"candidates", std::move(candidates)}};
}

Result<json> change_fleet(FleetBackend& fleet, std::string_view action, const json& asked) {
  if (action != "/drain" && action != "/resume") {
    return fail(ErrorCode::kNotFound, "POST /admin/api/fleet/drain or /admin/api/fleet/resume");
  }
  const json name = asked.value("replica", json());
  if (!name.is_string()) {
    return fail(ErrorCode::kInvalidArgument,
                R"(send {"replica": "…"}: a name of GET /admin/api/fleet)");
  }
  const bool drains = action == "/drain";
  const auto in_flight = fleet.fleet().drain(name.get_ref<const std::string&>(), drains);
  if (!in_flight.has_value()) {
    return fail(ErrorCode::kNotFound,
                "there is no replica '" + name.get<std::string>() + "': see GET /admin/api/fleet");
  }
  if (!drains) fleet.pump();
  return json{{"replica", name}, {"draining", drains}, {"in_flight", *in_flight}};
}

}  // namespace afterimage
