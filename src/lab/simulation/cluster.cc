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

bool is_part(double value) { return value >= 0 && value < 1; }

Result<void> check(const NodeOptions& node) {
  AFI_TRY_VOID(make_policy(node.policy));
  if (node.engines < 1) return wrong("a node has at least one engine");
  const std::pair<const char*, double> rates[] = {{"encode rate", node.encode_rate},
                                                  {"prefill rate", node.prefill_rate},
                                                  {"attention's tokens", node.attention_tokens}};
  for (const auto& [name, rate] : rates) {
    if (!(rate > 0)) return wrong(std::string("the ") + name + " must be above 0");
  }
  if (node.encoder_bytes == 0_B) return wrong("a token of an encoder's output has bytes");
  if (node.disk == 0_B) return {};
  if (!(node.disk_read > 0) || !(node.disk_write > 0)) {
    return wrong("a disk's rates must be above 0; for no disk, give it no room");
  }
  if (node.segment == 0_B || node.segment > node.disk) {
    return wrong("a disk holds at least one segment");
  }
  return {};
}

Result<void> check(const RemoteOptions& remote) {
  AFI_TRY_VOID(make_policy(remote.policy));
  if (remote.shards > kMost) return wrong("at most 10000 shards");
  if (!(remote.network >= 0)) return wrong("a shard's rate is 0 or more bytes a second");
  for (const auto& at : {remote.lose_at, remote.add_at}) {
    if (!at.has_value()) continue;
    if (!is_part(*at))
      return wrong("a shard is lost or added after a part of the requests: 0 to 1");
    if (remote.shards == 0) return wrong("no shard can be lost or added: there are none");
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
              "no routing is called \"" + std::string(name) + "\"; there are" + known);
}

Result<void> check(const ClusterOptions& options) {
  if (options.nodes < 1 || options.nodes > kMost) {
    return wrong("there are 1 to 10000 nodes, not " + std::to_string(options.nodes));
  }
  if (!is_part(options.warm_up)) return wrong("the warm-up is a part of the requests: 0 to 1");
  if (!(options.node.network >= 0)) return wrong("a node's rate is 0 or more bytes a second");
  AFI_TRY_VOID(check(options.node));
  return check(options.remote);
}

}  // namespace afterimage
