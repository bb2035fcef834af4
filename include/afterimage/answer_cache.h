// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/answer.h"
#include "afterimage/clock.h"
#include "afterimage/digest.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/memory_budget.h"
#include "afterimage/question.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

class AnswerObserver;

struct AnswerFacts {
  Duration cost{0};                    // time the answer took; each hit saves it
  std::optional<Duration> ttl{};       // from now; a hit does not extend it. Absent: no expiry
  std::vector<std::string> tags = {};  // names of what it depends on: see AnswerFilter
  TenantId owner = {};                 // charged for it
  AnswerQuota quota = {};              // the owner's, this answer included
  Duration age{0};                     // the answer's current age; does not shorten the ttl
  /// Also cache an incomplete answer, and serve it to exact matches only: the limit that ended it
  /// (max_tokens, the tools on offer) is part of the scope.
  bool keep_partial = false;
  /// What the eviction policy is told of bytes and cost. Absent: its own. Present: whether it is
  /// evicted does not depend on them.
  std::optional<EntryFacts> weight = std::nullopt;
};

/// Counters of one match level. Each look-up adds one at every match level that it reached.
struct MatchLevelStats {
  std::uint64_t served = 0;
  std::uint64_t matched_not_used = 0;
  std::uint64_t missed = 0;
};

/// Counters run over the cache's lifetime.
struct AnswerCacheStats {
  std::array<MatchLevelStats, kMatchLevels.size()> levels;
  MatchLevelStats proposed;  // answers to candidates: find_exact()
  std::uint64_t insertions = 0;
  std::uint64_t evictions = 0;
  std::uint64_t evicted_for_quota = 0;  // part of evictions
  std::uint64_t expired = 0;
  std::uint64_t erased = 0;            // by erase(), or replaced
  std::uint64_t damaged = 0;           // found and removed
  std::uint64_t refused_no_space = 0;  // did not fit the budget
  std::uint64_t refused_over_quota = 0;
  std::uint64_t unpinned = 0;     // because the budget shrank
  std::uint64_t blocked = 0;      // rejected while admission was blocked
  Duration answer_time_saved{0};  // sum of the costs of served answers
  EntryCount entries;             // resident now
  Bytes resident;                 // as charged
  AnswerCount pinned;             // among the resident
  EntryCount owners;              // of resident answers
};

struct AnswerCacheOptions {
  EntryCount max_entries = EntryCount(1'000'000);  // at least 1
  std::unique_ptr<EvictionPolicy> policy;          // nullptr: worth
  /// The budget that other caches share and that they free memory in. nullptr: not shared.
  SharedBudget* shared = nullptr;
  /// Whose answer it is, for tenants' shares of the memory, by its tags. Empty: nobody's.
  std::function<EntryLabel(std::span<const std::string> tags)> owner_of = {};
};

/// Cache of answers, keyed by question; a look-up in the same scope hits if the question is equal
/// exactly, canonically or nearly.
///
/// Shape    An entry is an answer's record with the question's text, its forms and the tags.
/// Unit     Bytes of those, charged to a MemoryBudget that other caches may share. The index, some
///          hundreds of bytes an entry, is not charged.
/// Owners   An owner over its quota loses its own entries, least recently used first, and never
///          another's. An owner is dropped with its last entry.
/// Pins     A pinned entry expires and can be erased, but is never evicted. A newer answer to the
///          same text inherits the pin. At most half of the budget and of max_entries is pinned; if
///          the budget shrinks, the oldest entries are unpinned first.
/// Match    Scope and form are compared in full. If several entries have the same form at a match level,
///          the newest is found.
/// Errors   kInvalidArgument: an incomplete answer without keep_partial, a tag with a zero byte. kNoSpace: larger than
///          the quota, or than what other caches and pins leave of it or of the budget; nothing is
///          evicted then. kUnavailable: admission is blocked.
/// Threads  Any. One lock; forms are computed outside of it. An answer's bytes are verified and
///          copied under it: they are kilobytes, which is cheaper than to pin and unpin.
/// Cost     find: O(length of the question) and the policy's touch, however many are cached.
///          insert: O(log n) amortized. Filters visit every entry unless they name one, in slices:
///          the lock is held at most for some hundred entries or some hundred KiB of questions.
/// Source   src/caches/answers/DESIGN.md.
class AnswerCache final : public BudgetClient {
 public:
  /// Smaller records are copied for each hit: see LookupRules::share.
  static constexpr std::size_t kLeastShared = 64UL * 1024;

