// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "afterimage/check.h"
#include "afterimage/eviction_policy.h"
#include "foundation/platform/huge_pages.h"

namespace afterimage {

/// Any policy, made to take leaves first: where it names an entry that others stand on
/// (EntryFacts::parent), an entry without children below that one is named instead, the youngest
/// child's first. What is resident is therefore always a set of whole prefixes.
class PrefixClosed final : public EvictionPolicy {
 public:
  explicit PrefixClosed(std::unique_ptr<EvictionPolicy> policy) : policy_(std::move(policy)) {}

  [[nodiscard]] std::string_view name() const override { return policy_->name(); }
  void begin_request(const RequestFacts& facts) override { policy_->begin_request(facts); }
  void insert(SlotId slot, const EntryFacts& facts) override {
    Kin& kin = at(slot.index);
    kin.generation = slot.generation;
    if (facts.parent.has_value()) link(slot.index, facts.parent->index);
    policy_->insert(slot, facts);
  }
  void touch(SlotId slot) override { policy_->touch(slot); }
  void split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
             const EntryFacts& of_upper) override {
    at(upper.index).generation = upper.generation;
    if (of_upper.parent.has_value()) link(upper.index, of_upper.parent->index);
    if (of_lower.parent.has_value()) {
      leave_parent(lower.index);
      link(lower.index, of_lower.parent->index);
    }
    policy_->split(lower, of_lower, upper, of_upper);
  }
  void erase(SlotId slot, RemovalReason why) override {
    unlink(slot.index);
    policy_->erase(slot, why);
  }
  void park(SlotId slot) override {
    kin_[slot.index].parked = true;
    policy_->park(slot);
  }
  void unpark(SlotId slot) override {
    kin_[slot.index].parked = false;
    policy_->unpark(slot);
  }

  /// An entry is named in spite of those below it only if all of them are parked: whoever uses them
  /// uses it too, and will park it.
  [[nodiscard]] std::optional<SlotId> victim() override {
    auto victim = policy_->victim();
    if (!victim.has_value()) return victim;
    std::uint32_t index = victim->index;
    for (std::uint32_t below = index; below != kNobody; below = free_child(index)) index = below;
    return SlotId{.index = index, .generation = kin_[index].generation};
  }
  /// Of the entry that the policy itself would name: those on it leave for its sake.
  [[nodiscard]] std::optional<double> victim_worth() override { return policy_->victim_worth(); }

 private:
  static constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();
  struct Kin {
    std::uint32_t generation = 0;
    std::uint32_t parent = kNobody;
    std::uint32_t first_child = kNobody;
    std::uint32_t older = kNobody;  // siblings
    std::uint32_t younger = kNobody;
    bool parked = false;
  };

  [[nodiscard]] std::uint32_t free_child(std::uint32_t index) const {
    std::uint32_t child = kin_[index].first_child;
    while (child != kNobody && kin_[child].parked) child = kin_[child].older;
    return child;
  }

  Kin& at(std::uint32_t index) {
    if (index >= kin_.size()) kin_.resize(index + 1);
    return kin_[index];
  }
  void link(std::uint32_t index, std::uint32_t parent) {
    Kin& above = at(parent);
    Kin& kin = at(index);
    kin.parent = parent;
    kin.older = kin_[parent].first_child;
    if (kin.older != kNobody) kin_[kin.older].younger = index;
    kin_[parent].first_child = index;
    (void)above;
  }
  void leave_parent(std::uint32_t index) {
    Kin& kin = kin_[index];
    if (kin.parent != kNobody) {
      if (kin.younger != kNobody) kin_[kin.younger].older = kin.older;
      if (kin.older != kNobody) kin_[kin.older].younger = kin.younger;
      if (kin_[kin.parent].first_child == index) kin_[kin.parent].first_child = kin.older;
    }
    kin.parent = kin.older = kin.younger = kNobody;
  }
  void unlink(std::uint32_t index) {
    leave_parent(index);
    kin_[index].parked = false;
  }

  std::unique_ptr<EvictionPolicy> policy_;
  std::vector<Kin, HugePageAllocator<Kin>> kin_;
};

}  // namespace afterimage
