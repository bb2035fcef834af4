// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "caches/answers/answer_cache.h"
#include "caches/answers/archived_answer.h"
#include "caches/invalidation/invalidation_log.h"
#include "caches/invalidation/invalidations.h"
#include "foundation/platform/clock.h"
#include "foundation/platform/files.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/budget.h"
#include "storage/memory/lease_service.h"
#include "storage/memory/tier.h"

namespace afterimage {

struct AnswerArchiveStats {
  std::uint64_t kept = 0;      // answers that the tier took in
  std::uint64_t refused = 0;   // and those that it did not
  std::uint64_t restored = 0;  // that came back instead of being asked for again
  std::uint64_t erased = 0;    // that were there, and had been erased
  std::uint64_t over = 0;      // that were there, and their time was over or had not come
  std::uint64_t failed = 0;    // that were there and could not be read, or were not what they claim
  std::uint64_t erasures = 0;  // of the archive's whole life, with earlier processes
  // Of a list that is shared:
  bool shared = false;
  bool may_give = true;      // it is known what others have erased
  std::uint64_t lapsed = 0;  // answers that were there, and it was not known whether they still are
  std::uint64_t learnt = 0;  // erasures of other processes
  std::uint64_t begun = 0;   // lists: with each all that was kept before is lost, and the first
  std::uint64_t unread = 0;  // times that the list could not be read
  std::string degraded_reason;  // why it does less than it should; empty: all is well
};

/// What an archive needs. All outlive it.
struct AnswerArchiveParts {
  Tier& tier;              // where the answers are
  MemoryBudget& transfer;  // pays for what is on its way up
  AnswerCache& cache;
  Files& files;
  std::string erasures;  // the path of a file: what has been erased. It belongs to the tier
  const Clock& clock;
  const WallClock& wall;
  /// nullptr: the file is the list, and nobody else has the answers. If there is a shared list, a
  /// file (empty: there is none) is given up: what it was about is lost.
  InvalidationLog* shared = nullptr;
  /// How an erasing waits until nobody gives the answer any more; empty: this thread sleeps.
  std::function<void(Duration)> wait = {};
  /// Of those who share the list: who asks a model what. nullptr: nobody takes turns.
  LeaseService* turns = nullptr;
};

/// Answers in a tier below memory: kept when they are made, so that to evict one moves no byte, and
/// found again by a later process that has the same secret.
///
///   AnswerCache::find -> nothing -> AnswerArchive::restore -> nothing -> the model
///     -> AnswerCache::insert -> AnswerArchive::keep
///
/// or, so that of many processes one asks the model:
///
///   nothing -> claim(): kOurs -> restore_anew() -> nothing -> the model -> keep(), drop the turn
///                       kTheirs -> wait, restore_anew(), claim again; kUnknown -> the model
///
/// Shape    An answer stands under the exact words; under each looser form stand those words. Names
///          and bytes: docs/formats/keys.md. What is read is compared in full: scope, words, form.
/// Erasing  Through the archive, which erases in the cache, too. What has been erased, by whatever
///          filter, is written down and refused when it is read, also by later processes, and also
///          if it was being kept or restored just then; its bytes leave when the tier needs the
///          room. If the list is lost or damaged, all that was archived is lost.
/// Shared   With InvalidationLog processes answer each other's questions, and what one erases is
/// gone
///          in all of them, and in their memory, when erase() returns. For that each of them calls
///          refresh() again and again (InvalidationPoller); whoever has not lately gives nothing, neither
///          from the tier nor from memory: before an answer of the cache's is looked up a moment is
///          taken, and the answer is given if may_give() says so then.
/// Time     Of the wall clock. An answer that was kept later than now is not believed.
/// Errors   Of erasing alone: kUnavailable if it cannot be written down; then it holds until this
///          process ends, and nothing more is archived until an erasing succeeds. If the list is
///          shared: kUnavailable: it is gone here, and others may still give it. What cannot be
///          kept or read is asked for again, and counted.
/// Threads  Any.
/// Cost     A shared erasing takes InvalidationLog::kLeaseOver. keep: a put for each form; restore:
/// a look into the tier's index for each form, and one
///          or two reads if it is there. erase: a small file is written.
class AnswerArchive {
 public:
  /// Before an answer is inserted into the cache: what is erased from then on erases it, too.
  class ReadLease {
    friend class AnswerArchive;
    std::uint64_t erasures_ = 0;
    std::uint64_t changes_ = 0;
    Secret names_{};
    Duration until_ = Duration::max();  // answers that are found now may be given for so long
  };

  /// kUnavailable: the list of what has been erased can be neither read nor begun. A shared one is
  /// not read before refresh().
  static Result<std::unique_ptr<AnswerArchive>> open(AnswerArchiveParts parts);

  [[nodiscard]] ReadLease read_lease() const;
  /// Of every answer that the cache kept, so that none comes back that was replaced.
  void keep(Question& question, const Answer& answer, const AnswerFacts& facts,
            const ReadLease& before);
  /// Into the cache alone. kCancelled: what was erased since, elsewhere, erases it, too.
  Result<void> insert_into_cache(Question& question, const Answer& answer, const AnswerFacts& facts,
                                 const ReadLease& before);
  /// The whole of it: into the cache, and if that keeps it, into the archive.
  Result<void> insert(Question& question, const Answer& answer, const AnswerFacts& facts);

