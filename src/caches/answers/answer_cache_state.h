// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "afterimage/answer_cache.h"
#include "caches/answers/answer_forms.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// What an AnswerCache keeps, and the books about it. Every call under the cache's lock.
struct AnswerCache::State {
  State(AnswerCacheOptions chosen, MemoryBudget& shared)
      : budget(shared), options(std::move(chosen)) {}

  /// What a look-up at one rung comes to, before anything is done about it.
  struct Match {
    std::optional<std::uint32_t> place;
    Verdict verdict = Verdict::kMissed;
  };
  [[nodiscard]] Match match(const AnswerFormKey& key, Duration now, const LookupRules& rules) const;
  /// Writes down what matched: before settle(), which may remove it.
  void describe(const Match& match, Duration now, MatchStep& step) const;
  /// Copies what was kept.
  void give(const Match& match, Duration now, AnswerLookup& found) const;
  /// Counts what was found, and removes what is over or damaged. `serve`: it will be used.
  void settle(const Match& match, bool serve, Duration now, RungStats& counts);

  /// Whether one to the same words is kept that came later: then that one stays.
  [[nodiscard]] bool has_newer(const AnswerFormKey& exact, Duration stored) const;
  /// How much leaves of the owner's own for so many bytes more. kNoSpace: it would not do, or what
  /// is replaced is pinned and this may not be.
  Result<Bytes> admit(const AnswerFormKey& exact, Bytes bytes, const AnswerFacts& facts);
  /// The entry that is replaced goes first, unless it is pinned or newer: then it stays
  /// until keep().
  Result<Reservation> make_room(const AnswerFormKey& exact, Bytes bytes, const AnswerFacts& facts,
                                Duration now);
  Result<void> keep(Question& question, const AnswerDraft& draft, Payload payload,
                    const AnswerFacts& facts, Duration now);

  void remove(std::uint32_t place, RemovalReason why);
  void expire(std::uint32_t place);
  bool expire_one(Duration now);
  bool evict_one(Duration now);
  void erase(std::uint32_t place);
  Result<void> pin(std::uint32_t place);
  void unpin(std::uint32_t place);
  /// Lets go of pins until no more is pinned than may be.
  void obey_pin_limit();

  /// Before anything else is said to the policy or asked of it.
  void tell_uses();
  [[nodiscard]] SlotId id_of(std::uint32_t place) const {
    return {.index = place, .generation = slots[place].generation};
  }
  void check_invariants() const;

  MemoryBudget& budget;
  AnswerCacheOptions options;
  AnswerSlots slots;
  AnswerForms forms{slots};
  std::map<AnswerEntryId, std::uint32_t> by_id;
  std::vector<std::uint32_t> free_places;
  std::set<std::pair<Duration, std::uint32_t>> by_expiry;  // of entries that have one
  AnswerOwners owners;
  std::set<AnswerEntryId> pins;
  AnswerCacheStats stats;
  std::uint64_t last_id = 0;
  std::uint64_t last_used = 0;
  // Uses that the policy has not been told yet, in order. Told in one go, its cache misses overlap
  // instead of adding to each hit's.
  std::array<SlotId, 64> untold{};
  std::size_t uses = 0;
  Duration last_use{0};
  std::vector<AnswerObserver*> observers;
  bool blocked = false;

 private:
  std::uint32_t take_place();
  void note_use(std::uint32_t place, Duration now);
  [[nodiscard]] bool may_pin(const AnswerCount& count) const;
  [[nodiscard]] std::uint32_t least_used(AnswerOwner& owner);
  void evict_of(AnswerOwner& owner);
  void fit_quota(const AnswerFormKey& exact, Bytes bytes, const AnswerFacts& facts, Duration now);
  /// The entry that an answer to the same words replaces.
  [[nodiscard]] const AnswerSlot* replaced(const AnswerFormKey& exact) const;
  void join_owner(std::uint32_t place, const TenantId& owner);
  void leave_owner(AnswerSlot& slot, std::uint32_t place);
};

/// The state and its lock.
struct AnswerCache::Locked {
  Locked(AnswerCacheOptions options, MemoryBudget& budget, const Clock& its_clock)
      : clock(its_clock), state(std::move(options), budget) {}

  mutable Mutex mutex;
  const Clock& clock;
  State state AFI_GUARDED_BY(mutex);
};

}  // namespace afterimage
