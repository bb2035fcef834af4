// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/hinted.h"

#include <algorithm>
#include <vector>

#include "afterimage/check.h"

namespace afterimage {
namespace {

std::uint64_t packed(SlotId slot) {
  return (static_cast<std::uint64_t>(slot.generation) << 32U) | slot.index;
}

SlotId unpacked(std::uint64_t packed) {
  return {.index = static_cast<std::uint32_t>(packed),
          .generation = static_cast<std::uint32_t>(packed >> 32U)};
}

/// The entry with the most steps; of equals, the lowest slot.
template <typename Set>
SlotId farthest(const Set& set) {
  const auto steps = set.rbegin()->first;
  return set.lower_bound({steps, SlotId{}})->second;
}

}  // namespace

bool HintedPolicy::is_soon(const Entry& entry) const {
  return entry.keep.has_value() || (entry.steps.has_value() && *entry.steps <= options_.soon);
}

bool HintedPolicy::listening() const { return armed() && wagers_.size() < options_.open_wagers; }

/// Inserts an entry into the order of its hint, unless its owner has parked it.
void HintedPolicy::place(SlotId slot, Entry& entry) {
  if (entry.parked) return;
  const std::uint32_t steps = entry.steps.value_or(0);
  if (is_soon(entry)) {
    soon_.insert({entry.keep.has_value() ? 0 : steps, slot});
  } else if (entry.steps.has_value()) {
    far_.insert({steps, slot});
  }
}

void HintedPolicy::unplace(SlotId slot, Entry& entry) {
  const std::uint32_t steps = entry.steps.value_or(0);
  far_.erase({steps, slot});
  soon_.erase({entry.keep.has_value() ? 0 : steps, slot});
  if (!entry.aside.has_value()) return;
  aside_.erase({*entry.aside, slot});
  entry.aside.reset();
  inner_->unpark(slot);
}

void HintedPolicy::expect(SlotId slot, std::uint32_t steps) {
  Entry& entry = entries_.at(packed(slot));
  unplace(slot, entry);
  entry.steps = steps;
  place(slot, entry);
}

void HintedPolicy::shared_by(SlotId slot, std::uint32_t parties) {
  parties > 1 ? expect(slot, 1) : forget_hint(slot);
}

void HintedPolicy::keep_until(SlotId slot, Duration until) {
  Entry& entry = entries_.at(packed(slot));
  unplace(slot, entry);
  entry.keep = until;
  place(slot, entry);
}

void HintedPolicy::forget_hint(SlotId slot) {
  Entry& entry = entries_.at(packed(slot));
  unplace(slot, entry);
  entry.steps.reset();
  entry.keep.reset();
}

void HintedPolicy::pass_time(Duration now) {
  std::vector<SlotId> over;
  for (const auto& [id, entry] : entries_) {
    if (entry.keep.has_value() && *entry.keep <= now) over.push_back(unpacked(id));
  }
  std::ranges::sort(over);
  for (const SlotId slot : over) {
    Entry& entry = entries_.at(packed(slot));
    unplace(slot, entry);
    entry.keep.reset();
    place(slot, entry);
  }
}

void HintedPolicy::name(SlotId slot, std::uint64_t key) { entries_.at(packed(slot)).key = key; }

void HintedPolicy::insert(SlotId slot, const EntryFacts& facts) {
  AFI_CHECK(entries_.emplace(packed(slot), Entry()).second);
  inner_->insert(slot, facts);
}

void HintedPolicy::split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
                         const EntryFacts& of_upper) {
  AFI_CHECK(entries_.emplace(packed(upper), Entry()).second);
  inner_->split(lower, of_lower, upper, of_upper);
}

void HintedPolicy::touch(SlotId slot) {
  Entry& entry = entries_.at(packed(slot));
  if (entry.aside.has_value()) {
    unplace(slot, entry);  // unpark it: the inner policy ranks it anew
    place(slot, entry);
  }
  inner_->touch(slot);
  const auto won = std::ranges::find(wagers_, slot, &Wager::spared);
  if (won == wagers_.end()) return;
  wagers_.erase(won);
  if (armed()) credits_ = std::min(credits_ + 1, options_.credits);
}

void HintedPolicy::erase(SlotId slot, RemovalReason why) {
  Entry& entry = entries_.at(packed(slot));
  if (why == RemovalReason::kEvicted && !entry.parked) {
    ++evictions_;
    const auto instead = inner_choice();
    if (instead.has_value() && *instead != slot && victim() == slot) {
      wagers_.push_back(
          {.key = entry.key, .spared = *instead, .void_at = evictions_ + entries_.size()});
    }
  }
  unplace(slot, entry);
  inner_->erase(slot, why);
  entries_.erase(packed(slot));
  std::erase_if(wagers_, [&](const Wager& wager) { return wager.void_at <= evictions_; });
}

void HintedPolicy::park(SlotId slot) {
  Entry& entry = entries_.at(packed(slot));
  AFI_CHECK(!entry.parked);
  unplace(slot, entry);
  entry.parked = true;
  inner_->park(slot);
}

void HintedPolicy::unpark(SlotId slot) {
  Entry& entry = entries_.at(packed(slot));
  AFI_CHECK(entry.parked);
  entry.parked = false;
  inner_->unpark(slot);
  place(slot, entry);
}

/// The victim of the inner policy without hints.
std::optional<SlotId> HintedPolicy::inner_choice() {
  if (!aside_.empty()) return aside_.begin()->second;
  return inner_->victim();
}

std::optional<SlotId> HintedPolicy::victim() {
  if (!listening()) return inner_choice();
  if (!far_.empty()) return farthest(far_);
  while (const auto inner = inner_->victim()) {
    Entry& entry = entries_.at(packed(*inner));
    if (!is_soon(entry)) return inner;
    entry.aside = ++named_;
    aside_.insert({*entry.aside, *inner});
    inner_->park(*inner);
  }
  if (!soon_.empty()) return farthest(soon_);
  return std::nullopt;
}

void HintedPolicy::missed(std::uint64_t key) {
  const auto lost = std::ranges::find(wagers_, std::optional(key), &Wager::key);
  if (lost == wagers_.end()) return;
  wagers_.erase(lost);
  if (armed()) --credits_;
}

}  // namespace afterimage
