// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/eviction_policy.h"
#include "policy/eviction/eviction_order.h"

namespace afterimage {

/// Greedy dual size frequency: an entry's rank is uses × cost ÷ bytes, plus the rank of the last
/// victim. An unknown cost counts as one nanosecond.
///
/// Source   Cherkasova, Improving WWW proxies performance with greedy-dual-size-frequency caching
///          policy, HP Labs 1998.
class Gdsf final : public EvictionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "gdsf"; }
  void insert(SlotId slot, const EntryFacts& facts) override;
  void touch(SlotId slot) override;
  void erase(SlotId slot, RemovalReason why) override;
  void park(SlotId slot) override { order_.park(slot); }
  void unpark(SlotId slot) override { order_.unpark(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override { return order_.first(); }

 private:
  struct Entry {
    double saves_per_byte = 0;  // seconds per use
    double uses = 0;
  };
  [[nodiscard]] EvictionOrder::Rank rank(const Entry& entry);

  EvictionOrder order_;
  std::vector<Entry> entries_;  // by slot index
  std::uint64_t uses_ = 0;      // time, counted in uses
  double age_ = 0;              // the rank of the last victim
};

}  // namespace afterimage
