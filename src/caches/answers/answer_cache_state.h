// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "afterimage/answer_cache.h"
#include "caches/answers/answer_forms.h"
#include "caches/answers/answer_observer.h"
#include "foundation/platform/sliced_mutex.h"

namespace afterimage {

/// Entries and bookkeeping of an AnswerCache. Every call requires the cache's lock.
struct AnswerCache::State {
  State(AnswerCacheOptions chosen, MemoryBudget& shared)
      : budget(shared), options(std::move(chosen)) {}

  /// The outcome of a look-up at one match level, before anything is updated.
  struct Match {
    std::optional<std::uint32_t> place;
    Verdict verdict = Verdict::kMissed;
    std::shared_ptr<const Answer> shared =
        nullptr;  // of other hits; nullptr: the entry was verified
  };
  [[nodiscard]] Match match(const AnswerFormKey& key, Duration now, const LookupRules& rules) const;
  /// Fills `step`. Call it before settle(), which may remove the entry.
  void describe(const Match& match, Duration now, MatchStep& step) const;
  /// Copies the stored answer, or shares it if it is large and `share`.
  void copy_answer(const Match& match, Duration now, bool share, AnswerLookup& found);
  /// Updates counters, and removes an expired or damaged entry. `serve`: the answer will be used.
  void settle(const Match& match, bool serve, Duration now, MatchLevelStats& counts);

  /// Whether a newer answer to the same text is cached; it is not replaced then.
  [[nodiscard]] bool has_newer(const AnswerFormKey& exact, Duration stored) const;
  /// How many bytes of the owner's own entries `bytes` more would evict. kNoSpace: even that is not
  /// enough, or the new answer would inherit a pin beyond the limit.
  Result<Bytes> admit(const AnswerFormKey& exact, Bytes bytes, const AnswerFacts& facts);
  /// Reserves memory, evicting if need be. Removes the entry to be replaced first, unless it is
  /// pinned or newer: then it stays until store().
  Result<Reservation> reserve(const AnswerFormKey& exact, Bytes bytes, const AnswerFacts& facts,
                              Duration now);
  Result<void> store(Question& question, const AnswerDraft& draft, Payload payload,
                     const AnswerFacts& facts, Duration now);

  void remove(std::uint32_t place, RemovalReason why);
  void expire(std::uint32_t place);
  bool expire_one(Duration now);
  bool evict_one(Duration now);
  /// Evicts the answer that was used least recently, if that was before `since`.
  bool evict_idle_one(Duration since);
  void erase(std::uint32_t place);
  Result<void> pin(std::uint32_t place);
  void unpin(std::uint32_t place);
  /// Unpins the oldest entries until the limit on pins is met.
  void enforce_pin_limit();

  /// Call it before any other call to the policy.
  void report_uses();
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
  std::set<std::pair<Duration, std::uint32_t>> by_expiry;  // entries with an expiry
  AnswerOwners owners;
  std::set<AnswerEntryId> pins;
  AnswerCacheStats stats;
  std::uint64_t last_id = 0;
  std::uint64_t last_used = 0;
  // Uses not reported to the policy yet, in order. Reported in one batch, so that its cache misses
  // overlap instead of adding to each hit.
  std::array<SlotId, 64> unreported{};
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
  /// The entry that an answer to the same text would replace.
  [[nodiscard]] const AnswerSlot* replaced(const AnswerFormKey& exact) const;
  void add_to_owner(std::uint32_t place, const TenantId& owner);
  void remove_from_owner(AnswerSlot& slot, std::uint32_t place);
};

/// The state and its lock.
struct AnswerCache::Locked {
  Locked(AnswerCacheOptions options, MemoryBudget& budget, const Clock& its_clock)
      : clock(its_clock), state(std::move(options), budget) {}

  mutable SlicedMutex mutex;
  const Clock& clock;
  State state AFI_GUARDED_BY(mutex);
};

}  // namespace afterimage
