// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

constexpr double in_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

/// How requests are routed to nodes.
enum class Routing : unsigned char {
  kAffinity,    // a session stays on its node
  kImage,       // requests about the same image go to the same node
  kRoundRobin,  // each request to the next node
};
/// "affinity", "image", "round-robin".
std::string_view to_string(Routing routing);
/// kInvalidArgument: unknown name; the message lists the valid ones.
Result<Routing> routing_of(std::string_view name);

/// One simulated node. The defaults describe a server with one accelerator, an 8-billion-parameter
/// model (see ReplayOptions), its encoder and a fast disk.
struct NodeOptions {
  std::string policy = "worth";      // one of policy_names()
  Bytes memory = 32_GiB;             // shared by encoder outputs and KV
  Bytes disk = 1024_GiB;             // 0: none
  Bytes segment = 256_MiB;           // unit of eviction on the disk
  std::uint32_t engines = 1;         // each encodes or prefills, one item at a time
  double encode_rate = 20'000;       // image tokens a second
  double prefill_rate = 25'000;      // tokens a second, early in a prompt
  double attention_tokens = 30'500;  // position at which a token takes twice as long
  Bytes encoder_bytes = 8_KiB;       // per token of an encoder output
  Bytes kv_bytes = 128_KiB;          // per token; 0: KV is not cached
  double disk_read = 3e9;            // bytes a second
  double disk_write = 1.5e9;         // bytes a second
  Duration disk_latency{100'000};    // per read
  double network = 3.125e9;          // bytes a second each way: 25 Gbit/s
  bool measured_loads = true;        // LoadOrCompute decides; false: always load what is available
};

/// The remote tier that all nodes share.
struct RemoteOptions {
  std::uint32_t shards = 4;  // 0: none
  Bytes memory = 256_GiB;    // per shard
  std::string policy = "lru";
  double network = 3.125e9;       // bytes a second each way; 0: unreachable
  Duration round_trip{200'000};   // from request to first byte
  bool leases = true;             // two nodes never encode the same image at the same time
  std::optional<double> lose_at;  // share of the requests after which the first shard is lost
  Duration replaced_after{60'000'000'000};  // until an empty shard replaces it
  std::optional<double> add_at;             // share of the requests after which a shard is added
};

struct ClusterOptions {
  std::uint32_t nodes = 1;
  Routing routing = Routing::kAffinity;
  NodeOptions node;
  RemoteOptions remote;
  double warm_up = 0.2;  // share of the requests, from the first, that is not counted
};

/// kInvalidArgument: options that cannot be simulated; the message gives the valid range.
Result<void> check(const ClusterOptions& options);

}  // namespace afterimage
