// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <vector>

#include "afterimage/units.h"
#include "storage/memory/budget.h"

namespace afterimage {

/// The cheapest entry that one cache could evict now.
struct NextToLeave {
  Bytes resident;               // of the whole cache
  std::optional<double> worth;  // as EvictionPolicy::victim_worth says
};

/// A cache that charges a budget which others charge, too.
///
/// Threads  Any; no call waits for another sharer.
class BudgetClient {
 public:
  virtual ~BudgetClient() = default;
  /// nullopt: nothing can leave.
  [[nodiscard]] virtual std::optional<NextToLeave> eviction_candidate() = 0;
  /// Evicts what is worth least until so many bytes are free again. Returns what was freed.
  virtual Bytes evict_bytes(Bytes wanted) = 0;
  /// Evicts until the budget's use is within its capacity, floors or no floors.
  virtual Bytes trim_to_budget() = 0;
  /// While it is blocked nothing new is kept. What is there is found, erased and evicted as ever.
  virtual void block_admission(bool blocked) = 0;
};

/// One memory for several caches: whoever needs room gets it from the cache whose next entry is
/// worth least, its own or another's. Where policies do not weigh, from the cache that holds most.
///
/// Errors   None. What cannot be freed stays, and whoever asked goes without.
/// Threads  Any, once all have joined. Nothing is locked here; no sharer is called with a lock of
///          its own held.
/// Cost     One look at each sharer for every 4 MiB freed.
class SharedBudget {
 public:
  /// `budget` outlives this.
  explicit SharedBudget(MemoryBudget& budget) : budget_(budget) {}

  /// Before anybody calls anything else; the sharer outlives the last call.
  void join(BudgetClient& sharer) { sharers_.push_back(&sharer); }

  /// Frees what lacks for so many bytes. For newcomers: asked before their cache makes room itself,
  /// which then finds it made. Nobody leaves for what is larger than the budget.
  void make_room(Bytes bytes);
  /// Evicts until no more is used than the capacity, but for what is pinned. Returns what was
  /// freed.
  Bytes obey();
  void block_admission(bool blocked);

  [[nodiscard]] MemoryBudget& budget() const { return budget_; }

 private:
  template <typename Excess>
  Bytes shed_while(const Excess& excess);

  MemoryBudget& budget_;
  std::vector<BudgetClient*> sharers_;
};

}  // namespace afterimage
