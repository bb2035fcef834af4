// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/replay/replay_store.h"

#include "afterimage/result.h"

namespace afterimage {

bool ReplayStore::insert(const Use& use) {
  StoredEntry& entry = entries_[use.id];
  if (entry.present) return false;
  entry = {.size = use.size, .generation = entry.generation + 1, .present = true};
  held_ += use.size;
  return true;
}

void ReplayStore::erase(std::uint32_t id) {
  AFI_CHECK(entries_[id].present);
  entries_[id].present = false;
  held_ -= entries_[id].size;
  ++evictions_;
}

void PolicyStore::use(const Use& use) {
  if (!insert(use)) {
    policy_->touch({.index = use.id, .generation = entry(use.id).generation});
    return;
  }
  EntryFacts facts = use.facts;
  facts.key = std::uint64_t{use.id} + 1;
  if (use.parent.has_value()) {
    // The parent is used right after its child, so its current generation is the one it will have.
    const StoredEntry& parent = entry(*use.parent);
    facts.parent =
        SlotId{.index = *use.parent, .generation = parent.generation + (parent.present ? 0U : 1U)};
  }
  policy_->insert({.index = use.id, .generation = entry(use.id).generation}, facts);
}

void PolicyStore::settle(std::uint64_t capacity) {
  while (held() > capacity) {
    const auto victim = policy_->victim();
    AFI_CHECK(victim.has_value());
    policy_->erase(*victim, RemovalReason::kEvicted);
    erase(victim->index);
  }
}

void MinStore::use(const Use& use) {
  insert(use);
  leaving_.emplace(use.next_use, use.depth, use.id);
}

void MinStore::settle(std::uint64_t capacity) {
  while (!leaving_.empty()) {
    const auto [next_use, depth, id] = leaving_.top();
    if (held() <= capacity && next_use != kNever) return;
    leaving_.pop();
    if (holds(id)) erase(id);
  }
}

}  // namespace afterimage
