// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "afterimage/answer_cache.h"
#include "afterimage/clock.h"
#include "afterimage/identity.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"
#include "caches/answers/archived_answer.h"
#include "caches/invalidation/invalidation_log.h"
#include "caches/invalidation/invalidations.h"
#include "foundation/platform/files.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/lease_service.h"

namespace afterimage {

struct AnswerArchiveStats {
  std::uint64_t kept = 0;      // answers that the tier accepted
  std::uint64_t refused = 0;   // answers that it rejected
  std::uint64_t restored = 0;  // answers loaded instead of being generated again
  std::uint64_t erased = 0;    // found, but invalidated
  std::uint64_t expired = 0;   // found, but expired or dated in the future
  std::uint64_t failed = 0;    // found, but unreadable or not the entry of their key
  std::uint64_t erasures = 0;  // invalidations in the archive's list, earlier processes' included
  // With a shared invalidation list:
  bool shared = false;
  bool may_serve = true;            // this process has a lease to serve answers
  std::uint64_t without_lease = 0;  // answers found without a lease to serve them
  std::uint64_t applied = 0;        // invalidations applied from the shared list
  std::uint64_t generations =
      0;  // generations seen, the first included; each loses earlier answers
  std::uint64_t read_failures = 0;  // failed reads of the list
  std::string degraded_reason;      // why the archive is degraded; empty: it is not
};

/// What an archive needs. All must outlive it.
struct AnswerArchiveDependencies {
  Tier& tier;              // stores the answers
  MemoryBudget& transfer;  // charged for bytes being loaded
  AnswerCache& cache;
  Files& files;
  std::string erasures;  // path of the file with the invalidation list of this tier
  const Clock& clock;
  const WallClock& wall;
  /// nullptr: the file has the list and no other process shares the answers. With a shared list the
  /// file (empty: none) is reset, and the answers archived under it are lost.
  InvalidationLog* shared = nullptr;
  /// How erase() waits until no process serves the answer; empty: the calling thread sleeps.
  std::function<void(Duration)> wait = {};
  /// Leases to generate an answer, among processes that share the list. nullptr: none are taken.
  LeaseService* turns = nullptr;
  /// Labels entries by the tags of their answers. nullopt: they have none, and every erasure by
  /// labels erases them.
  std::optional<EntryLabels> labels = std::nullopt;
  /// Called for each invalidation that another process has put on the shared list, in order; with an
  /// empty one (which matches everything) if some were merged before this process read them. Called
  /// under a lock: it must return at once and not call back.
  std::function<void(const Invalidation&)> on_invalidation = {};
};

/// Answers in a tier below memory. An answer is written when it is created, so that evicting it
/// from memory moves no bytes, and later processes with the same secret can load it.
///
///   AnswerCache::find -> miss -> AnswerArchive::restore -> miss -> the model
///     -> AnswerCache::insert -> AnswerArchive::keep
///
/// or, so that one of many processes asks the model:
///
///   miss -> claim(): kAcquired -> restore_uncached() -> miss -> the model -> keep(), drop the lease
///                    kElsewhere -> wait, restore_uncached(), claim again
///                    kUnavailable -> the model
///
/// or with the first look-up in the round trip of the claim:
///
///   read_lease() -> claim() up to a match level -> restore_claimed() -> as above
///
/// Shape    An answer is stored under its question's exact text; under each looser form is that
///          text. Keys and bytes: docs/formats/keys.md. A restored answer is compared in full:
///          scope, text, form.
/// Erasing  erase() also erases in the cache. Every erasure, by any filter, is recorded, and a
///          matching answer is rejected when it is read, also by later processes, and also if it
///          was being written or loaded at that moment. Its bytes remain until the tier needs the
///          space. If the list is lost or damaged, everything archived is lost.
/// Shared   With an InvalidationLog, processes share their answers. When erase() returns, no process
///          serves the erased answers any more, not even from memory. Each process must call
///          refresh() regularly (PeriodicTask); a process that did not serves nothing,
///          neither from the tier nor from memory. Take a ReadLease before looking up the cache,
///          and serve the answer only if may_serve() is true.
/// Time     Wall clock. An answer dated in the future is rejected.
/// Errors   Of erasing only. kUnavailable: it could not be recorded; it then holds until this
///          process ends, and nothing more is archived until an erasure succeeds. With a shared
///          list kUnavailable means: erased here, but other processes may still serve it. What
///          cannot be written or read is generated again, and counted.
/// Threads  Any.
/// Cost     keep: one put per form. restore: one index look-up per form, and one or two reads on a
///          hit. erase: writes a small file, or with a shared list takes
///          InvalidationLog::kLeaseGuard.
class AnswerArchive {
 public:
  /// The invalidation state at one moment, taken before a look-up or before a model is asked. What
  /// is found or generated under it is rejected if it was invalidated since.
  class ReadLease {
    friend class AnswerArchive;
    std::uint64_t invalidations_ = 0;
    std::uint64_t changes_ = 0;
    Secret names_{};
    Duration until_ = Duration::max();  // until then, answers found under it may be served
  };

