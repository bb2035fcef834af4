// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <string>

#include "gateway/admin/admin.h"
#include "gateway/admin/published.h"

namespace afterimage {
namespace {

void write_replica(MetricsWriter& out, const ReplicaStats& replica) {
  const std::string& name = replica.setting.name;
  const auto total = [&](const char* metric, const char* help, double count) {
    out.counter(metric, help, {{"replica", name}}, count);
  };
  const auto gauge = [&](const char* metric, const char* help, double value) {
    out.gauge(metric, help, {{"replica", name}}, value);
  };
  for (std::size_t i = 0; i < kCallResults; ++i) {
    const auto result = static_cast<CallResult>(i);
    out.counter("afterimage_replica_requests_total", "Requests that ended at a replica, by how",
                {{"replica", name}, {"result", std::string(to_string(result))}},
                static_cast<double>(replica.results[i]));
  }
  for (const auto& [reason, count] : replica.routed) {
    out.counter("afterimage_replica_routed_total", "Requests sent to a replica, by reason",
                {{"replica", name}, {"reason", std::string(reason)}}, static_cast<double>(count));
  }
  gauge("afterimage_replica_in_flight", "Requests at a replica", replica.in_flight);
  gauge("afterimage_replica_available", "1 if a replica may be sent requests",
        replica.state == "ready" || replica.state == "full" || replica.state == "on-trial" ? 1 : 0);
  gauge("afterimage_replica_expected_wait_seconds", "Expected wait of a new request at a replica",
        replica.wait_s);
  gauge("afterimage_replica_resident_tokens", "Tokens expected in a replica's prefix cache",
        replica.resident_tokens);
  total("afterimage_replica_ejections_total", "Times that a replica was ejected",
        static_cast<double>(replica.ejections));
  total("afterimage_replica_expected_tokens_total",
        "Prompt tokens expected to be cached where the request was sent", replica.expected_tokens);
  total("afterimage_replica_cached_tokens_total", "Prompt tokens that a replica reported as cached",
        replica.cached_tokens);
}

void write_events(MetricsWriter& out, const std::string& name, const KvSourceStats& events) {
  const MetricLabels labels{{"replica", name}};
  out.gauge("afterimage_replica_kv_connected", "1 while a replica's KV events are followed", labels,
            events.connected ? 1 : 0);
  out.counter("afterimage_replica_kv_events_total", "KV events that a replica published", labels,
              static_cast<double>(events.events));
  count_by(out, "afterimage_replica_kv_gaps_total", "Gaps in a replica's KV events", "result",
           {{"replayed", events.bridged}, {"lost", events.gaps - events.bridged}},
           {{"replica", name}});
}

}  // namespace

void publish_fleet(Metrics& metrics, FleetBackend& fleet) {
  metrics.on_scrape([&fleet](MetricsWriter& out) {
    for (const ReplicaStats& replica : fleet.fleet().stats()) write_replica(out, replica);
    for (const auto& [name, events] : fleet.kv_events()) write_events(out, name, events);
    const FleetBackendStats stats = fleet.stats();
    out.gauge("afterimage_fleet_waiting", "Requests that wait for a replica", {},
              static_cast<double>(stats.waiting));
    count(out, "afterimage_fleet_queued_total", "Requests that had to wait for a replica",
          stats.queued);
    count_by(out, "afterimage_fleet_refused_total",
             "Requests that no replica had room for, by reason", "reason",
             {{"queue_full", stats.refused_full}, {"late", stats.refused_late}});
    count_by(out, "afterimage_fleet_retries_total",
             "Failed requests that could be sent to another replica", "result",
             {{"sent", stats.retries}, {"over_budget", stats.retries_denied}});
    count_by(
        out, "afterimage_fleet_fatal_requests_total",
        "Requests whose replica died while they ran, and requests refused because two replicas had",
        "result", {{"replica_died", stats.fatal}, {"refused", stats.fatal_refused}});
  });
}

}  // namespace afterimage
