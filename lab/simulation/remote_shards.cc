// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/remote_shards.h"

#include "afterimage/eviction_policy.h"
#include "lab/simulation/traffic.h"

namespace afterimage {

RemoteShards::Shard::Shard(const RemoteOptions& options, std::uint64_t its_id)
    : id(its_id),
      memory(options.memory),
      shelf(make_policy(options.policy).value(), memory),
      in(options.network),
      out(options.network) {}

RemoteShards::RemoteShards(const RemoteOptions& options) : options_(options) {
  for (std::uint32_t i = 0; i < options.shards; ++i) {
    shards_.push_back(std::make_unique<Shard>(options, i));
  }
}

RemoteShards::Shard* RemoteShards::shard_of(std::uint64_t key) {
  if (!reachable()) return nullptr;
  Shard* highest = nullptr;
  std::uint64_t most = 0;
  for (const auto& shard : shards_) {
    const std::uint64_t hash = mixed_key(shard->id, key);
    if (highest != nullptr && hash <= most) continue;
    highest = shard.get();
    most = hash;
  }
  return highest->up ? highest : nullptr;
}

void RemoteShards::lose() {
  shards_.front()->up = false;
  shards_.front()->shelf.clear();
}

void RemoteShards::replace() { shards_.front()->up = true; }

void RemoteShards::add() { shards_.push_back(std::make_unique<Shard>(options_, shards_.size())); }

}  // namespace afterimage
