// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/eviction_policy.h"
#include "policy/eviction/entry_queues.h"
#include "policy/eviction/ghost_queue.h"

namespace afterimage {

/// Adaptive replacement cache: entries used once and entries used again, each in order of use, and
/// the keys of those that left either; which of the two gives way follows which of the keys come
/// back. The cache's size is taken to be the entries there are.
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
  double once_target_ = 0;  // entries that those used once may have: the paper's p
};

}  // namespace afterimage
