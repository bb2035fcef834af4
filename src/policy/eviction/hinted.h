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

/// A policy that listens to hints, around any other. Entries hinted to be used late or never leave
/// first, the farthest first; then those without a hint, as the inner policy says; entries hinted
/// to be used soon leave last, again the farthest first.
///
/// A hint is a claim and is made to pay for itself. An eviction for which the inner policy would
/// have named another is a wager: won when the entry that was spared is used first, lost when the
/// victim is asked for first, void when the inner policy would have evicted the victim too by now.
/// Each loss takes a credit and each win gives one back; without credits, hints are not listened to
/// any more. At most `open_wagers` run at once. Wrong hints therefore cost at most credits +
/// open_wagers misses more than they save.
///
/// Threads  Not thread-safe. No clock: keep_until() is lifted by pass_time().
/// Source   src/residency/DESIGN.md; the accounting follows placeholders in application-controlled
///          caching (Cao, Felten and Li, 1994).
class HintedPolicy final : public EvictionPolicy {
 public:
  struct Options {
    std::uint32_t soon = 4;  // expected within so many steps: spared
    std::uint32_t credits = 32;
    std::uint32_t open_wagers = 64;
  };
  HintedPolicy(std::unique_ptr<EvictionPolicy> inner, Options options)
      : inner_(std::move(inner)), options_(options), credits_(options.credits) {}

  // Hints. Each replaces the one before; all are about entries that are there.

  /// The workflow's word: used again in so many steps.
  void expect(SlotId slot, std::uint32_t steps);
  void conversation_ends(SlotId slot) { expect(slot, NextUse::kNever); }
  void conversation_goes_on(SlotId slot) { expect(slot, 1); }
  /// Several parties hold on to it: one more use is never far.
  void shared_by(SlotId slot, std::uint32_t parties);
  void keep_until(SlotId slot, Duration until);
  void forget_hint(SlotId slot);
  /// Lifts what was to be kept until now.
  void pass_time(Duration now);

  /// Names an entry beyond its slot, so that its return is recognised.
  void name(SlotId slot, std::uint64_t key);
  /// Somebody asked for this and it was not there.
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
    std::optional<std::uint64_t> aside;  // by us: when the inner policy named it
  };
  /// An eviction that a hint has made, waiting to be judged.
  struct Wager {
    std::optional<std::uint64_t> key;
    SlotId spared;
    std::uint64_t void_at = 0;  // evictions after which the inner policy would have done it too
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
  // Of soon_, those that the inner policy has named already, in that order; parked there.
  std::set<std::pair<std::uint64_t, SlotId>> aside_;
  std::deque<Wager> wagers_;
  std::uint64_t evictions_ = 0;
  std::uint64_t named_ = 0;
};

}  // namespace afterimage
