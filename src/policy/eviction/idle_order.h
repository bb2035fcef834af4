// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "afterimage/result.h"

namespace afterimage {

/// Adds idle_victim() to any policy: keeps the entries in the order of their last use, with its
/// time. The entries of a prefix come with the deepest first, so that leaves are the first victims.
///
/// Threads  Not thread-safe. No clock: the time of a use is that of the request that it belongs to.
/// Cost     A hit relinks one element of a list.
class IdleOrder final : public EvictionPolicy {
 public:
  explicit IdleOrder(std::unique_ptr<EvictionPolicy> inner) : inner_(std::move(inner)) {
    links_.emplace_back();  // the list's ends
    links_[0] = {.before = 0, .after = 0};
  }

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  void begin_request(const RequestFacts& facts) override {
    now_ = facts.now;
    inner_->begin_request(facts);
  }
  void insert(SlotId slot, const EntryFacts& facts) override {
    at(slot).generation = slot.generation;
    append(slot);
    inner_->insert(slot, facts);
  }
  void touch(SlotId slot) override {
    if (at(slot).linked()) {
      unlink(slot);
      append(slot);
    }
    inner_->touch(slot);
  }
  void split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
             const EntryFacts& of_upper) override {
    at(upper).generation = upper.generation;
    if (at(lower).linked()) {
      link_after(upper, place(lower), at(lower).used);
    } else {
      append(upper);
    }
    inner_->split(lower, of_lower, upper, of_upper);
  }
  void erase(SlotId slot, RemovalReason why) override {
    unlink(slot);
    inner_->erase(slot, why);
  }
  void park(SlotId slot) override {
    unlink(slot);
    inner_->park(slot);
  }
  /// The entry was in use until now.
  void unpark(SlotId slot) override {
    append(slot);
    inner_->unpark(slot);
  }
  [[nodiscard]] std::optional<SlotId> victim() override { return inner_->victim(); }
  [[nodiscard]] std::optional<double> victim_worth() override { return inner_->victim_worth(); }
  [[nodiscard]] double victim_overuse() override { return inner_->victim_overuse(); }
  [[nodiscard]] std::optional<SlotId> idle_victim(Duration since) override {
    const std::uint32_t oldest = links_[0].after;
    if (oldest == 0 || links_[oldest].used >= since) return std::nullopt;
    return SlotId{.index = oldest - 1, .generation = links_[oldest].generation};
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  /// Of the entry in slot i at i + 1; 0 is both ends.
  struct Link {
    std::uint32_t before = kNone;
    std::uint32_t after = kNone;
    std::uint32_t generation = 0;
    Duration used{0};
    [[nodiscard]] bool linked() const { return before != kNone; }
  };

  static std::uint32_t place(SlotId slot) { return slot.index + 1; }
  Link& at(SlotId slot) {
    if (place(slot) >= links_.size()) links_.resize(std::size_t{place(slot)} + 1);
    return links_[place(slot)];
  }
  void append(SlotId slot) { link_after(slot, links_[0].before, now_); }
  void link_after(SlotId slot, std::uint32_t before, Duration used) {
    Link& link = at(slot);
    AFI_CHECK(!link.linked());
    link.used = used;
    link.before = before;
    link.after = links_[before].after;
    links_[link.after].before = place(slot);
    links_[before].after = place(slot);
  }
  void unlink(SlotId slot) {
    Link& link = at(slot);
    if (!link.linked()) return;
    links_[link.before].after = link.after;
    links_[link.after].before = link.before;
    link.before = link.after = kNone;
  }

  std::unique_ptr<EvictionPolicy> inner_;
  std::vector<Link> links_;
  Duration now_{0};
};

}  // namespace afterimage
