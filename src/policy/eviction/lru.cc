// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/lru.h"

namespace afterimage {

void Lru::insert(SlotId slot, const EntryFacts& /*facts*/) {
  order_.insert(slot, {.value = 0, .last_use = ++uses_});
}

void Lru::touch(SlotId slot) { order_.raise(slot, {.value = 0, .last_use = ++uses_}); }

}  // namespace afterimage
