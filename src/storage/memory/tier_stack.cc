// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <array>
#include <utility>

#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/tier_key_hash.h"

namespace afterimage {

struct TierStack::State {
  State(std::vector<Tier*> nearest_first, Keys its_keys)
      : tiers(std::move(nearest_first)), keys(its_keys) {}

  /// Keys that share a stripe are promoted one at a time. Locked before any tier is called.
  struct Stripe {
    Mutex mutex;
    std::uint64_t erasures AFI_GUARDED_BY(mutex) = 0;  // and replacements
  };
  [[nodiscard]] Stripe& stripe_of(const TierKey& key) {
    return stripes[TierKeyHash()(key) % stripes.size()];
  }

  const std::vector<Tier*> tiers;
  const Keys keys;
  std::array<Stripe, 16> stripes;
  mutable Mutex mutex;
  TierStats stats AFI_GUARDED_BY(mutex);
};

TierStack::TierStack(std::vector<Tier*> nearest_first, Keys keys)
    : state_(std::make_unique<State>(std::move(nearest_first), keys)) {
  AFI_CHECK(!state_->tiers.empty());
}

TierStack::~TierStack() = default;

std::size_t TierStack::places() const { return state_->tiers.size(); }

Result<void> TierStack::put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) {
  Result<void> refused;
  bool taken = false;
  if (state_->keys == Keys::kAreReplaced) {
    // A concurrent read from a farther tier returns the old value and must not promote it.
    State::Stripe& stripe = state_->stripe_of(key);
    const MutexLock lock(stripe.mutex);
    ++stripe.erasures;
  }
  for (Tier* const tier : state_->tiers) {
    const auto done = tier->put_pieces(key, meta, pieces);
    if (!done.has_value() && state_->keys == Keys::kAreReplaced)
      static_cast<void>(tier->erase(key));
    taken |= done.has_value();
    if (!done.has_value() && refused.has_value()) refused = done;
  }
  const MutexLock lock(state_->mutex);
  ++(taken ? state_->stats.puts : state_->stats.refused);
  return taken ? Result<void>() : refused;
}

void TierStack::count(const Result<std::optional<TierEntry>>& found) {
  // A get that failed for lack of memory is neither a hit nor a miss.
  if (!found.has_value()) return;
  const MutexLock lock(state_->mutex);
  ++(found->has_value() ? state_->stats.hits : state_->stats.misses);
}

std::uint64_t TierStack::erasures(const TierKey& key) {
  State::Stripe& stripe = state_->stripe_of(key);
  const MutexLock lock(stripe.mutex);
  return stripe.erasures;
}

void TierStack::promote(std::size_t tier, const TierKey& key, const TierEntry& entry,
                        std::uint64_t erasures) {
  State::Stripe& stripe = state_->stripe_of(key);
  const MutexLock lock(stripe.mutex);
  // Otherwise an entry erased during the read would come back.
  if (stripe.erasures != erasures) return;
  for (std::size_t nearer = 0; nearer < tier; ++nearer) {
    static_cast<void>(state_->tiers[nearer]->put(key, entry.meta, entry.bytes));
  }
}

Result<std::optional<TierEntry>> TierStack::find_and_promote(const TierKey& key,
                                                             MemoryBudget& room) {
  Result<std::optional<TierEntry>> refused = std::nullopt;
  const std::uint64_t before = erasures(key);
  for (std::size_t i = 0; i < state_->tiers.size(); ++i) {
    auto found = state_->tiers[i]->get(key, room);
    if (!found.has_value()) {
      refused = std::move(found);
      continue;
    }
    if (!found->has_value()) continue;
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
  std::vector<Result<std::optional<TierEntry>>> all = state_->tiers.front()->get_all(keys, room);
  for (std::size_t tier = 1; tier < state_->tiers.size(); ++tier) {
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
    auto found = state_->tiers[tier]->get_all(missing, room);
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
    State::Stripe& stripe = state_->stripe_of(key);
    const MutexLock lock(stripe.mutex);
    ++stripe.erasures;
  }
  const bool was_there = is_pending(key) || may_contain(key);
  for (Tier* const tier : state_->tiers) {
    const auto done = tier->erase(key);
    if (!done.has_value() && refused.has_value()) refused = done;
  }
  const MutexLock lock(state_->mutex);
  if (refused.has_value() && was_there) ++state_->stats.erased;
  return refused;
}

Result<EntryCount> TierStack::erase_matching(const EntryFilter& filter) {
  Result<EntryCount> first_error = EntryCount(0);
  EntryCount most;  // each tier has copies of the others' entries
  // The farthest tier first: the nearer ones then erase the copies that gets have promoted. A get
  // that read an entry before its erasure finds another count, and does not promote it.
  for (std::size_t i = state_->tiers.size(); i-- > 0;) {
    for (State::Stripe& stripe : state_->stripes) {
      const MutexLock lock(stripe.mutex);
      ++stripe.erasures;
    }
    const auto erased = state_->tiers[i]->erase_matching(filter);
    if (erased.has_value()) most = std::max(most, *erased);
    if (!erased.has_value() && first_error.has_value()) first_error = erased;
  }
  if (!first_error.has_value()) return first_error;
  const MutexLock lock(state_->mutex);
  state_->stats.erased += most.value();
  return most;
}

Result<void> TierStack::flush() {
  Result<void> refused;
  for (Tier* const tier : state_->tiers) {
    const auto done = tier->flush();
    if (!done.has_value() && refused.has_value()) refused = done;
  }
  return refused;
}

bool TierStack::may_contain(const TierKey& key) const {
  return std::ranges::any_of(state_->tiers,
                             [&](const Tier* tier) { return tier->may_contain(key); });
}

bool TierStack::holds(const TierKey& key) const {
  return std::ranges::all_of(state_->tiers, [&](const Tier* tier) { return tier->holds(key); });
}

void TierStack::probe(std::span<const TierKey> keys) {
  std::vector<TierKey> unknown(keys.begin(), keys.end());
  for (Tier* const tier : state_->tiers) {
    if (unknown.empty()) return;
    tier->probe(unknown);
    std::erase_if(unknown, [&](const TierKey& key) { return tier->holds(key); });
  }
}

void TierStack::invalidate_negative(std::span<const TierKey> keys) {
  for (Tier* const tier : state_->tiers) tier->invalidate_negative(keys);
}

bool TierStack::is_pending(const TierKey& key) const {
  return std::ranges::any_of(state_->tiers,
                             [&](const Tier* tier) { return tier->is_pending(key); });
}

std::optional<EntryMetadata> TierStack::metadata(const TierKey& key) const {
  for (std::size_t i = 0; i < state_->tiers.size(); ++i) {
    if (!state_->tiers[i]->may_contain(key)) continue;
    EntryMetadata metadata = state_->tiers[i]->metadata(key).value_or(EntryMetadata());
    metadata.place = i;
    return metadata;
  }
  return std::nullopt;
}

TierStats TierStack::stats() const {
  const TierStats nearest = state_->tiers.front()->stats();
  TierStats stats;
  {
    const MutexLock lock(state_->mutex);
    stats = state_->stats;
  }
  stats.entries = nearest.entries;
  stats.used = nearest.used;
  stats.capacity = nearest.capacity;
  stats.evicted = nearest.evicted;
  for (const Tier* const tier : state_->tiers) {
    const TierStats one = tier->stats();
    stats.damaged += one.damaged;
    stats.failures += one.failures;
    if (stats.degraded_reason.empty()) stats.degraded_reason = one.degraded_reason;
  }
  return stats;
}

}  // namespace afterimage
