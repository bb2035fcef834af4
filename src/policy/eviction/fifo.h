// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/eviction_policy.h"
#include "policy/eviction/eviction_order.h"

namespace afterimage {

/// First in, first out: uses do not change the order.
class Fifo final : public EvictionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "fifo"; }
  void insert(SlotId slot, const EntryFacts& /*facts*/) override {
    order_.insert(slot, {.value = ++inserted_});
  }
  void touch(SlotId /*slot*/) override {}
  void erase(SlotId slot, RemovalReason /*why*/) override { order_.erase(slot); }
  void park(SlotId slot) override { order_.park(slot); }
  void unpark(SlotId slot) override { order_.unpark(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override { return order_.first(); }

 private:
  EvictionOrder order_;
  std::uint64_t inserted_ = 0;
};

}  // namespace afterimage
