// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "caches/answers/answer_entry.h"
#include "caches/answers/answer_lookup.h"
#include "caches/answers/answer_record.h"
#include "caches/answers/scope.h"
#include "caches/language/canonical_text.h"
#include "foundation/platform/clock.h"
#include "foundation/platform/mutex.h"
#include "policy/eviction/eviction_policy.h"
#include "policy/eviction/shared_budget.h"
#include "storage/memory/budget.h"

namespace afterimage {

struct AnswerFacts {
  Duration cost{0};                    // what answering took: each hit saves as much
  std::optional<Duration> ttl{};       // from now on; a hit does not prolong it. Absent: for ever
  std::vector<std::string> tags = {};  // what it depends on, by name: see AnswerFilter
  TenantId owner = {};                 // for whom it is kept
  AnswerQuota quota = {};              // of that owner, with this answer
  Duration age{0};                     // of the answer already; its ttl is from now on all the same
  /// Also keep an answer that is not whole, and serve it to the very same words only: what ended it
  /// (max_tokens, the tools on offer) is part of the scope.
  bool keep_partial = false;
};

/// Of one rung. Every look-up adds one to one of them, at every rung that it came to.
struct RungStats {
  std::uint64_t served = 0;
  std::uint64_t matched_not_used = 0;
  std::uint64_t missed = 0;
};

/// Every counter is of the cache's whole life.
struct AnswerCacheStats {
  std::array<RungStats, kTextRungs.size()> rungs;
  RungStats proposed;  // of answer_to()
  std::uint64_t insertions = 0;
  std::uint64_t evictions = 0;
  std::uint64_t evicted_for_quota = 0;  // of those
  std::uint64_t expired = 0;
  std::uint64_t erased = 0;   // by erase, or an answer that took their place
  std::uint64_t damaged = 0;  // found and removed
  std::uint64_t refused_no_room = 0;
  std::uint64_t refused_over_quota = 0;
  std::uint64_t unpinned = 0;     // by a budget that became smaller
  std::uint64_t blocked = 0;      // not kept while admission was blocked
  Duration answer_time_saved{0};  // sum over what was served of the answers' costs
  EntryCount entries;             // resident now
  Bytes resident;                 // of those, as charged
  AnswerCount pinned;             // of those
  EntryCount owners;              // of those
};

struct AnswerCacheOptions {
  EntryCount max_entries = EntryCount(1'000'000);  // at least 1
  std::unique_ptr<EvictionPolicy> policy;          // nullptr: worth
  /// With whom the budget is shared: they make room, too. nullptr: with nobody.
  SharedBudget* shared = nullptr;
};

/// Is told of every question whose answer leaves the cache, or is replaced, while the cache is
/// locked: it must not call back.
class AnswerObserver {
 public:
  virtual ~AnswerObserver() = default;
  virtual void answer_left(const ScopeId& scope, std::string_view question) = 0;
};

/// Answers by the question they were given to, and found again by all questions of the same scope
/// that ask the same: exactly, canonically or nearly.
///
/// Shape    An entry is an answer's record with the question's words, their forms and the tags.
/// Unit     Bytes of those, charged to a MemoryBudget that other caches may share. The index, some
///          hundreds of bytes an entry, is not charged.
/// Owners   Whoever is over the quota loses entries of its own, the one that was not used for
///          longest first, and never another's. An owner is forgotten with its last entry.
/// Pins     What is pinned leaves at its time or when it is erased, for nobody's room. A newer
///          answer to the same words is pinned in its stead. At most half of the budget and of
///          max_entries is pinned; if the budget becomes smaller, the first that were kept are let
///          go of.
/// Match    Scope and form are compared in full. Of entries whose forms are the same at a rung, the
///          newest stands for all.
/// Errors   kInvalidArgument: an answer that is not whole (unless keep_partial), a tag with a zero byte. kNoSpace: larger
///          than the quota, or than what others and pins leave of it or of the budget; nobody is
///          evicted for it. kUnavailable: admission is blocked.
/// Threads  Any. One lock; folding happens outside of it. The bytes of an answer are checked and
///          copied inside, once: they are kilobytes, and done sooner than a pin is taken and let go
///          of.
/// Cost     find O(length of the question) and the policy's touch, however many are cached; insert
///          O(log n) amortised. What goes by a filter looks at every entry, unless it names one,
///          and lets others in between: the lock is never held for longer than some hundred
///          entries, or some hundred KiB of questions, take.
/// Source   src/semantic/DESIGN.md.
class AnswerCache final : public BudgetClient {
 public:
  /// `budget` and `clock` outlive the cache. kInvalidArgument: max_entries is 0.
  static Result<std::unique_ptr<AnswerCache>> create(AnswerCacheOptions options,
                                                     MemoryBudget& budget, const Clock& clock);
  ~AnswerCache() override;
  AnswerCache(const AnswerCache&) = delete;
  AnswerCache& operator=(const AnswerCache&) = delete;

