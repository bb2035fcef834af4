// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "afterimage/eviction_policy.h"
#include "policy/eviction/workflow_graph.h"

namespace afterimage {

/// A policy that applies hints about future use, around any other policy. It evicts entries hinted
/// to be used late or never first, the farthest first; then entries without a hint, in the inner
/// policy's order; then entries hinted to be used soon, again the farthest first.
///
/// Hints that do not pay off are ignored. An eviction for which the inner policy would have chosen
/// another entry is a wager: won if the spared entry is used first, lost if the victim is requested
/// first, void once the inner policy would have evicted the victim, too. Each loss takes a credit
/// and each win restores one; without credits, hints are ignored. At most `open_wagers` are open at
/// once. So wrong hints cost at most credits + open_wagers misses more than they save.
///
/// Threads  Not thread-safe. No clock: pass_time() ends keep_until().
/// Source   src/policy/eviction/DESIGN.md; the accounting follows placeholders in
///          application-controlled caching (Cao, Felten and Li, 1994).
class HintedPolicy final : public EvictionPolicy {
 public:
  struct Options {
    std::uint32_t soon = 4;  // entries expected within so many steps are spared
    std::uint32_t credits = 32;
    std::uint32_t open_wagers = 64;
  };
  HintedPolicy(std::unique_ptr<EvictionPolicy> inner, Options options)
      : inner_(std::move(inner)), options_(options), credits_(options.credits) {}

  // Hints. Each replaces the previous one; the entry must be present.

  /// The workflow expects the entry to be used again in so many steps.
  void expect(SlotId slot, std::uint32_t steps);
  void conversation_ends(SlotId slot) { expect(slot, NextUse::kNever); }
  void conversation_goes_on(SlotId slot) { expect(slot, 1); }
  /// Several parties share the entry, so it is expected to be used soon.
  void shared_by(SlotId slot, std::uint32_t parties);
  void keep_until(SlotId slot, Duration until);
  void forget_hint(SlotId slot);
  /// Ends every keep_until() that has expired at `now`.
  void pass_time(Duration now);

  /// Gives an entry a key, so that a later miss of it is recognised.
  void name(SlotId slot, std::uint64_t key);
  /// A request missed this key.
  void missed(std::uint64_t key);

  [[nodiscard]] bool armed() const { return credits_ > 0; }
  [[nodiscard]] std::uint32_t credits() const { return credits_; }

  [[nodiscard]] std::string_view name() const override { return "hinted"; }
  void begin_request(const RequestFacts& facts) override { inner_->begin_request(facts); }
  void insert(SlotId slot, const EntryFacts& facts) override;
  void touch(SlotId slot) override;
  void split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
             const EntryFacts& of_upper) override;
  void erase(SlotId slot, RemovalReason why) override;
  void park(SlotId slot) override;
  void unpark(SlotId slot) override;
  [[nodiscard]] std::optional<SlotId> victim() override;

 private:
  struct Entry {
    std::optional<std::uint32_t> steps;
    std::optional<Duration> keep;
    std::optional<std::uint64_t> key;
    bool parked = false;                 // by the owner
    std::optional<std::uint64_t> aside;  // parked by us: when the inner policy chose it
  };
  /// An open wager: an eviction caused by a hint.
  struct Wager {
    std::optional<std::uint64_t> key;
    SlotId spared;
    std::uint64_t void_at = 0;  // eviction count from which the wager is void
  };
  using Far = std::pair<std::uint32_t, SlotId>;  // steps, slot

  [[nodiscard]] bool is_soon(const Entry& entry) const;
  [[nodiscard]] bool listening() const;
  void place(SlotId slot, Entry& entry);
  void unplace(SlotId slot, Entry& entry);
  std::optional<SlotId> inner_choice();

  std::unique_ptr<EvictionPolicy> inner_;
  Options options_;
  std::uint32_t credits_;
  std::unordered_map<std::uint64_t, Entry> entries_;  // by slot, packed
  std::set<Far> far_;                                 // hinted late or never, not parked
  std::set<Far> soon_;  // hinted soon or kept, not parked by the owner
  // Entries of soon_ that the inner policy has chosen already, in that order; parked there.
  std::set<std::pair<std::uint64_t, SlotId>> aside_;
  std::deque<Wager> wagers_;
  std::uint64_t evictions_ = 0;
  std::uint64_t named_ = 0;
};

}  // namespace afterimage
