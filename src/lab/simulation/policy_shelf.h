// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "afterimage/memory_budget.h"

namespace afterimage {

/// What a simulated cache is told of one thing to keep.
struct ShelfEntry {
  std::uint64_t key = 0;
  Bytes bytes;
  Duration cost{0};
};

/// A cache without bytes: keys and sizes under a real policy, in a real budget that others may
/// share. As the caches do, it makes room first and then lets the newcomer in.
///
/// Threads  One.
/// Cost     About 60 bytes an entry, and the policy's.
class PolicyShelf final : public BudgetClient {
 public:
  /// `budget` and `shared` outlive the shelf; with `shared`, others make room, too.
  PolicyShelf(std::unique_ptr<EvictionPolicy> policy, MemoryBudget& budget,
              SharedBudget* shared = nullptr)
      : policy_(std::move(policy)), budget_(budget), shared_(shared) {}

  [[nodiscard]] bool holds(std::uint64_t key) const { return places_.contains(key); }
  [[nodiscard]] std::uint64_t entries() const { return places_.size(); }
  [[nodiscard]] Bytes resident() const { return resident_; }
  [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

  /// What is used from here on is one request's.
  void begin_request(const RequestFacts& facts) { policy_->begin_request(facts); }
  /// Requires holds(key).
  void touch(std::uint64_t key);
  /// Keeps what is not here yet, if it can be. True: it is new.
  bool keep(const ShelfEntry& entry);
  /// Keeps a prefix in pieces, each of which is useless without those before it; from the first
  /// piece on, as far as there is room. Those that are here already are used. Returns how many are
  /// new.
  std::size_t keep_chain(std::span<const ShelfEntry> chain);
  void clear();

  [[nodiscard]] std::optional<NextToLeave> eviction_candidate() override;
  Bytes evict_bytes(Bytes wanted) override;
  Bytes trim_to_budget() override { return Bytes(); }
  void block_admission(bool /*blocked*/) override {}

  /// Recounts everything; aborts where the books disagree.
  void check_invariants() const;

 private:
  struct Place {
    std::uint64_t key = 0;
    std::uint32_t generation = 0;
    Reservation room;
  };
  [[nodiscard]] SlotId slot(std::uint32_t place) const {
    return {.index = place, .generation = slots_[place].generation};
  }
  std::optional<Reservation> make_room(Bytes bytes);
  std::uint32_t take_place(std::uint64_t key, Reservation room);
  void leave(SlotId slot);

  std::unique_ptr<EvictionPolicy> policy_;
  MemoryBudget& budget_;
  SharedBudget* shared_;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> places_;
  std::vector<Place> slots_;
  std::vector<std::uint32_t> free_;
  Bytes resident_;
  std::uint64_t evictions_ = 0;
};

}  // namespace afterimage
