// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/gdsf.h"

#include <algorithm>
#include <bit>

namespace afterimage {

// Positive doubles compare like their bit patterns.
EvictionOrder::Rank Gdsf::rank(const Entry& entry) {
  return {.value = std::bit_cast<std::uint64_t>(age_ + entry.uses * entry.saves_per_byte),
          .last_use = ++uses_};
}

void Gdsf::insert(SlotId slot, const EntryFacts& facts) {
  if (slot.index >= entries_.size()) entries_.resize(slot.index + 1);
  Entry& entry = entries_[slot.index];
  const double cost = std::chrono::duration<double>(std::max(facts.cost, Duration(1))).count();
  const auto bytes = static_cast<double>(std::max<std::uint64_t>(facts.bytes.value(), 1));
  entry = {.saves_per_byte = cost / bytes, .uses = 1};
  order_.insert(slot, rank(entry));
}

void Gdsf::touch(SlotId slot) {
  Entry& entry = entries_[slot.index];
  entry.uses += 1;
  order_.raise(slot, rank(entry));
}

void Gdsf::erase(SlotId slot, RemovalReason why) {
  const auto left_at = std::bit_cast<double>(order_.rank(slot).value);
  if (why == RemovalReason::kEvicted) age_ = std::max(age_, left_at);
  order_.erase(slot);
}

}  // namespace afterimage