  /// Down the ladder as far as may be served. What is found is in the cache again, if there is
  /// room, with its age; `quota` is its owner's. The answer is that of the only step.
  [[nodiscard]] std::optional<AnswerLookup> restore(Question& question,
                                                    const LookupRules& rules = {},
                                                    const AnswerQuota& quota = {});

  /// The same for the very words alone, whatever was known of them a moment ago: others may just
  /// have kept the answer.
  [[nodiscard]] std::optional<AnswerLookup> restore_anew(const Question& question,
                                                         const LookupRules& rules = {},
                                                         const AnswerQuota& quota = {});

  /// Whether claim() may give more than kUnknown.
  [[nodiscard]] bool takes_turns() const { return parts_.turns != nullptr; }
  /// The turn to ask a model these very words. Answers in different `form`s, of which one does not
  /// serve who wants the other, have different turns. kUnknown, too, while nothing may be given:
  /// whoever waited would wait in vain. It talks with servers.
  [[nodiscard]] LeaseService::Claim claim(const Question& question, std::string_view form);

  /// In the cache and here. What was erased in the cache. An entry that the cache does not have is
  /// none. kLimitExceeded: longer words than can be written down, and nothing is erased.
  Result<AnswerCount> erase(const AnswerFilter& filter);
  /// False: the cache had none.
  Result<bool> erase(Question& question);
  /// The same, and does not wait until nobody else gives it.
  Result<bool> erase_soon(Question& question);

  /// Whether what was looked up after `before` may be given now.
  [[nodiscard]] bool may_give(const ReadLease& before);
  /// Learns what others have erased. kUnavailable: the list cannot be read now.
  Result<void> refresh();

  [[nodiscard]] AnswerArchiveStats stats() const;

 private:
  AnswerArchive(AnswerArchiveParts parts, InvalidationList erasures, std::string degraded_reason);
  static Result<std::unique_ptr<AnswerArchive>> open_shared(AnswerArchiveParts parts);
  static TierKey key_of(const Secret& names, const ScopeId& scope, TextRung rung,
                        std::string_view form);
  /// What a tier said a moment ago of what is not there is believed, or not.
  enum class Hints : unsigned char { kBelieved, kNotBelieved };
  [[nodiscard]] std::optional<TierEntry> read(const TierKey& key, Hints hints = Hints::kBelieved);
  /// The words under which the answer of a form is.
  [[nodiscard]] std::optional<std::string> words_of(const Question& question, TextRung rung,
                                                    std::string_view form, const ReadLease& before);
  [[nodiscard]] std::optional<ArchivedAnswer> load(const ScopeId& scope, const std::string& words,
                                                   TextRung rung, std::string_view form,
                                                   const ReadLease& before,
                                                   Hints hints = Hints::kBelieved);
  [[nodiscard]] std::optional<AnswerLookup> admit(ArchivedAnswer archived, const ReadLease& before,
                                                  const LookupRules& rules,
                                                  const AnswerQuota& quota);
  [[nodiscard]] Mutex& putting(const TierKey& exact);
  bool put(const TierKey& exact, const ArchivedAnswer& archived, const ReadLease& before_it);
  void put_forms(Question& question, Duration cost, const ReadLease& before_it);
  [[nodiscard]] bool lapsed(const ReadLease& before) const;
  [[nodiscard]] WallTime kept_at(const AnswerFacts& facts) const;
  [[nodiscard]] bool was_forgotten(const TierKey& exact, const ReadLease& since) const;
  Result<void> forget(Question& question);
  Result<void> write_down(Invalidation erasure);
  Result<void> share(const Invalidation& erasure);
  void learn(InvalidationList next, Duration asked) AFI_REQUIRES(writing_);
  void erase_here(const Invalidation& erasure);
  void wait_for_all() const;
  void count(std::uint64_t AnswerArchiveStats::* counter);

  const AnswerArchiveParts parts_;
  Mutex writing_;  // one erasure at a time is written down or learnt; taken before mutex_
  /// By key, so that what was forgotten is not put; taken before mutex_.
  std::array<Mutex, 16> putting_;
  /// Taken before the cache's lock, and held while a restored answer is inserted: so an erasing is
  /// before that, and refuses it, or after, and erases it.
  mutable Mutex mutex_;
  InvalidationList erasures_ AFI_GUARDED_BY(mutex_);
  Secret names_ AFI_GUARDED_BY(mutex_);                      // of which keys are made
  Duration until_ AFI_GUARDED_BY(mutex_) = Duration::max();  // answers may be given
  std::uint64_t changes_ AFI_GUARDED_BY(mutex_) = 0;         // erasings that began or ended
  /// The answers that were erased one by one of late, by the change that began it.
  std::deque<std::pair<std::uint64_t, TierKey>> forgotten_ AFI_GUARDED_BY(mutex_);
  std::uint64_t forgotten_up_to_ AFI_GUARDED_BY(mutex_) = 0;  // those before are told apart no more
  bool written_down_ AFI_GUARDED_BY(mutex_) = true;           // the list says what erasures_ says
  AnswerArchiveStats stats_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
