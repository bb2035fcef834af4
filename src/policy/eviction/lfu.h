// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/eviction_policy.h"
#include "policy/eviction/eviction_order.h"

namespace afterimage {

/// Least frequently used, with ageing: an entry's rank is its number of uses plus the rank of the
/// last victim. Popular entries survive a scan; formerly popular ones are overtaken as the victims'
/// rank rises (dynamic ageing, as in LFU-DA).
class AgedLfu final : public EvictionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "lfu"; }
  void insert(SlotId slot, const EntryFacts& facts) override;
  void touch(SlotId slot) override;
  void erase(SlotId slot, RemovalReason why) override;
  void park(SlotId slot) override { order_.park(slot); }
  void unpark(SlotId slot) override { order_.unpark(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override { return order_.first(); }

 private:
  EvictionOrder order_;
  std::uint64_t uses_ = 0;  // time, counted in uses
  std::uint64_t age_ = 0;   // the rank of the last victim
};

}  // namespace afterimage
