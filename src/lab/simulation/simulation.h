// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "lab/simulation/cluster.h"
#include "lab/simulation/latency_counts.h"
#include "lab/simulation/traffic.h"

namespace afterimage {

/// What became of the images that requests needed; the sum of the last five is `lookups`.
struct ImageCounts {
  std::uint64_t covered = 0;  // none was needed: the image lies in a prefix that was there
  std::uint64_t lookups = 0;
  std::uint64_t memory = 0;   // the node's own
  std::uint64_t awaited = 0;  // another request of the node was encoding or loading it
  std::uint64_t disk = 0;     // the node's own
  std::uint64_t remote = 0;
  std::uint64_t computed = 0;
  std::uint64_t declined = 0;  // of those computed, what was not loaded because that was slower

  bool operator==(const ImageCounts&) const = default;
};

/// Tokens of prompts, by where their KV came from; the sum of the last four is `input`.
struct KvCounts {
  std::uint64_t input = 0;
  std::uint64_t memory = 0;
  std::uint64_t disk = 0;
  std::uint64_t remote = 0;
  std::uint64_t computed = 0;
  std::uint64_t declined = 0;  // of those computed, what was not loaded because that was slower

  bool operator==(const KvCounts&) const = default;
};

/// Bytes that passed, counted at each end by itself.
struct ByteCounts {
  Bytes disk_read;
  Bytes disk_written;
  Bytes out_of_shards;
  Bytes into_nodes;
  Bytes out_of_nodes;
  Bytes into_shards;

  bool operator==(const ByteCounts&) const = default;
};

/// A part of the run, in order.
struct SimulationWindow {
  Duration until{0};
  std::uint64_t requests = 0;
  std::uint64_t images = 0;         // looked up or covered
  std::uint64_t images_saved = 0;   // of those, not computed
  std::uint64_t images_remote = 0;  // of those
  double compute_seconds = 0;
  Duration latest{0};  // time to the first token, the most of this window

  /// Of the images; 0 if there were none.
  [[nodiscard]] double saved_part() const {
    return images == 0 ? 0 : static_cast<double>(images_saved) / static_cast<double>(images);
  }
};

struct SimulationResult {
  ClusterOptions options;
  std::uint64_t requests = 0;  // counted: after the warm-up
  Duration span{0};            // simulated, that is counted
  ImageCounts images;
  KvCounts kv;
  ByteCounts bytes;
  LatencyCounts first_token;
  double compute_seconds = 0;        // of encoding and prefill
  double compute_seconds_saved = 0;  // of what they would have been without a cache
  double engines_busy = 0;           // part of the time, of all together
  double busiest_shard_link = 0;     // part of the time, either way
  double busiest_node_link = 0;
  double busiest_disk = 0;
  Bytes node_memory;  // the most that a node held, the most of all nodes
  Bytes node_disk;
  Bytes shard_memory;
  std::uint64_t lost_entries = 0;  // that the lost shard held
  Bytes lost_bytes;
  std::uint64_t remote_entries_then = 0;  // that all shards held, it among them
  std::optional<Duration> lost_at;
  std::optional<Duration> recovered_after;  // images saved are again as before; none: never
  std::vector<SimulationWindow> windows;    // of all requests, the warm-up among them
};

/// Told now and then: requests answered, of how many.
using SimulationProgress = std::function<void(std::uint64_t done, std::uint64_t of)>;

/// Plays the traffic to a cluster in simulated time. Eviction policies, the budget that a node's
/// caches share, and the choice between loading and computing are the real ones; devices and links
/// are queues with a rate and a latency.
///
/// A request waits for whom it shares a prefix with, loads KV as far as that pays, looks for the
/// images that are left (memory, disk, remote), encodes what is nowhere, waits for what others
/// encode, and prefills. The same traffic and options give the same result, to the bit.
///
/// Errors   of check(ClusterOptions).
/// Cost     A few microseconds a request; memory for what is kept (see the shelves), and nothing
///          for each image that there is.
Result<SimulationResult> simulate(const ClusterOptions& options, Traffic& traffic,
                                  const SimulationProgress& progress = {});

}  // namespace afterimage
