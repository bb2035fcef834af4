// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "afterimage/result.h"
#include "foundation/platform/huge_pages.h"

namespace afterimage {

/// Makes any policy evict leaves first: if the policy chooses an entry that has children
/// (EntryFacts::parent), a leaf below it is evicted instead, following the youngest children. So
/// the resident entries are always whole prefixes.
class PrefixClosed final : public EvictionPolicy {
 public:
  explicit PrefixClosed(std::unique_ptr<EvictionPolicy> policy) : policy_(std::move(policy)) {}

  [[nodiscard]] std::string_view name() const override { return policy_->name(); }
  void begin_request(const RequestFacts& facts) override { policy_->begin_request(facts); }
  void insert(SlotId slot, const EntryFacts& facts) override {
    Node& node = at(slot.index);
    node.generation = slot.generation;
    if (facts.parent.has_value()) link(slot.index, facts.parent->index);
    policy_->insert(slot, facts);
  }
  void touch(SlotId slot) override { policy_->touch(slot); }
  void split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
             const EntryFacts& of_upper) override {
    at(upper.index).generation = upper.generation;
    if (of_upper.parent.has_value()) link(upper.index, of_upper.parent->index);
    if (of_lower.parent.has_value()) {
      unlink_from_parent(lower.index);
      link(lower.index, of_lower.parent->index);
    }
    policy_->split(lower, of_lower, upper, of_upper);
  }
  void erase(SlotId slot, RemovalReason why) override {
    unlink(slot.index);
    policy_->erase(slot, why);
  }
  void park(SlotId slot) override {
    nodes_[slot.index].parked = true;
    policy_->park(slot);
  }
  void unpark(SlotId slot) override {
    nodes_[slot.index].parked = false;
    policy_->unpark(slot);
  }

  /// An entry with children is chosen only if all of them are parked: their users use it, too, so
  /// the owner will find it pinned and park it.
  [[nodiscard]] std::optional<SlotId> victim() override {
    auto victim = policy_->victim();
    if (!victim.has_value()) return victim;
    std::uint32_t index = victim->index;
    for (std::uint32_t below = index; below != kNone; below = free_child(index)) index = below;
    return SlotId{.index = index, .generation = nodes_[index].generation};
  }
  /// The worth of the inner policy's own choice: its descendants are evicted on its behalf.
  [[nodiscard]] std::optional<double> victim_worth() override { return policy_->victim_worth(); }
  [[nodiscard]] double victim_overuse() override { return policy_->victim_overuse(); }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Node {
    std::uint32_t generation = 0;
    std::uint32_t parent = kNone;
    std::uint32_t first_child = kNone;
    std::uint32_t older = kNone;  // siblings
    std::uint32_t younger = kNone;
    bool parked = false;
  };

  [[nodiscard]] std::uint32_t free_child(std::uint32_t index) const {
    std::uint32_t child = nodes_[index].first_child;
    while (child != kNone && nodes_[child].parked) child = nodes_[child].older;
    return child;
  }

  Node& at(std::uint32_t index) {
    if (index >= nodes_.size()) nodes_.resize(index + 1);
    return nodes_[index];
  }
  void link(std::uint32_t index, std::uint32_t parent) {
    Node& above = at(parent);
    Node& node = at(index);
    node.parent = parent;
    node.older = nodes_[parent].first_child;
    if (node.older != kNone) nodes_[node.older].younger = index;
    nodes_[parent].first_child = index;
    (void)above;
  }
  void unlink_from_parent(std::uint32_t index) {
    Node& node = nodes_[index];
    if (node.parent != kNone) {
      if (node.younger != kNone) nodes_[node.younger].older = node.older;
      if (node.older != kNone) nodes_[node.older].younger = node.younger;
      if (nodes_[node.parent].first_child == index) nodes_[node.parent].first_child = node.older;
    }
    node.parent = node.older = node.younger = kNone;
  }
  void unlink(std::uint32_t index) {
    unlink_from_parent(index);
    nodes_[index].parked = false;
  }

  std::unique_ptr<EvictionPolicy> policy_;
  std::vector<Node, HugePageAllocator<Node>> nodes_;
};

}  // namespace afterimage
