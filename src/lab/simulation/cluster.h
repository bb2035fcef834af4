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

/// Which node a request goes to.
enum class Routing : unsigned char {
  kAffinity,    // a session stays with its node
  kImage,       // who asks about the same image meets on one node
  kRoundRobin,  // each in its turn
};
/// "affinity", "image", "round-robin".
std::string_view to_string(Routing routing);
/// kInvalidArgument: there is none of that name; the message names those that are.
Result<Routing> routing_of(std::string_view name);

/// One simulated node. The defaults are those of a server with one accelerator and an
/// 8-billion-parameter model (see ReplayOptions), its encoder and a fast disk.
struct NodeOptions {
  std::string policy = "worth";      // one of policy_names()
  Bytes memory = 32_GiB;             // for encoder outputs and KV together
  Bytes disk = 1024_GiB;             // 0: none
  Bytes segment = 256_MiB;           // what leaves the disk at once
  std::uint32_t engines = 1;         // what encodes and prefills, one thing at a time each
  double encode_rate = 20'000;       // an image's tokens a second
  double prefill_rate = 25'000;      // tokens a second, early in a prompt
  double attention_tokens = 30'500;  // after so many a token takes twice as long
  Bytes encoder_bytes = 8_KiB;       // of a token of an encoder's output
  Bytes kv_bytes = 128_KiB;          // of a token's KV; 0: KV is not kept
  double disk_read = 3e9;            // bytes a second
  double disk_write = 1.5e9;         // bytes a second
  Duration disk_latency{100'000};    // of a read
  double network = 3.125e9;          // bytes a second each way: 25 Gbit/s
  bool measured_loads = true;        // LoadOrCompute decides; false: what is there is loaded
};

/// What all nodes share.
struct RemoteOptions {
  std::uint32_t shards = 4;  // 0: none
  Bytes memory = 256_GiB;    // of a shard
  std::string policy = "lru";
  double network = 3.125e9;       // bytes a second each way; 0: out of reach
  Duration round_trip{200'000};   // to ask, before the first byte comes
  bool leases = true;             // two nodes never encode the same image at the same time
  std::optional<double> lose_at;  // part of the requests after which the first shard is lost
  Duration replaced_after{60'000'000'000};  // until an empty one takes its place
  std::optional<double> add_at;             // part of the requests after which there is one more
};

struct ClusterOptions {
  std::uint32_t nodes = 1;
  Routing routing = Routing::kAffinity;
  NodeOptions node;
  RemoteOptions remote;
  double warm_up = 0.2;  // part of the requests, from the first, that are not counted
};

/// kInvalidArgument: what cannot be simulated, and what could be.
Result<void> check(const ClusterOptions& options);

}  // namespace afterimage
