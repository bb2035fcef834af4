// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "policy/eviction/memory_shares.h"

namespace afterimage {

/// Gives tenants shares of the memory: a policy of its own for each owner with a share, and one for
/// all others. The victim comes from the owner that exceeds its share the most, in all caches that
/// the shares are counted over. So a share that is not used serves others, what an owner holds
/// within its share is not evicted for them, and when the budget shrinks, all shares shrink alike.
///
/// An entry belongs to the owner of its parent's group: entries of one prefix tree have one owner.
///
/// Threads  Not thread-safe; the shares are, and other caches change them.
/// Cost     One step for each owner with a share at a victim and at a request; a hit pays one
///          look-up by slot.
/// Source   src/policy/eviction/DESIGN.md.
class TenantPolicy final : public EvictionPolicy {
 public:
  using MakePolicy = std::function<std::unique_ptr<EvictionPolicy>()>;
  TenantPolicy(std::shared_ptr<MemoryShares> shares, const MakePolicy& make_inner);
  /// Gives back what its entries hold of the shares.
  ~TenantPolicy() override;
  TenantPolicy(const TenantPolicy&) = delete;
  TenantPolicy& operator=(const TenantPolicy&) = delete;

  [[nodiscard]] std::string_view name() const override { return inner_.front()->name(); }
  void begin_request(const RequestFacts& facts) override;
  void insert(SlotId slot, const EntryFacts& facts) override;
  void touch(SlotId slot) override { policy_of(slot).touch(slot); }
  void split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
             const EntryFacts& of_upper) override;
  void erase(SlotId slot, RemovalReason why) override;
  void park(SlotId slot) override { policy_of(slot).park(slot); }
  void unpark(SlotId slot) override { policy_of(slot).unpark(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override;
  [[nodiscard]] std::optional<double> victim_worth() override;
  [[nodiscard]] double victim_overuse() override;

 private:
  struct Entry {
    std::size_t group = 0;
    Bytes bytes;
  };
  struct Choice {
    std::size_t group = 0;
    SlotId victim;
  };

  Entry& at(SlotId slot);
  EvictionPolicy& policy_of(SlotId slot) { return *inner_[at(slot).group]; }
  void hold(SlotId slot, std::size_t group, Bytes bytes);
  /// The group that exceeds its share the most, of those with a victim.
  [[nodiscard]] std::optional<Choice> choose();

  std::shared_ptr<MemoryShares> shares_;
  std::vector<std::unique_ptr<EvictionPolicy>> inner_;  // by group
  std::vector<Entry> entries_;                          // by slot index
};

}  // namespace afterimage
