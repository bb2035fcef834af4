// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/sieve.h"

namespace afterimage {

void Sieve::erase(SlotId slot, RemovalReason /*why*/) {
  if (hand_ == slot.index) hand_ = queue_.newer(hand_);
  queue_.erase(slot);
}

void Sieve::park(SlotId slot) {
  if (hand_ == slot.index) hand_ = queue_.newer(hand_);
  queue_.park(slot);
}

std::optional<SlotId> Sieve::victim() {
  while (queue_.oldest(0) != EntryQueues::kNone) {
    if (hand_ == EntryQueues::kNone) hand_ = queue_.oldest(0);
    EntryQueues::Notes& notes = queue_.notes(hand_);
    if (notes.uses == 0) return queue_.slot(hand_);
    notes.uses = 0;
    hand_ = queue_.newer(hand_);
  }
  return std::nullopt;
}

}  // namespace afterimage
