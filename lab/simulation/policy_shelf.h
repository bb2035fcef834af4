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

/// An entry to insert into a simulated cache.
struct ShelfEntry {
  std::uint64_t key = 0;
  Bytes bytes;
  Duration cost{0};
};

/// A cache without bytes: keys and sizes under a real eviction policy, in a real budget that other
/// caches may share. As the real caches do, it evicts first and then inserts.
///
/// Threads  One.
/// Cost     About 60 bytes per entry, plus the policy's state.
class PolicyShelf final : public BudgetClient {
 public:
  /// `budget` and `shared` outlive the shelf; with `shared`, other caches may be evicted from too.
  PolicyShelf(std::unique_ptr<EvictionPolicy> policy, MemoryBudget& budget,
              SharedBudget* shared = nullptr)
      : policy_(std::move(policy)), budget_(budget), shared_(shared) {}

  [[nodiscard]] bool holds(std::uint64_t key) const { return places_.contains(key); }
  [[nodiscard]] std::uint64_t entries() const { return places_.size(); }
  [[nodiscard]] Bytes resident() const { return resident_; }
  [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

  /// Subsequent uses belong to this request.
  void begin_request(const RequestFacts& facts) { policy_->begin_request(facts); }
  /// Requires holds(key).
  void touch(std::uint64_t key);
  /// Inserts an entry that is not present, if it fits. True: it was inserted.
  bool insert(const ShelfEntry& entry);
  /// Inserts a prefix as a chain of pieces, each of which is useless without those before it, from
  /// the first piece on as far as they fit. Pieces already present are touched. Returns the number
  /// of new pieces.
  std::size_t insert_chain(std::span<const ShelfEntry> chain);
  void clear();

  [[nodiscard]] std::optional<EvictionCandidate> eviction_candidate() override;
  Bytes evict_bytes(Bytes wanted) override;
  Bytes trim_to_budget() override { return Bytes(); }
  void block_admission(bool /*blocked*/) override {}

  /// Recounts everything; aborts on an inconsistency.
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
  std::optional<Reservation> reserve(Bytes bytes);
  std::uint32_t add_entry(std::uint64_t key, Reservation room);
  void remove(SlotId slot);

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