  /// `budget` and `clock` must outlive the cache. kInvalidArgument: max_entries is 0.
  static Result<std::unique_ptr<AnswerCache>> create(AnswerCacheOptions options,
                                                     MemoryBudget& budget, const Clock& clock);
  ~AnswerCache() override;
  AnswerCache(const AnswerCache&) = delete;
  AnswerCache& operator=(const AnswerCache&) = delete;

  /// Looks up match level by match level, the strictest first, until an answer may be served. `may_loosen` is
  /// asked before each level but the first, if none before it served: false ends the look-up. nullptr: it may.
  [[nodiscard]] AnswerLookup find(Question& question, const LookupRules& rules = {},
                                  const std::function<bool()>& may_loosen = nullptr);
  /// The result that find() would return now. Counts, touches and removes nothing.
  [[nodiscard]] AnswerLookup peek(Question& question, const LookupRules& rules = {}) const;
  /// What find() served saved no work after all (the caller's own checks rejected it, or the engine
  /// ran anyway): the hit is recounted as matched_not_used.
  void retract_hit(const AnswerLookup& served);

  /// The answer to this exact text, for a caller that found the candidate by other means. `serve`:
  /// it will be served and counts as served; else it counts as matched_not_used. One step, under
  /// text:exact. An incomplete answer is not allowed here.
  [[nodiscard]] AnswerLookup find_exact(Question& candidate, const LookupRules& rules, bool serve);

  /// `observer` (caches/answers/answer_observer.h) is notified until it is removed.
  void add_observer(AnswerObserver& observer);
  void remove_observer(AnswerObserver& observer);

  /// Caches the answer. Replaces one to the same text in the same scope, unless that one is newer.
  Result<void> insert(Question& question, const Answer& answer, const AnswerFacts& facts);

  /// False: there is no such answer.
  bool erase(Question& question);
  /// Erases matching entries that existed when it was called; returns what was erased.
  AnswerCount erase(const AnswerFilter& filter);
  /// What erase() would erase now.
  [[nodiscard]] AnswerCount count(const AnswerFilter& filter) const;
  /// At most `limit` matching entries, oldest first, starting after `after`.
  [[nodiscard]] std::vector<AnswerEntry> entries(const AnswerFilter& filter, std::size_t limit,
                                                 AnswerEntryId after = {}) const;
  /// False: there is no such entry. kNoSpace: the limit on pinned answers would be exceeded.
  Result<bool> pin(AnswerEntryId entry, bool pinned);
  /// What is cached for every owner, by name.
  [[nodiscard]] std::vector<AnswerUsage> owner_usages() const;

  /// Evicts until at least `wanted` bytes are free, expired entries first. Returns the bytes freed.
  Bytes evict_bytes(Bytes wanted) override;
  Bytes trim_to_budget() override;
  Bytes evict_idle(Duration since) override;
  [[nodiscard]] std::optional<EvictionCandidate> eviction_candidate() override;
  void block_admission(bool blocked) override;

  [[nodiscard]] AnswerCacheStats stats() const;
  /// Recounts everything from the entries; aborts on any mismatch. O(n): for tests.
  void check_invariants() const;

 private:
  friend struct AnswerCacheInside;  // lets a test damage stored bytes
  struct State;
  struct Locked;
  explicit AnswerCache(std::unique_ptr<Locked> locked);
  /// Calls `visit` with the state and each matching slot under the lock, a slice at a time.
  template <typename Visit>
  void visit(const AnswerFilter& filter, AnswerEntryId after, const Visit& visit) const;

  std::unique_ptr<Locked> locked_;
};

}  // namespace afterimage
