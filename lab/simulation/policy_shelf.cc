// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/policy_shelf.h"

#include <algorithm>

#include "afterimage/result.h"

namespace afterimage {

void PolicyShelf::touch(std::uint64_t key) { policy_->touch(slot(places_.at(key))); }

bool PolicyShelf::insert(const ShelfEntry& entry) {
  if (const auto present = places_.find(entry.key); present != places_.end()) {
    policy_->touch(slot(present->second));
    return false;
  }
  auto room = reserve(entry.bytes);
  if (!room.has_value()) return false;
  const std::uint32_t place = add_entry(entry.key, *std::move(room));
  policy_->insert(slot(place), {.bytes = entry.bytes, .cost = entry.cost, .key = entry.key});
  return true;
}

std::size_t PolicyShelf::insert_chain(std::span<const ShelfEntry> chain) {
  std::size_t present = 0;
  while (present < chain.size() && holds(chain[present].key)) ++present;
  // Parked: the pieces that the new ones extend must not be evicted to make space for them.
  for (std::size_t i = 0; i < present; ++i) policy_->park(slot(places_.at(chain[i].key)));
  std::size_t end = present;
  std::vector<std::uint32_t> new_slots;
  for (; end < chain.size(); ++end) {
    auto room = reserve(chain[end].bytes);
    if (!room.has_value()) break;
    new_slots.push_back(add_entry(chain[end].key, *std::move(room)));
  }
  for (std::size_t i = end; i-- > present;) {
    const std::uint32_t parent = i == 0        ? 0
                                 : i > present ? new_slots[i - present - 1]
                                               : places_.at(chain[i - 1].key);
    policy_->insert(slot(new_slots[i - present]),
                    {.bytes = chain[i].bytes,
                     .cost = chain[i].cost,
                     .key = chain[i].key,
                     .parent = i == 0 ? std::nullopt : std::optional(slot(parent))});
  }
  for (std::size_t i = present; i-- > 0;) {
    policy_->unpark(slot(places_.at(chain[i].key)));
    policy_->touch(slot(places_.at(chain[i].key)));
  }
  return end - present;
}

void PolicyShelf::clear() {
  // In slot order, to be deterministic.
  for (std::uint32_t place = 0; place < slots_.size(); ++place) {
    const auto it = places_.find(slots_[place].key);
    if (it == places_.end() || it->second != place) continue;
    policy_->erase(slot(place), RemovalReason::kErased);
    remove(slot(place));
  }
}

std::optional<Reservation> PolicyShelf::reserve(Bytes bytes) {
  if (shared_ != nullptr) shared_->make_room(bytes);
  while (true) {
    auto room = budget_.reserve(bytes);
    if (room.has_value()) return *std::move(room);
    if (bytes > budget_.capacity()) return std::nullopt;
    if (evict_bytes(Bytes(1)) == 0_B) return std::nullopt;
  }
}

std::uint32_t PolicyShelf::add_entry(std::uint64_t key, Reservation room) {
  std::uint32_t place = static_cast<std::uint32_t>(slots_.size());
  if (free_.empty()) {
    slots_.emplace_back();
  } else {
    place = free_.back();
    free_.pop_back();
  }
  slots_[place].key = key;
  resident_ += room.bytes();
  slots_[place].room = std::move(room);
  AFI_CHECK(places_.emplace(key, place).second);
  return place;
}

void PolicyShelf::remove(SlotId slot) {
  Place& place = slots_[slot.index];
  AFI_CHECK(place.generation == slot.generation);
  places_.erase(place.key);
  resident_ -= place.room.bytes();
  place.room = Reservation();
  ++place.generation;
  free_.push_back(slot.index);
}

std::optional<EvictionCandidate> PolicyShelf::eviction_candidate() {
  if (!policy_->victim().has_value()) return std::nullopt;
  return EvictionCandidate{.resident = resident_, .worth = policy_->victim_worth()};
}

Bytes PolicyShelf::evict_bytes(Bytes wanted) {
  Bytes freed;
  while (freed < wanted) {
    const auto victim = policy_->victim();
    if (!victim.has_value()) break;
    freed += slots_[victim->index].room.bytes();
    policy_->erase(*victim, RemovalReason::kEvicted);
    remove(*victim);
    ++evictions_;
  }
  return freed;
}

void PolicyShelf::check_invariants() const {
  Bytes total;
  for (const auto& [key, place] : places_) {
    AFI_CHECK(slots_[place].key == key);
    total += slots_[place].room.bytes();
  }
  AFI_CHECK(total == resident_);
  AFI_CHECK(budget_.used() <= budget_.capacity());
  AFI_CHECK(places_.size() + free_.size() == slots_.size());
}

}  // namespace afterimage
