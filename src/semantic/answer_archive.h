// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "afterimage/memory/budget.h"
#include "afterimage/memory/tier.h"
#include "afterimage/platform/clock.h"
#include "afterimage/platform/files.h"
#include "afterimage/platform/mutex.h"
#include "afterimage/result.h"
#include "afterimage/semantic/answer_cache.h"
#include "afterimage/semantic/answer_erasures.h"
#include "afterimage/semantic/archived_answer.h"
#include "afterimage/units.h"

namespace afterimage {

struct AnswerArchiveStats {
  std::uint64_t kept = 0;      // answers that the tier took in
  std::uint64_t refused = 0;   // and those that it did not
  std::uint64_t restored = 0;  // that came back instead of being asked for again
  std::uint64_t erased = 0;    // that were there, and had been erased
  std::uint64_t over = 0;      // that were there, and their time was over or had not come
  std::uint64_t failed = 0;    // that were there and could not be read, or were not what they claim
  std::uint64_t erasures = 0;  // of the archive's whole life, with earlier processes
  std::string trouble;         // why it does less than it should; empty: all is well
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
};

/// Answers in a tier below memory: kept when they are made, so that to evict one moves no byte, and
/// found again by a later process that has the same secret.
///
///   AnswerCache::find -> nothing -> AnswerArchive::restore -> nothing -> the model
///     -> AnswerCache::insert -> AnswerArchive::keep
///
/// Shape    An answer stands under the exact words; under each looser form stand those words. Names
///          and bytes: docs/formats/keys.md. What is read is compared in full: scope, words, form.
/// Erasing  Through the archive, which erases in the cache, too. What has been erased, by whatever
///          filter, is written down and refused when it is read, also by later processes, and also
///          if it was being kept or restored just then; its bytes leave when the tier needs the
///          room. If the list is lost or damaged, all that was archived is lost.
/// Time     Of the wall clock. An answer that was kept later than now is not believed.
/// Errors   Of erasing alone: kUnavailable if it cannot be written down; then it holds until this
///          process ends, and nothing more is archived until an erasing succeeds. What cannot be
///          kept or read is asked for again, and counted.
/// Threads  Any.
/// Cost     keep: a put for each form; restore: a look into the tier's index for each form, and one
///          or two reads if it is there. erase: a small file is written.
class AnswerArchive {
 public:
  /// Before an answer is inserted into the cache: what is erased from then on erases it, too.
  class Moment {
    friend class AnswerArchive;
    std::uint64_t erasures_ = 0;
    std::uint64_t changes_ = 0;
  };

  /// kUnavailable: the list of what has been erased can be neither read nor begun.
  static Result<std::unique_ptr<AnswerArchive>> open(AnswerArchiveParts parts);

  [[nodiscard]] Moment moment() const;
  /// Of every answer that the cache kept, so that none comes back that was replaced.
  void keep(Question& question, const Answer& answer, const AnswerFacts& facts,
            const Moment& before);
  /// The whole of it: into the cache, and if that keeps it, into the archive.
  Result<void> insert(Question& question, const Answer& answer, const AnswerFacts& facts);

  /// Down the ladder as far as may be served. What is found is in the cache again, if there is
  /// room, with its age; `quota` is its owner's. The answer is that of the only step.
  [[nodiscard]] std::optional<AnswerLookup> restore(Question& question,
                                                    const LookupRules& rules = {},
                                                    const AnswerQuota& quota = {});

  /// In the cache and here. What was erased in the cache. An entry that the cache does not have is
  /// none. kLimitExceeded: longer words than can be written down, and nothing is erased.
  Result<AnswerCount> erase(const AnswerFilter& filter);
  /// False: the cache had none.
  Result<bool> erase(Question& question);

  [[nodiscard]] AnswerArchiveStats stats() const;

 private:
  AnswerArchive(AnswerArchiveParts parts, AnswerErasures erasures, std::string trouble);
  [[nodiscard]] TierKey key_of(const ScopeId& scope, TextRung rung, std::string_view form) const;
  [[nodiscard]] std::optional<TierEntry> read(const TierKey& key);
  /// The words under which the answer of a form is.
  [[nodiscard]] std::optional<std::string> words_of(const Question& question, TextRung rung,
                                                    std::string_view form);
  [[nodiscard]] std::optional<ArchivedAnswer> load(const ScopeId& scope, const std::string& words,
                                                   TextRung rung, std::string_view form);
  [[nodiscard]] std::optional<AnswerLookup> admit(ArchivedAnswer archived, const Moment& before,
                                                  const LookupRules& rules,
                                                  const AnswerQuota& quota);
  [[nodiscard]] Mutex& putting(const TierKey& exact);
  bool put(const TierKey& exact, const ArchivedAnswer& archived, const Moment& before_it);
  void put_forms(Question& question, Duration cost);
  [[nodiscard]] bool was_forgotten(const TierKey& exact, const Moment& since) const;
  Result<void> forget(Question& question);
  Result<void> write_down(AnswerErasure erasure);
  void count(std::uint64_t AnswerArchiveStats::* counter);

  const AnswerArchiveParts parts_;
  const Secret secret_;
  Mutex writing_;  // one erasure at a time is written down; taken before mutex_
  /// By key, so that what was forgotten is not put; taken before mutex_.
  std::array<Mutex, 16> putting_;
  /// Taken before the cache's lock, and held while a restored answer is inserted: so an erasing is
  /// before that, and refuses it, or after, and erases it.
  mutable Mutex mutex_;
  AnswerErasures erasures_ AFI_GUARDED_BY(mutex_);
  std::uint64_t changes_ AFI_GUARDED_BY(mutex_) = 0;  // erasings that began or ended
  /// The answers that were erased one by one of late, by the change that began it.
  std::deque<std::pair<std::uint64_t, TierKey>> forgotten_ AFI_GUARDED_BY(mutex_);
  std::uint64_t forgotten_up_to_ AFI_GUARDED_BY(mutex_) = 0;  // those before are told apart no more
  bool written_down_ AFI_GUARDED_BY(mutex_) = true;           // the file says what erasures_ says
  AnswerArchiveStats stats_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
