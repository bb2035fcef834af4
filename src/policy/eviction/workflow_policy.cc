// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/workflow_policy.h"

#include <algorithm>

#include "afterimage/result.h"

namespace afterimage {
namespace {

// How far away an entry without a hint is: a step that is not the next gives way to it.
constexpr std::uint32_t kUnknown = 1;

}  // namespace

WorkflowPolicy::Entry& WorkflowPolicy::at(SlotId slot) {
  AFI_CHECK(slot.index < entries_.size() && entries_[slot.index].slot == slot);
  return entries_[slot.index];
}

std::uint32_t WorkflowPolicy::credits(EntryLabel owner) const {
  const auto found = accounts_.find(owner);
  return found == accounts_.end() ? kCredits : found->second.credits;
}

void WorkflowPolicy::begin_request(const RequestFacts& facts) {
  current_ = facts.step;
  inner_->begin_request(facts);
}

void WorkflowPolicy::link(Entry& entry) {
  if (entry.parked || entry.used_by_several || entry.step == kNoStep) return;
  Slots& slots = by_step_[entry.step];
  entry.in_step = slots.insert(slots.end(), entry.slot);
}

void WorkflowPolicy::unlink(Entry& entry) {
  if (!entry.in_step.has_value()) return;
  const auto slots = by_step_.find(entry.step);
  slots->second.erase(*entry.in_step);
  entry.in_step.reset();
  if (slots->second.empty()) by_step_.erase(slots);
}

void WorkflowPolicy::returned(Account& account, const EntryFacts& facts) {
  if (++account.entries % kEntriesPerCredit == 0) {
    account.credits = std::min(account.credits + 1, kCredits);
  }
  const auto lost = [&](const Wager& wager) {
    return wager.victim != 0 &&
           (wager.victim == facts.key ||
            std::ranges::find(facts.contains, wager.victim) != facts.contains.end());
  };
  const auto losses = static_cast<std::uint32_t>(std::erase_if(account.wagers, lost));
  account.credits -= std::min(account.credits, losses);
}

void WorkflowPolicy::insert(SlotId slot, const EntryFacts& facts) {
  if (slot.index >= entries_.size()) entries_.resize(std::size_t{slot.index} + 1);
  Entry& entry = entries_[slot.index];
  entry = {.slot = slot, .owner = facts.owner, .key = facts.key, .step = current_};
  if (const auto account = accounts_.find(facts.owner); account != accounts_.end()) {
    returned(account->second, facts);
  } else if (current_ != kNoStep && accounts_.size() < WorkflowOrder::kMaxOwners) {
    accounts_.try_emplace(facts.owner);
  }
  link(entry);
  inner_->insert(slot, facts);
}

void WorkflowPolicy::touch(SlotId slot) {
  Entry& entry = at(slot);
  entry.used_by_several = entry.used_by_several || entry.step != current_;
  if (entry.step != kNoStep) {
    unlink(entry);
    link(entry);
  }
  inner_->touch(slot);
  const auto account = accounts_.find(entry.owner);
  if (account == accounts_.end()) return;
  std::vector<Wager>& wagers = account->second.wagers;
  const auto won = std::ranges::find(wagers, slot, &Wager::spared);
  if (won == wagers.end()) return;
  wagers.erase(won);
  account->second.credits = std::min(account->second.credits + 1, kCredits);
  // Of several victims for one spared entry, the others were evicted for those that came next.
  const auto next = inner_->victim();
  for (Wager& wager : wagers) {
    if (wager.spared == slot) wager.spared = next.value_or(slot);
  }
  std::erase_if(wagers, [&](const Wager& wager) {
    return wager.spared == slot || entries_[wager.spared.index].slot != wager.spared;
  });
}

void WorkflowPolicy::split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
                           const EntryFacts& of_upper) {
  if (upper.index >= entries_.size()) entries_.resize(std::size_t{upper.index} + 1);
  Entry& above = entries_[upper.index];
  above = at(lower);
  above.slot = upper;
  above.key = of_upper.key;
  above.parked = false;
  above.in_step.reset();
  link(above);
  inner_->split(lower, of_lower, upper, of_upper);
}

void WorkflowPolicy::erase(SlotId slot, RemovalReason why) {
  Entry& entry = at(slot);
  unlink(entry);
  const auto account = accounts_.find(entry.owner);
  if (account != accounts_.end()) {
    std::vector<Wager>& wagers = account->second.wagers;
    std::erase_if(wagers, [slot](const Wager& wager) { return wager.spared == slot; });
    if (why == RemovalReason::kEvicted && substituted_.has_value() &&
        substituted_->victim == slot) {
      wagers.push_back({.victim = entry.key, .spared = substituted_->spared});
    }
  }
  substituted_.reset();
  entry = {};
  inner_->erase(slot, why);
}

void WorkflowPolicy::park(SlotId slot) {
  Entry& entry = at(slot);
  AFI_CHECK(!entry.parked);
  unlink(entry);
  entry.parked = true;
  inner_->park(slot);
}

void WorkflowPolicy::unpark(SlotId slot) {
  Entry& entry = at(slot);
  AFI_CHECK(entry.parked);
  entry.parked = false;
  link(entry);
  inner_->unpark(slot);
}

/// An entry of the same owner that is used later than this one, if its hints are trusted.
std::optional<SlotId> WorkflowPolicy::farther_than(const Entry& spared) const {
  const auto account = accounts_.find(spared.owner);
  if (account == accounts_.end() || account->second.credits == 0 ||
      account->second.wagers.size() >= kOpenWagers) {
    return std::nullopt;
  }
  const auto distances = order_->farthest_first(spared.owner);
  if (distances == nullptr) return std::nullopt;
  std::uint32_t of_spared = kUnknown;
  if (!spared.used_by_several && spared.step != kNoStep) {
    const auto known = std::ranges::find(*distances, spared.step, &StepDistance::step);
    if (known != distances->end()) of_spared = known->steps;
  }
  for (const StepDistance& step : *distances) {
    if (step.steps <= of_spared) break;
    const auto slots = by_step_.find(step.step);
    if (slots == by_step_.end()) continue;
    // The step's entries are the owner's, unless a group of tenants shares them.
    const auto own = std::ranges::find_if(
        slots->second, [&](SlotId slot) { return entries_[slot.index].owner == spared.owner; });
    if (own != slots->second.end()) return *own;
  }
  return std::nullopt;
}

std::optional<SlotId> WorkflowPolicy::victim() {
  substituted_.reset();
  const auto chosen = inner_->victim();
  if (!chosen.has_value() || by_step_.empty()) return chosen;
  const auto instead = farther_than(at(*chosen));
  if (!instead.has_value()) return chosen;
  substituted_ = {.victim = *instead, .spared = *chosen};
  return instead;
}

}  // namespace afterimage
