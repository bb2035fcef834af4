// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/eviction_policy.h"
#include "policy/eviction/entry_queues.h"
#include "policy/eviction/ghost_queue.h"

namespace afterimage {

/// Adaptive replacement cache: one list of entries used once and one of entries used again, each in
/// order of use, and the keys of entries evicted from either. Returning keys decide from which list
/// to evict. The cache's size is taken to be the current number of entries.
///
/// Source   Megiddo and Modha, ARC: a self-tuning, low overhead replacement cache, FAST 2003.
class Arc final : public EvictionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "arc"; }
  void insert(SlotId slot, const EntryFacts& facts) override;
  void touch(SlotId slot) override;
  void erase(SlotId slot, RemovalReason why) override;
  void park(SlotId slot) override { queues_.park(slot); }
  void unpark(SlotId slot) override { queues_.unpark(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override;

 private:
  EntryQueues queues_;
  GhostQueue once_gone_;
  GhostQueue again_gone_;
  double once_target_ = 0;  // target size of the list of entries used once: the paper's p
};

}  // namespace afterimage
