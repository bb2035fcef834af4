// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "budget_pool.h"

#include <mutex>
#include <string>

namespace afterimage::python {

std::optional<EvictionCandidate> BudgetPool::Slot::eviction_candidate() {
  const std::shared_lock lock(mutex);
  return cache == nullptr ? std::nullopt : cache->eviction_candidate();
}

Bytes BudgetPool::Slot::evict_bytes(Bytes wanted) {
  const std::shared_lock lock(mutex);
  return cache == nullptr ? 0_B : cache->evict_bytes(wanted);
}

Bytes BudgetPool::Slot::trim_to_budget() {
  const std::shared_lock lock(mutex);
  return cache == nullptr ? 0_B : cache->trim_to_budget();
}

Bytes BudgetPool::Slot::evict_idle(Duration since) {
  const std::shared_lock lock(mutex);
  return cache == nullptr ? 0_B : cache->evict_idle(since);
}

void BudgetPool::Slot::block_admission(bool block) {
  const std::unique_lock lock(mutex);
  blocked = block;
  if (cache != nullptr) cache->block_admission(block);
}

BudgetPool::Place::~Place() {
  if (slot_ == nullptr) return;
  const std::unique_lock lock(slot_->mutex);
  slot_->cache = nullptr;
}

BudgetPool::BudgetPool(Bytes capacity) : capacity_(capacity), budget_(capacity) {
  for (Slot& slot : slots_) shared_.join(slot);
}

Result<BudgetPool::Place> BudgetPool::join(BudgetClient& cache) {
  for (Slot& slot : slots_) {
    const std::unique_lock lock(slot.mutex);
    if (slot.cache != nullptr) continue;
    slot.cache = &cache;
    if (slot.blocked) cache.block_admission(true);
    return Place(&slot);
  }
  return fail(ErrorCode::kLimitExceeded, "expected at most " + std::to_string(kMostCaches) +
                                             " caches in one SharedBudget: close one, or give "
                                             "this one a budget of its own");
}

}  // namespace afterimage::python
