// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>

#include "afterimage/memory_budget.h"

namespace afterimage {
namespace {

// Bytes evicted from one cache, under its lock, before all caches are compared again.
constexpr Bytes kSlice = 4_MiB;

/// Whether to evict `a` before `b`.
bool evict_before(const EvictionCandidate& a, const EvictionCandidate& b) {
  // Within their shares, tenants' entries compare by worth like all others.
  const double excess_a = std::max(a.overuse, 1.0);
  const double excess_b = std::max(b.overuse, 1.0);
  if (excess_a != excess_b) return excess_a > excess_b;
  if (a.worth.has_value() && b.worth.has_value() && *a.worth != *b.worth) {
    return *a.worth < *b.worth;
  }
  return a.resident > b.resident;
}

}  // namespace

template <typename Excess>
Bytes SharedBudget::evict_while(const Excess& excess) {
  Bytes total;
  for (Bytes left = excess(); left > 0_B; left = excess()) {
    BudgetClient* source = nullptr;
    EvictionCandidate cheapest;
    for (BudgetClient* client : clients_) {
      const auto next = client->eviction_candidate();
      if (!next.has_value() || (source != nullptr && !evict_before(*next, cheapest))) continue;
      source = client;
      cheapest = *next;
    }
    // Asking has freed what no request can use any more.
    const Bytes still = excess();
    total += sub_sat(left, still);
    if (source == nullptr || still == 0_B) break;
    const Bytes freed = source->evict_bytes(std::min(still, kSlice));
    // The candidate was taken by a concurrent caller, which has freed the space or will.
    if (freed == 0_B) break;
    total += freed;
  }
  return total;
}

void SharedBudget::make_room(Bytes bytes) {
  if (bytes > budget_.capacity()) return;
  evict_while([&] { return sub_sat(budget_.used(), sub_sat(budget_.capacity(), bytes)); });
}

Bytes SharedBudget::obey() {
  Bytes total = evict_while([&] { return sub_sat(budget_.used(), budget_.capacity()); });
  // Floors yield to the budget.
  for (BudgetClient* client : clients_) total += client->trim_to_budget();
  return total;
}

Bytes SharedBudget::evict_idle(Duration since) {
  Bytes total;
  for (BudgetClient* client : clients_) total += client->evict_idle(since);
  return total;
}

void SharedBudget::block_admission(bool blocked) {
  for (BudgetClient* client : clients_) client->block_admission(blocked);
}

}  // namespace afterimage
