// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/simulation/simulation.h"

namespace afterimage {

/// One simulated configuration.
struct SimulatedCluster {
  std::string name;  // distinguishes it from the others: "10 nodes, lru"
  SimulationResult result;
  /// The same run without losing or adding a shard; set only if a shard was lost or added.
  std::optional<SimulationResult> undisturbed;
};

/// What was simulated: the traffic and all clusters.
struct SimulationReport {
  std::string traffic;                   // one line: generated, or a trace's name
  std::vector<std::string> assumptions;  // about the traffic, one line each
  std::vector<SimulatedCluster> clusters;
};

/// The assumptions of a configuration, one line each: rates, latencies, sizes.
std::vector<std::string> assumptions(const ClusterOptions& options);
std::vector<std::string> assumptions(const TrafficOptions& options);

/// The effect of a lost or added shard, compared with the same run without that event.
struct Disturbance {
  double images_saved_before = 0;    // shares of all images
  double images_saved_worst = 0;     // in the worst window after the event
  std::int64_t images_computed = 0;  // additional to the undisturbed run
  double compute_seconds = 0;        // additional to the undisturbed run
};
Disturbance disturbance(const SimulatedCluster& cluster);

/// All numbers of a report by name, one column per cluster.
std::vector<std::vector<std::string>> report_rows(const SimulationReport& report);
/// Human-readable: one column per configuration, then the assumptions.
std::string to_table(const SimulationReport& report);
/// Machine-readable.
std::string to_json(const SimulationReport& report);
/// A self-contained HTML page without scripts.
std::string to_html(const SimulationReport& report);

}  // namespace afterimage
