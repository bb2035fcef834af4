// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/eviction_policy.h"
#include "policy/eviction/entry_queues.h"

namespace afterimage {

/// SIEVE: one queue and a hand that walks from old to new. It skips each entry that was used since
/// its last visit and stops at the first that was not. Entries never move.
///
/// Source   Zhang et al., SIEVE is simpler than LRU, NSDI 2024.
class Sieve final : public EvictionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "sieve"; }
  void insert(SlotId slot, const EntryFacts& /*facts*/) override { queue_.insert(slot, 0, {}); }
  void touch(SlotId slot) override { queue_.notes(slot).uses = 1; }
  void erase(SlotId slot, RemovalReason why) override;
  void park(SlotId slot) override;
  void unpark(SlotId slot) override { queue_.unpark(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override;

 private:
  EntryQueues queue_;
  std::uint32_t hand_ = EntryQueues::kNone;  // kNone: at the oldest
};

}  // namespace afterimage
