// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "afterimage/memory_budget.h"
#include "afterimage/result.h"

namespace afterimage::python {

/// The memory budget of one cache, or of several that free memory in each other. Unlike a
/// SharedBudget alone, caches may join and leave at any time.
///
/// Threads  Any.
class BudgetPool {
  /// A client that stands for a cache, or for none. Its lock is taken before a cache's.
  struct Slot final : BudgetClient {
    std::optional<EvictionCandidate> eviction_candidate() override;
    Bytes evict_bytes(Bytes wanted) override;
    Bytes trim_to_budget() override;
    Bytes evict_idle(Duration since) override;
    void block_admission(bool block) override;

    std::shared_mutex mutex;
    BudgetClient* cache = nullptr;
    bool blocked = false;  // applied to a cache that joins later, too
  };

 public:
  static constexpr std::size_t kMostCaches = 64;

  explicit BudgetPool(Bytes capacity);

  /// A cache's place in the pool; dropping it takes the cache out. Requires that the caller holds
  /// no lock of the cache.
  class [[nodiscard]] Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
    Place& operator=(Place other) noexcept {
      std::swap(slot_, other.slot_);
      return *this;
    }
    ~Place();

   private:
    friend class BudgetPool;
    explicit Place(Slot* slot) : slot_(slot) {}
    Slot* slot_ = nullptr;
  };
  /// The cache outlives the place. kLimitExceeded: kMostCaches have joined.
  Result<Place> join(BudgetClient& cache);

  /// For a controller, which lowers the budget: one at a time. False: there is one already.
  [[nodiscard]] bool begin_control() { return !controlled_.exchange(true); }
  /// The controller is gone: its last decisions do not outlive it.
  void end_control() {
    budget_.set_capacity(capacity_);
    shared_.block_admission(false);
    controlled_ = false;
  }

  [[nodiscard]] MemoryBudget& budget() { return budget_; }
  [[nodiscard]] SharedBudget& shared() { return shared_; }

 private:
  const Bytes capacity_;
  std::atomic<bool> controlled_{false};
  MemoryBudget budget_;
  SharedBudget shared_{budget_};
  std::array<Slot, kMostCaches> slots_;  // all are clients of shared_
};

/// What Python passes as budget_bytes: bytes of this cache alone, or a SharedBudget.
struct CacheBudget {
  std::shared_ptr<BudgetPool> pool;
  bool is_shared = false;

  /// A shared budget may get a controller with idle limits: its caches keep times of use.
  [[nodiscard]] bool keeps_times() const { return is_shared; }
  [[nodiscard]] SharedBudget* shared() const { return is_shared ? &pool->shared() : nullptr; }
  /// An empty place if the budget is not shared.
  [[nodiscard]] Result<BudgetPool::Place> join(BudgetClient& cache) const {
    return is_shared ? pool->join(cache) : Result<BudgetPool::Place>();
  }
};
/// Raises TypeError for other objects.
CacheBudget budget_of(nanobind::handle object);

}  // namespace afterimage::python
