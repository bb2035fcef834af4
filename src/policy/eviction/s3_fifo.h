// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/eviction_policy.h"
#include "policy/eviction/entry_queues.h"
#include "policy/eviction/ghost_queue.h"

namespace afterimage {

/// S3-FIFO: a small queue for new entries (a tenth), a main queue for entries used more than once
/// in it or known from before, and the keys of entries evicted from the small one. The cache's size
/// is taken to be the current number of entries.
///
/// Source   Yang et al., FIFO queues are all you need for cache eviction, SOSP 2023.
class S3Fifo final : public EvictionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "s3-fifo"; }
  void insert(SlotId slot, const EntryFacts& facts) override;
  void touch(SlotId slot) override;
  void erase(SlotId slot, RemovalReason why) override;
  void park(SlotId slot) override { queues_.park(slot); }
  void unpark(SlotId slot) override { queues_.unpark(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override;

 private:
  EntryQueues queues_;
  GhostQueue ghosts_;
};

}  // namespace afterimage
