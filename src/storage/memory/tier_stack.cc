// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/tier_stack.h"

#include <algorithm>
#include <utility>

#include "afterimage/check.h"

namespace afterimage {

TierStack::TierStack(std::vector<Tier*> nearest_first, Keys keys)
    : tiers_(std::move(nearest_first)), keys_(keys) {
  AFI_CHECK(!tiers_.empty());
}

Result<void> TierStack::put(const TierKey& key, const EntryMeta& meta,
                            std::span<const std::byte> bytes) {
  Result<void> refused;
  bool taken = false;
  if (keys_ == Keys::kAreReplaced) {
    // A concurrent read from a farther tier returns the old value and must not promote it.
    Stripe& stripe = stripe_of(key);
    const MutexLock lock(stripe.mutex);
    ++stripe.erasures;
  }
  for (Tier* const tier : tiers_) {
    const auto done = tier->put(key, meta, bytes);
    if (!done.has_value() && keys_ == Keys::kAreReplaced) static_cast<void>(tier->erase(key));
    taken |= done.has_value();
    if (!done.has_value() && refused.has_value()) refused = done;
  }
  const MutexLock lock(mutex_);
  ++(taken ? stats_.puts : stats_.refused);
  return taken ? Result<void>() : refused;
}

void TierStack::count(const Result<std::optional<TierEntry>>& found) {
  // A get that failed for lack of memory is neither a hit nor a miss.
  if (!found.has_value()) return;
  const MutexLock lock(mutex_);
  ++(found->has_value() ? stats_.hits : stats_.misses);
}

std::uint64_t TierStack::erasures(const TierKey& key) {
  Stripe& stripe = stripe_of(key);
  const MutexLock lock(stripe.mutex);
  return stripe.erasures;
}

void TierStack::promote(std::size_t tier, const TierKey& key, const TierEntry& entry,
                        std::uint64_t erasures) {
  Stripe& stripe = stripe_of(key);
  const MutexLock lock(stripe.mutex);
  // Otherwise an entry erased during the read would come back.
  if (stripe.erasures != erasures) return;
  for (std::size_t nearer = 0; nearer < tier; ++nearer) {
    static_cast<void>(tiers_[nearer]->put(key, entry.meta, entry.bytes));
  }
}

Result<std::optional<TierEntry>> TierStack::find_and_promote(const TierKey& key,
                                                             MemoryBudget& room) {
  Result<std::optional<TierEntry>> refused = std::nullopt;
  const std::uint64_t before = erasures(key);
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    auto found = tiers_[i]->get(key, room);
    if (!found.has_value()) refused = std::move(found);
    if (!found.has_value() || !found->has_value()) continue;
    promote(i, key, **found, before);
    return found;
  }
  return refused;
}

Result<std::optional<TierEntry>> TierStack::get(const TierKey& key, MemoryBudget& room) {
  auto found = find_and_promote(key, room);
  count(found);
  return found;
}

std::vector<Result<std::optional<TierEntry>>> TierStack::get_all(std::span<const TierKey> keys,
                                                                 MemoryBudget& room) {
  std::vector<Result<std::optional<TierEntry>>> all = tiers_.front()->get_all(keys, room);
  for (std::size_t tier = 1; tier < tiers_.size(); ++tier) {
    std::vector<TierKey> missing;
    std::vector<std::size_t> places;
    std::vector<std::uint64_t> before;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (all[i].has_value() && all[i]->has_value()) continue;
      missing.push_back(keys[i]);
      places.push_back(i);
      before.push_back(erasures(keys[i]));
    }
    if (missing.empty()) break;
    auto found = tiers_[tier]->get_all(missing, room);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].has_value() && !found[i]->has_value()) continue;
      if (found[i].has_value()) promote(tier, missing[i], **found[i], before[i]);
      all[places[i]] = std::move(found[i]);
    }
  }
  for (const auto& one : all) count(one);
  return all;
}

Result<void> TierStack::erase(const TierKey& key) {
  Result<void> refused;
  {
    Stripe& stripe = stripe_of(key);
    const MutexLock lock(stripe.mutex);
    ++stripe.erasures;
  }
  const bool was_there = is_pending(key) || may_contain(key);
  for (Tier* const tier : tiers_) {
    const auto done = tier->erase(key);
    if (!done.has_value() && refused.has_value()) refused = done;
  }
  const MutexLock lock(mutex_);
  if (refused.has_value() && was_there) ++stats_.erased;
  return refused;
}

Result<void> TierStack::flush() {
  Result<void> refused;
  for (Tier* const tier : tiers_) {
    const auto done = tier->flush();
    if (!done.has_value() && refused.has_value()) refused = done;
  }
  return refused;
}

bool TierStack::may_contain(const TierKey& key) const {
  return std::ranges::any_of(tiers_, [&](const Tier* tier) { return tier->may_contain(key); });
}

bool TierStack::holds(const TierKey& key) const {
  return std::ranges::all_of(tiers_, [&](const Tier* tier) { return tier->holds(key); });
}

void TierStack::probe(std::span<const TierKey> keys) {
  std::vector<TierKey> unknown(keys.begin(), keys.end());
  for (Tier* const tier : tiers_) {
    if (unknown.empty()) return;
    tier->probe(unknown);
    std::erase_if(unknown, [&](const TierKey& key) { return tier->holds(key); });
  }
}

void TierStack::invalidate_negative(std::span<const TierKey> keys) {
  for (Tier* const tier : tiers_) tier->invalidate_negative(keys);
}

bool TierStack::is_pending(const TierKey& key) const {
  return std::ranges::any_of(tiers_, [&](const Tier* tier) { return tier->is_pending(key); });
}

std::optional<EntryMetadata> TierStack::metadata(const TierKey& key) const {
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (!tiers_[i]->may_contain(key)) continue;
    EntryMetadata metadata = tiers_[i]->metadata(key).value_or(EntryMetadata());
    metadata.place = i;
    return metadata;
  }
  return std::nullopt;
}

TierStats TierStack::stats() const {
  const TierStats nearest = tiers_.front()->stats();
  TierStats stats;
  {
    const MutexLock lock(mutex_);
    stats = stats_;
  }
  stats.entries = nearest.entries;
  stats.used = nearest.used;
  stats.capacity = nearest.capacity;
  stats.evicted = nearest.evicted;
  for (const Tier* const tier : tiers_) {
    const TierStats one = tier->stats();
    stats.damaged += one.damaged;
    stats.failures += one.failures;
    if (stats.degraded_reason.empty()) stats.degraded_reason = one.degraded_reason;
  }
  return stats;
}

}  // namespace afterimage
