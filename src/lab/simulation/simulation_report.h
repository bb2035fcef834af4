// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/simulation/simulation.h"

namespace afterimage {

/// One configuration, simulated.
struct SimulatedCluster {
  std::string name;  // what tells it from the others: "10 nodes, lru"
  SimulationResult result;
  /// The same without the shard that was lost or added; only where one was.
  std::optional<SimulationResult> undisturbed;
};

/// What was played to all of them.
struct SimulationReport {
  std::string traffic;                   // a line: made up, or a trace's name
  std::vector<std::string> assumptions;  // about traffic, a line each
  std::vector<SimulatedCluster> clusters;
};

/// What a configuration takes for granted, a line each: rates, latencies, sizes.
std::vector<std::string> assumptions(const ClusterOptions& options);
std::vector<std::string> assumptions(const TrafficOptions& options);

/// What a lost or added shard cost, beside the same run without: hits and compute.
struct Disturbance {
  double images_saved_before = 0;    // parts of all images
  double images_saved_worst = 0;     // of the window that saved least after it
  std::int64_t images_computed = 0;  // more than without
  double compute_seconds = 0;        // more than without
};
Disturbance disturbance(const SimulatedCluster& cluster);

/// All numbers of a report by name, a column a cluster.
std::vector<std::vector<std::string>> report_rows(const SimulationReport& report);
/// For a person: one column a configuration, then what they assume.
std::string to_table(const SimulationReport& report);
/// For a program.
std::string to_json(const SimulationReport& report);
/// One HTML page that needs no other file and runs no script.
std::string to_html(const SimulationReport& report);

}  // namespace afterimage
