// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/tenant_policy.h"

#include <utility>

#include "afterimage/result.h"

namespace afterimage {

TenantPolicy::TenantPolicy(std::shared_ptr<MemoryShares> shares, const MakePolicy& make_inner)
    : shares_(std::move(shares)) {
  for (std::size_t group = 0; group < shares_->groups(); ++group) inner_.push_back(make_inner());
}

TenantPolicy::~TenantPolicy() {
  for (const Entry& entry : entries_) shares_->subtract(entry.group, entry.bytes);
}

TenantPolicy::Entry& TenantPolicy::at(SlotId slot) {
  AFI_CHECK(slot.index < entries_.size());
  return entries_[slot.index];
}

void TenantPolicy::hold(SlotId slot, std::size_t group, Bytes bytes) {
  if (slot.index >= entries_.size()) entries_.resize(slot.index + 1);
  entries_[slot.index] = {.group = group, .bytes = bytes};
  shares_->add(group, bytes);
}

void TenantPolicy::begin_request(const RequestFacts& facts) {
  // Also those that the request does not use: their entries age.
  for (const auto& policy : inner_) policy->begin_request(facts);
}

void TenantPolicy::insert(SlotId slot, const EntryFacts& facts) {
  const std::size_t group = shares_->group_of(facts.owner);
  hold(slot, group, facts.bytes);
  inner_[group]->insert(slot, facts);
}

void TenantPolicy::split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
                         const EntryFacts& of_upper) {
  const std::size_t group = at(lower).group;
  shares_->subtract(group, at(lower).bytes);
  hold(lower, group, of_lower.bytes);
  hold(upper, group, of_upper.bytes);
  inner_[group]->split(lower, of_lower, upper, of_upper);
}

void TenantPolicy::erase(SlotId slot, RemovalReason why) {
  Entry& entry = at(slot);
  inner_[entry.group]->erase(slot, why);
  shares_->subtract(entry.group, entry.bytes);
  entry = {};
}

std::optional<TenantPolicy::Choice> TenantPolicy::choose() {
  std::optional<Choice> chosen;
  double most = -1;
  for (std::size_t group = 0; group < inner_.size(); ++group) {
    const double overuse = shares_->overuse(group);
    if (overuse <= most) continue;
    const auto victim = inner_[group]->victim();
    if (!victim.has_value()) continue;
    chosen = Choice{.group = group, .victim = *victim};
    most = overuse;
  }
  return chosen;
}

std::optional<SlotId> TenantPolicy::victim() {
  const auto chosen = choose();
  return chosen.has_value() ? std::optional(chosen->victim) : std::nullopt;
}

std::optional<double> TenantPolicy::victim_worth() {
  const auto chosen = choose();
  return chosen.has_value() ? inner_[chosen->group]->victim_worth() : std::nullopt;
}

double TenantPolicy::victim_overuse() {
  const auto chosen = choose();
  return chosen.has_value() ? shares_->overuse(chosen->group) : 0;
}

}  // namespace afterimage
