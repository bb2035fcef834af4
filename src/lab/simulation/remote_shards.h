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

/// What all nodes share: shards, each with its memory and its link. A key's shard is the one of
/// highest hash with it (rendezvous), so that a shard that comes takes its share from all others
/// equally, and one that goes leaves the others' alone.
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

  /// The options were checked.
  explicit RemoteShards(const RemoteOptions& options);

  /// nullptr: there is none, or it is lost or out of reach.
  [[nodiscard]] Shard* shard_of(std::uint64_t key);
  [[nodiscard]] bool reachable() const { return options_.shards > 0 && options_.network > 0; }

  /// The first one; what it held is gone.
  void lose();
  /// An empty one in its place.
  void replace();
  void add();

  [[nodiscard]] const std::vector<std::unique_ptr<Shard>>& all() const { return shards_; }

 private:
  const RemoteOptions options_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace afterimage
