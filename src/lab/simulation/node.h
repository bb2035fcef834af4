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

/// One simulated node: what it keeps, what it is joined to, what it is busy with.
///
/// Threads  One.
class SimulatedNode {
 public:
  /// The options were checked; the clock outlives the node.
  SimulatedNode(const NodeOptions& options, const Clock& clock);
  SimulatedNode(const SimulatedNode&) = delete;
  SimulatedNode& operator=(const SimulatedNode&) = delete;

  /// When an engine is done that takes so long and can begin at `ready`.
  Duration work(Duration ready, Duration took);
  [[nodiscard]] Duration worked() const { return worked_; }

  MemoryBudget memory;
  SharedBudget shared;
  PolicyShelf encoder;
  PolicyShelf kv;
  std::optional<SegmentShelf> disk;
  LoadOrCompute choices;  // its disk is the nearest place, the remote tier the next
  Pipe disk_in;
  Pipe disk_out;
  Pipe net_in;
  Pipe net_out;
  /// What is being made here that others may wait for, by key: its flight.
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> making;

 private:
  std::vector<Duration> free_at_;  // of each engine
  Duration worked_{0};
};

}  // namespace afterimage
