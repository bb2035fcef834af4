// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "afterimage/memory_budget.h"
#include "lab/simulation/cluster.h"
#include "lab/simulation/pipe.h"
#include "lab/simulation/policy_shelf.h"
#include "lab/simulation/segment_shelf.h"
#include "storage/memory/load_or_compute.h"

namespace afterimage {

/// One simulated node: its caches, links, disk and engines.
///
/// Threads  One.
class SimulatedNode {
 public:
  /// Requires checked options; the clock outlives the node.
  SimulatedNode(const NodeOptions& options, const Clock& clock);
  SimulatedNode(const SimulatedNode&) = delete;
  SimulatedNode& operator=(const SimulatedNode&) = delete;

  /// Schedules `took` of work that can start at `ready` on the first free engine; returns when it
  /// ends.
  Duration work(Duration ready, Duration took);
  [[nodiscard]] Duration worked() const { return worked_; }

  MemoryBudget memory;
  SharedBudget shared;
  PolicyShelf encoder;
  PolicyShelf kv;
  std::optional<SegmentShelf> disk;
  LoadOrCompute choices;  // place 0 is the disk, place 1 the remote tier
  Pipe disk_in;
  Pipe disk_out;
  Pipe net_in;
  Pipe net_out;
  /// Flights of this node by key: what is being computed or loaded that other requests may wait
  /// for.
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> flights;

 private:
  std::vector<Duration> free_at_;  // per engine
  Duration worked_{0};
};

}  // namespace afterimage
