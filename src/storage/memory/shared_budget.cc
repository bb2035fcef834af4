// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>

#include "afterimage/memory_budget.h"

namespace afterimage {
namespace {

// What leaves from one cache before all are compared again. A cache's lock is held as long.
constexpr Bytes kSlice = 4_MiB;

/// Does `a` leave before `b`?
bool leaves_first(const NextToLeave& a, const NextToLeave& b) {
  if (a.worth.has_value() && b.worth.has_value() && *a.worth != *b.worth) {
    return *a.worth < *b.worth;
  }
  return a.resident > b.resident;
}

}  // namespace

template <typename Excess>
Bytes SharedBudget::shed_while(const Excess& excess) {
  Bytes gone;
  for (Bytes left = excess(); left > 0_B; left = excess()) {
    BudgetClient* gives = nullptr;
    NextToLeave least;
    for (BudgetClient* sharer : sharers_) {
      const auto next = sharer->eviction_candidate();
      if (!next.has_value() || (gives != nullptr && !leaves_first(*next, least))) continue;
      gives = sharer;
      least = *next;
    }
    if (gives == nullptr) break;
    const Bytes freed = gives->evict_bytes(std::min(left, kSlice));
    // Whoever could give and did not was asked by others meanwhile, who have made the room or will.
    if (freed == 0_B) break;
    gone += freed;
  }
  return gone;
}

void SharedBudget::make_room(Bytes bytes) {
  if (bytes > budget_.capacity()) return;
  shed_while([&] { return sub_sat(budget_.used(), sub_sat(budget_.capacity(), bytes)); });
}

Bytes SharedBudget::obey() {
  Bytes gone = shed_while([&] { return sub_sat(budget_.used(), budget_.capacity()); });
  // Floors yield to the budget.
  for (BudgetClient* sharer : sharers_) gone += sharer->trim_to_budget();
  return gone;
}

void SharedBudget::block_admission(bool blocked) {
  for (BudgetClient* sharer : sharers_) sharer->block_admission(blocked);
}

}  // namespace afterimage
