// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/cluster.h"

#include <array>
#include <utility>

#include "afterimage/eviction_policy.h"

namespace afterimage {
namespace {

constexpr std::array kRoutings = {Routing::kAffinity, Routing::kImage, Routing::kRoundRobin};
constexpr std::uint32_t kMost = 10'000;  // nodes or shards

Result<void> wrong(const std::string& message) {
  return fail(ErrorCode::kInvalidArgument, message);
}

bool is_share(double value) { return value >= 0 && value < 1; }

Result<void> check(const NodeOptions& node) {
  AFI_TRY_VOID(make_policy(node.policy));
  if (node.engines < 1) return wrong("a node needs at least one engine");
  const std::pair<const char*, double> rates[] = {{"encode rate", node.encode_rate},
                                                  {"prefill rate", node.prefill_rate},
                                                  {"attention tokens", node.attention_tokens}};
  for (const auto& [name, rate] : rates) {
    if (!(rate > 0)) return wrong(std::string("the ") + name + " must be above 0");
  }
  if (node.encoder_bytes == 0_B)
    return wrong("the bytes per token of an encoder output must be above 0");
  if (node.disk == 0_B) return {};
  if (!(node.disk_read > 0) || !(node.disk_write > 0)) {
    return wrong("the disk rates must be above 0; for no disk, set its size to 0");
  }
  if (node.segment == 0_B || node.segment > node.disk) {
    return wrong("the disk must hold at least one segment");
  }
  return {};
}

Result<void> check(const RemoteOptions& remote) {
  AFI_TRY_VOID(make_policy(remote.policy));
  if (remote.shards > kMost) return wrong("at most 10000 shards");
  if (!(remote.network >= 0))
    return wrong("the network rate of a shard must be 0 or more bytes a second");
  for (const auto& at : {remote.lose_at, remote.add_at}) {
    if (!at.has_value()) continue;
    if (!is_share(*at))
      return wrong("the time to lose or add a shard is a share of the requests: 0 to 1");
    if (remote.shards == 0) return wrong("cannot lose or add a shard: there are none");
  }
  return {};
}

}  // namespace

std::string_view to_string(Routing routing) {
  switch (routing) {
    case Routing::kAffinity:
      return "affinity";
    case Routing::kImage:
      return "image";
    case Routing::kRoundRobin:
      return "round-robin";
  }
  return "unknown";
}

Result<Routing> routing_of(std::string_view name) {
  std::string known;
  for (const Routing routing : kRoutings) {
    if (to_string(routing) == name) return routing;
    known += " " + std::string(to_string(routing));
  }
  return fail(ErrorCode::kInvalidArgument,
              "unknown routing \"" + std::string(name) + "\"; choose one of" + known);
}

Result<void> check(const ClusterOptions& options) {
  if (options.nodes < 1 || options.nodes > kMost) {
    return wrong("the number of nodes must be 1 to 10000, not " + std::to_string(options.nodes));
  }
  if (!is_share(options.warm_up))
    return wrong("the warm-up is a share of the requests: at least 0, below 1");
  if (!(options.node.network >= 0))
    return wrong("the network rate of a node must be 0 or more bytes a second");
  AFI_TRY_VOID(check(options.node));
  return check(options.remote);
}

}  // namespace afterimage