  /// Down the ladder, the strictest rung first, until an answer may be served.
  [[nodiscard]] AnswerLookup find(Question& question, const LookupRules& rules = {});
  /// What find would say now. Counts, touches and removes nothing.
  [[nodiscard]] AnswerLookup peek(Question& question, const LookupRules& rules = {}) const;
  /// What find served saved no work after all (it failed the caller's own checks, the engine was
  /// asked anyway): it counts as matched and not used.
  void retract_hit(const AnswerLookup& served);

  /// The answer to just these words, for whoever found by other means that they may ask the same.
  /// `serve`: it will be served, and counts as such; else it is looked at, and counts as matched
  /// and not used. One step, under text:exact. An answer that is not whole is not allowed here.
  [[nodiscard]] AnswerLookup answer_to(Question& candidate, const LookupRules& rules, bool serve);

  /// `observer` hears of all that leaves until it is taken off.
  void add_observer(AnswerObserver& observer);
  void remove_observer(AnswerObserver& observer);

  /// Keeps the answer; one to the same words in the same scope is replaced, unless it is newer.
  Result<void> insert(Question& question, const Answer& answer, const AnswerFacts& facts);

  /// False: there is none.
  bool erase(Question& question);
  /// Of those that were there when it was called; what was erased.
  AnswerCount erase(const AnswerFilter& filter);
  /// What erase() would erase.
  [[nodiscard]] AnswerCount count(const AnswerFilter& filter) const;
  /// At most `limit` of them, the oldest first, from the one that follows `after`.
  [[nodiscard]] std::vector<AnswerEntry> entries(const AnswerFilter& filter, std::size_t limit,
                                                 AnswerEntryId after = {}) const;
  /// False: there is no such entry. kNoSpace: more would be pinned than may be.
  Result<bool> pin(AnswerEntryId entry, bool pinned);
  /// What is kept for one, and for each of all, by name.
  [[nodiscard]] AnswerUsage owner_usage(const TenantId& owner) const;
  [[nodiscard]] std::vector<AnswerUsage> owner_usages() const;
  /// Removes all whose time is over; how many they were.
  EntryCount expire();

  /// Evicts until at least `wanted` bytes are free again, those whose time is over first. Returns
  /// what was freed.
  Bytes evict_bytes(Bytes wanted) override;
  Bytes trim_to_budget() override;
  [[nodiscard]] std::optional<NextToLeave> eviction_candidate() override;
  void block_admission(bool blocked) override;

  [[nodiscard]] AnswerCacheStats stats() const;
  /// Recounts everything from the entries; aborts where the books disagree. O(n): tests.
  void check_invariants() const;

 private:
  friend struct AnswerCacheInside;  // a test damages what is kept
  struct State;
  AnswerCache(std::unique_ptr<State> state, const Clock& clock);
  /// Calls `visit` with the state and the place of each, under the lock, a slice of them at a time.
  template <typename Visit>
  void visit(const AnswerFilter& filter, AnswerEntryId after, const Visit& visit) const;
  [[nodiscard]] std::span<const std::byte> kept_bytes(Question& question) const;

  mutable Mutex mutex_;
  const Clock& clock_;
  std::unique_ptr<State> state_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