  /// kUnavailable: the invalidation list can be neither read nor created. A shared list is first
  /// read by refresh().
  static Result<std::unique_ptr<AnswerArchive>> open(AnswerArchiveDependencies dependencies);

  [[nodiscard]] ReadLease read_lease() const;
  /// Archives an answer. Call it for every answer that the cache accepted, so that no replaced one
  /// comes back.
  void keep(Question& question, const Answer& answer, const AnswerFacts& facts,
            const ReadLease& before);
  /// Inserts into the cache only. kCancelled: another process invalidated it since `before`.
  Result<void> insert_into_cache(Question& question, const Answer& answer, const AnswerFacts& facts,
                                 const ReadLease& before);
  /// Inserts into the cache and, if that accepts the answer, archives it.
  Result<void> insert(Question& question, const Answer& answer, const AnswerFacts& facts);

  /// Looks up match level by match level as far as the rules serve. A hit is inserted into the cache again, with
  /// its age, if there is space; `quota` is its owner's. The result has a single step.
  [[nodiscard]] std::optional<AnswerLookup> restore(Question& question,
                                                    const LookupRules& rules = {},
                                                    const AnswerQuota& quota = {});

  /// The same for the exact text only, ignoring cached negative look-ups: another process may just
  /// have written the answer.
  [[nodiscard]] std::optional<AnswerLookup> restore_uncached(const Question& question,
                                                             const LookupRules& rules = {},
                                                             const AnswerQuota& quota = {});
  /// As restore(), ignoring cached negative look-ups, after a claim up to rules.serve. `before` was
  /// taken before the claim.
  [[nodiscard]] std::optional<AnswerLookup> restore_claimed(Question& question,
                                                            const LookupRules& rules,
                                                            const AnswerQuota& quota,
                                                            const ReadLease& before);

  /// Whether claim() can return anything but kUnavailable.
  [[nodiscard]] bool has_leases() const { return dependencies_.turns != nullptr; }
  /// The lease to generate the answer to this exact text. Questions whose answers are not
  /// interchangeable differ in `form` and have separate leases. Also kUnavailable while this
  /// process has no lease to serve answers, because it would wait in vain. Does network I/O.
  [[nodiscard]] LeaseService::Claim claim(const Question& question, std::string_view form);
  /// The same, and asks in the same round trip for what restore_claimed() reads up to this match
  /// level, for this thread, while the claim lives: LeaseService::Prefetched.
  [[nodiscard]] LeaseService::Claim claim(Question& question, std::string_view form,
                                          MatchLevel up_to, const ReadLease& before);

  /// Erases in the cache and here; returns what the cache erased. An `entry` that the cache does
  /// not have selects nothing. kLimitExceeded: the filter's text is too long to record; nothing is
  /// erased.
  Result<AnswerCount> erase(const AnswerFilter& filter);
  /// False: the cache had no such answer.
  Result<bool> erase(Question& question);
  /// The same without waiting until no other process serves it.
  Result<bool> erase_without_waiting(Question& question);

  /// Puts an invalidation with this tag, which no answer has, on the shared list, for on_invalidation
  /// of the other processes. No effect without such a list. kUnavailable: it could not be recorded.
  Result<void> announce(std::string tag);

  /// Whether what was looked up after `before` may be served now.
  [[nodiscard]] bool may_serve(const ReadLease& before);
  /// Applies what other processes have invalidated. kUnavailable: the list cannot be read now.
  Result<void> refresh();

  [[nodiscard]] AnswerArchiveStats stats() const;
  /// Another number after each erasure by a filter, here or elsewhere as far as this process has read.
  [[nodiscard]] std::uint64_t erasures() const;
  /// Waits for writes that began before the last erasure was recorded; later ones see it. After that the tier can be
  /// swept. erase() does it for its own process.
  void wait_for_puts();

