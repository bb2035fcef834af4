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

/// What happened to the images that requests needed; the sum of the last five is `lookups`.
struct ImageCounts {
  std::uint64_t covered = 0;  // not needed: the image lies in a cached prefix
  std::uint64_t lookups = 0;
  std::uint64_t memory = 0;   // in the node's own memory
  std::uint64_t awaited = 0;  // another request of the node was already encoding or loading it
  std::uint64_t disk = 0;     // on the node's own disk
  std::uint64_t remote = 0;
  std::uint64_t computed = 0;
  std::uint64_t declined = 0;  // of those computed, available in a tier but slower to load

  bool operator==(const ImageCounts&) const = default;
};

/// Prompt tokens by the source of their KV; the sum of the last four is `input`.
struct KvCounts {
  std::uint64_t input = 0;
  std::uint64_t memory = 0;
  std::uint64_t disk = 0;
  std::uint64_t remote = 0;
  std::uint64_t computed = 0;
  std::uint64_t declined = 0;  // of those computed, available in a tier but slower to load

  bool operator==(const KvCounts&) const = default;
};

/// Bytes transferred, counted independently at each end.
struct ByteCounts {
  Bytes disk_read;
  Bytes disk_written;
  Bytes out_of_shards;
  Bytes into_nodes;
  Bytes out_of_nodes;
  Bytes into_shards;

  bool operator==(const ByteCounts&) const = default;
};

/// One part of the run; windows are in order.
struct SimulationWindow {
  Duration until{0};
  std::uint64_t requests = 0;
  std::uint64_t images = 0;         // looked up or covered
  std::uint64_t images_saved = 0;   // of those, not encoded
  std::uint64_t images_remote = 0;  // of those saved, from the remote tier
  double compute_seconds = 0;
  Duration latest{0};  // the longest time to first token in this window

  /// Share of the images that were not encoded; 0 if there were none.
  [[nodiscard]] double saved_share() const {
    return images == 0 ? 0 : static_cast<double>(images_saved) / static_cast<double>(images);
  }
};

struct SimulationResult {
  ClusterOptions options;
  std::uint64_t requests = 0;  // counted: after the warm-up
  Duration span{0};            // simulated time that is counted
  ImageCounts images;
  KvCounts kv;
  ByteCounts bytes;
  LatencyCounts first_token;
  double compute_seconds = 0;        // seconds of encoding and prefill
  double compute_seconds_saved = 0;  // compared with the same requests without a cache
  double engines_busy = 0;           // share of the time, all engines together
  double busiest_shard_link = 0;     // share of the time, the busier direction
  double busiest_node_link = 0;
  double busiest_disk = 0;
  Bytes node_memory;  // the peak of the fullest node
  Bytes node_disk;
  Bytes shard_memory;
  std::uint64_t lost_entries = 0;  // entries in the shard when it was lost
  Bytes lost_bytes;
  std::uint64_t remote_entries_then = 0;  // entries in all shards at that time
  std::optional<Duration> lost_at;
  /// Until the share of images saved is as before; none: never.
  std::optional<Duration> recovered_after;
  std::vector<SimulationWindow> windows;  // over all requests, including the warm-up
};

/// Called now and then with the number of requests answered and their total.
using SimulationProgress = std::function<void(std::uint64_t done, std::uint64_t of)>;

/// Simulates the traffic on a cluster. Eviction policies, the budget shared by a node's caches, and
/// the choice between loading and computing are the real code; devices and links are queues with a
/// rate and a latency.
///
/// A request waits for a request with the same prefix, loads KV as far as that pays, looks up the
/// remaining images (memory, disk, remote), encodes those found nowhere, waits for those that
/// others encode, and prefills. The same traffic and options give the same result, to the bit.
///
/// Errors   Those of check(ClusterOptions).
/// Cost     A few microseconds per request; memory for cached entries (see the shelves),
///          independent of the number of distinct images.
Result<SimulationResult> simulate(const ClusterOptions& options, Traffic& traffic,
                                  const SimulationProgress& progress = {});

}  // namespace afterimage
