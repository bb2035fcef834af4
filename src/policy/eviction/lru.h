// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/eviction_policy.h"
#include "policy/eviction/eviction_order.h"

namespace afterimage {

/// Least recently used: evicts the entry whose last use is longest ago.
class Lru final : public EvictionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "lru"; }
  void insert(SlotId slot, const EntryFacts& facts) override;
  void touch(SlotId slot) override;
  void erase(SlotId slot, RemovalReason /*why*/) override { order_.erase(slot); }
  void park(SlotId slot) override { order_.park(slot); }
  void unpark(SlotId slot) override { order_.unpark(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override { return order_.first(); }

 private:
  EvictionOrder order_;
  std::uint64_t uses_ = 0;  // time, counted in uses
};

}  // namespace afterimage