 private:
  AnswerArchive(AnswerArchiveDependencies dependencies, InvalidationList invalidations,
                std::string degraded_reason);
  static Result<std::unique_ptr<AnswerArchive>> open_shared(AnswerArchiveDependencies dependencies);
  static TierKey key_of(const Secret& names, const ScopeId& scope, MatchLevel level,
                        std::string_view form);
  /// Whether cached negative look-ups of the tier are trusted.
  enum class Hints : unsigned char { kTrusted, kIgnored };
  [[nodiscard]] std::optional<TierEntry> read(const TierKey& key, Hints hints = Hints::kTrusted);
  [[nodiscard]] std::optional<AnswerLookup> restore_forms(Question& question,
                                                          const LookupRules& rules,
                                                          const AnswerQuota& quota, Hints hints,
                                                          const ReadLease& before);
  [[nodiscard]] LeaseService::Claim claim(const Question& question, std::string_view form,
                                          const ReadLease& now, std::span<const TierKey> keys);
  /// The exact question text under which the answer of a form is stored.
  [[nodiscard]] std::optional<std::string> words_of(const Question& question, MatchLevel level,
                                                    std::string_view form, const ReadLease& before,
                                                    Hints hints);
  [[nodiscard]] std::optional<ArchivedAnswer> load(const ScopeId& scope, const std::string& words,
                                                   MatchLevel level, std::string_view form,
                                                   const ReadLease& before,
                                                   Hints hints = Hints::kTrusted);
  [[nodiscard]] std::optional<AnswerLookup> admit(ArchivedAnswer archived, const ReadLease& before,
                                                  const LookupRules& rules,
                                                  const AnswerQuota& quota);
  [[nodiscard]] Mutex& put_lock(const TierKey& exact);
  bool put(Question& question, const TierKey& exact, const ArchivedAnswer& archived,
           const EntryMeta& meta, const ReadLease& before_it);
  void put_forms(Question& question, const EntryMeta& meta, const ReadLease& before_it);
  [[nodiscard]] EntryMeta meta_of(const AnswerFacts& facts) const;
  [[nodiscard]] bool lease_expired(const ReadLease& before) const;
  [[nodiscard]] WallTime stored_at(const AnswerFacts& facts) const;
  [[nodiscard]] bool was_erased(const TierKey& exact, const ReadLease& since) const;
  Result<void> erase_from_tier(Question& question);
  Result<void> persist(Invalidation invalidation);
  Result<void> publish(const Invalidation& invalidation);
  /// `own`: the number of the invalidation that this process has added; 0: none.
  void apply(const InvalidationList& next, Duration read_at, std::uint64_t own = 0)
      AFI_REQUIRES(list_mutex_);
  void tell(const InvalidationList& next, std::uint64_t known, std::uint64_t own) const;
  void erase_from_cache(const Invalidation& invalidation);
  void wait_out_leases() const;
  void count(std::uint64_t AnswerArchiveStats::* counter);

  const AnswerArchiveDependencies dependencies_;
  Mutex list_mutex_;  // serializes changes of the list; taken before mutex_
  /// Sharded by key: orders a put and an erasure of the same answer; taken before mutex_.
  std::array<Mutex, 16> put_locks_;
  /// Taken before the cache's lock, and held while a restored answer is inserted: an erasure either
  /// comes first and rejects the answer, or comes after and erases it.
  mutable Mutex mutex_;
  InvalidationList invalidations_ AFI_GUARDED_BY(mutex_);
  Secret names_ AFI_GUARDED_BY(mutex_);                            // keys are derived from it
  Duration lease_until_ AFI_GUARDED_BY(mutex_) = Duration::max();  // for serving answers
  std::uint64_t changes_ AFI_GUARDED_BY(mutex_) = 0;               // erasures begun or finished
  /// Answers recently erased one by one, with the value of changes_ when that began.
  std::deque<std::pair<std::uint64_t, TierKey>> recently_erased_ AFI_GUARDED_BY(mutex_);
  std::uint64_t erased_horizon_ AFI_GUARDED_BY(mutex_) = 0;  // older ones left the deque
  bool persisted_ AFI_GUARDED_BY(mutex_) = true;  // the list's file has what invalidations_ has
  AnswerArchiveStats stats_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
