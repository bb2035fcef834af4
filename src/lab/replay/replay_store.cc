// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/replay/replay_store.h"

#include "afterimage/check.h"

namespace afterimage {

bool ReplayStore::hold(const Use& use) {
  Thing& thing = things_[use.id];
  if (thing.present) return false;
  thing = {.size = use.size, .generation = thing.generation + 1, .present = true};
  held_ += use.size;
  return true;
}

void ReplayStore::drop(std::uint32_t id) {
  AFI_CHECK(things_[id].present);
  things_[id].present = false;
  held_ -= things_[id].size;
  ++evictions_;
}

void PolicyStore::use(const Use& use) {
  if (!hold(use)) {
    policy_->touch({.index = use.id, .generation = thing(use.id).generation});
    return;
  }
  EntryFacts facts = use.facts;
  facts.key = std::uint64_t{use.id} + 1;
  if (use.parent.has_value()) {
    // The parent is used right after its child, so its current generation is the one it will have.
    const Thing& parent = thing(*use.parent);
    facts.parent =
        SlotId{.index = *use.parent, .generation = parent.generation + (parent.present ? 0U : 1U)};
  }
  policy_->insert({.index = use.id, .generation = thing(use.id).generation}, facts);
}

void PolicyStore::settle(std::uint64_t capacity) {
  while (held() > capacity) {
    const auto victim = policy_->victim();
    AFI_CHECK(victim.has_value());
    policy_->erase(*victim, RemovalReason::kEvicted);
    drop(victim->index);
  }
}

void MinStore::use(const Use& use) {
  hold(use);
  leaving_.emplace(use.next_use, use.depth, use.id);
}

void MinStore::settle(std::uint64_t capacity) {
  while (!leaving_.empty()) {
    const auto [next_use, depth, id] = leaving_.top();
    if (held() <= capacity && next_use != kNever) return;
    leaving_.pop();
    if (holds(id)) drop(id);
  }
}

}  // namespace afterimage
