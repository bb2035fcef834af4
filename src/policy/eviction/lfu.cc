// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/lfu.h"

namespace afterimage {

void AgedLfu::insert(SlotId slot, const EntryFacts& /*facts*/) {
  order_.insert(slot, {.value = age_ + 1, .last_use = ++uses_});
}

void AgedLfu::touch(SlotId slot) {
  // A rank is age at insertion + uses so far. An old entry that is used again has earned today's
  // age.
  const std::uint64_t value = std::max(order_.rank(slot).value, age_) + 1;
  order_.raise(slot, {.value = value, .last_use = ++uses_});
}

void AgedLfu::erase(SlotId slot, RemovalReason why) {
  if (why == RemovalReason::kEvicted) age_ = std::max(age_, order_.rank(slot).value);
  order_.erase(slot);
}

}  // namespace afterimage
