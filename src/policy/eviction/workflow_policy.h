// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "policy/eviction/workflow_order.h"

namespace afterimage {

/// Evicts, of the owner whose entry the inner policy chooses, the entries of the step that comes last in
/// its workflow, the least recently used first. An entry that several steps use, or none, counts as
/// one step away.
///
/// Who has to give up an entry is the inner policy's choice alone, by the worth of its own victim: a
/// hint only names another entry of the same owner instead. So a hint can cost nobody else.
///
/// Hints that do not pay off are ignored: an eviction for a hint is a wager, won if the spared entry is
/// used first, lost if the victim returns first, void if the spared entry is removed. A loss takes a
/// credit, a win restores one, and so do a thousand entries of the owner. Without credits, or with
/// kOpenWagers open, the inner policy decides. So wrong hints cost an owner at most kCredits + kOpenWagers
/// entries more than they save, in a thousand.
///
/// Threads  Not thread-safe; the order is.
/// Source   src/policy/eviction/DESIGN.md; the accounting follows placeholders in
///          application-controlled caching (Cao, Felten and Li, 1994).
class WorkflowPolicy final : public EvictionPolicy {
 public:
  static constexpr std::uint32_t kCredits = 32;
  static constexpr std::uint32_t kOpenWagers = 64;
  static constexpr std::uint32_t kEntriesPerCredit = 1000;

  WorkflowPolicy(std::unique_ptr<EvictionPolicy> inner, std::shared_ptr<const WorkflowOrder> order)
      : inner_(std::move(inner)), order_(std::move(order)) {}

  [[nodiscard]] std::uint32_t credits(EntryLabel owner) const;

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  void begin_request(const RequestFacts& facts) override;
  void insert(SlotId slot, const EntryFacts& facts) override;
  void touch(SlotId slot) override;
  void split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
             const EntryFacts& of_upper) override;
  void erase(SlotId slot, RemovalReason why) override;
  void park(SlotId slot) override;
  void unpark(SlotId slot) override;
  [[nodiscard]] std::optional<SlotId> victim() override;
  [[nodiscard]] std::optional<double> victim_worth() override { return inner_->victim_worth(); }
  [[nodiscard]] double victim_overuse() override { return inner_->victim_overuse(); }
  [[nodiscard]] std::optional<SlotId> idle_victim(Duration since) override {
    return inner_->idle_victim(since);
  }

 private:
  using Slots = std::list<SlotId>;  // the least recently used first
  struct Entry {
    SlotId slot;
    EntryLabel owner;
    std::uint64_t key = 0;
    WorkflowStepId step = kNoStep;  // that made it
    bool used_by_several = false;
    bool parked = false;
    std::optional<Slots::iterator> in_step;  // not parked, and of one step
  };
  struct Wager {
    std::uint64_t victim = 0;  // key
    SlotId spared;
  };
  struct Account {
    std::uint32_t credits = kCredits;
    std::uint32_t entries = 0;  // inserted since the last credit for them
    std::vector<Wager> wagers;
  };
  struct Substitution {
    SlotId victim;
    SlotId spared;
  };

  Entry& at(SlotId slot);
  void link(Entry& entry);
  void unlink(Entry& entry);
  void returned(Account& account, const EntryFacts& facts);
  [[nodiscard]] std::optional<SlotId> farther_than(const Entry& spared) const;

  std::unique_ptr<EvictionPolicy> inner_;
  std::shared_ptr<const WorkflowOrder> order_;
  WorkflowStepId current_ = kNoStep;
  std::vector<Entry> entries_;  // by slot index
  std::unordered_map<WorkflowStepId, Slots> by_step_;
  std::map<EntryLabel, Account> accounts_;   // of owners that gave hints
  std::optional<Substitution> substituted_;  // by the last victim()
};

}  // namespace afterimage
