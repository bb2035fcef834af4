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
  std::optional<double> worth;  // EvictionPolicy::victim_worth
};

/// A cache that shares a memory budget with others.
///
/// Threads  Any; no call waits for another client.
class BudgetClient {
 public:
  virtual ~BudgetClient() = default;
  /// nullopt: nothing can be evicted.
  [[nodiscard]] virtual std::optional<NextToLeave> eviction_candidate() = 0;
  /// Evicts the entries of least worth until `wanted` bytes are freed. Returns the bytes freed.
  virtual Bytes evict_bytes(Bytes wanted) = 0;
  /// Evicts until the budget's use is within its capacity, regardless of floors.
  virtual Bytes trim_to_budget() = 0;
  /// While admission is blocked, nothing new is cached. Look-ups, erasing and eviction go on.
  virtual void block_admission(bool blocked) = 0;
};

/// One memory budget for several caches. Space is freed in the cache whose eviction candidate has
/// the least worth; if policies do not report a worth, in the cache that holds the most bytes.
///
/// Errors   None. If not enough can be freed, the caller's own reservation fails.
/// Threads  Any, once all clients have joined. This class takes no lock, and the caller must not
///          hold a client's lock.
/// Cost     One call to each client for every 4 MiB freed.
class SharedBudget {
 public:
  /// `budget` outlives this.
  explicit SharedBudget(MemoryBudget& budget) : budget_(budget) {}

  /// Call before any other method. The client outlives the last call.
  void join(BudgetClient& client) { clients_.push_back(&client); }

  /// Evicts until `bytes` more fit into the budget. A cache calls it before it reserves space for a
  /// new entry. Evicts nothing for an entry that is larger than the budget.
  void make_room(Bytes bytes);
  /// Evicts until the use is within the capacity; pinned entries stay. Returns the bytes freed.
  Bytes obey();
  void block_admission(bool blocked);

  [[nodiscard]] MemoryBudget& budget() const { return budget_; }

 private:
  template <typename Excess>
  Bytes evict_while(const Excess& excess);

  MemoryBudget& budget_;
  std::vector<BudgetClient*> clients_;
};

}  // namespace afterimage
