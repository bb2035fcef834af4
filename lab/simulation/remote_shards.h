// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lab/simulation/cluster.h"
#include "lab/simulation/pipe.h"
#include "lab/simulation/policy_shelf.h"

namespace afterimage {

/// The shared remote tier: shards, each with its memory and its link. Keys are assigned by
/// rendezvous hashing, so that an added shard takes an equal share from all others and a removed
/// one leaves the others' keys unchanged.
///
/// Threads  One.
class RemoteShards {
 public:
  struct Shard {
    Shard(const RemoteOptions& options, std::uint64_t its_id);

    std::uint64_t id;
    bool up = true;
    MemoryBudget memory;
    PolicyShelf shelf;
    Pipe in;
    Pipe out;
  };

  /// Requires checked options.
  explicit RemoteShards(const RemoteOptions& options);

  /// nullptr: there are no shards, or this one is lost or unreachable.
  [[nodiscard]] Shard* shard_of(std::uint64_t key);
  [[nodiscard]] bool reachable() const { return options_.shards > 0 && options_.network > 0; }

  /// Loses the first shard with its entries.
  void lose();
  /// Replaces the lost shard by an empty one.
  void replace();
  void add();

  [[nodiscard]] const std::vector<std::unique_ptr<Shard>>& all() const { return shards_; }

 private:
  const RemoteOptions options_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace afterimage
