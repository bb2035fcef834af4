// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/answer_once.h"
#include "afterimage/clock.h"
#include "afterimage/memory_budget.h"
#include "budget_pool.h"
#include "caches/answers/answer_archive.h"
#include "caches/invalidation/invalidation_log.h"
#include "caches/similarity/similar_answers.h"
#include "foundation/platform/periodic_task.h"
#include "foundation/platform/wall_clocks.h"
#include "storage/memory/lease_loop.h"
#include "storage/remote/redis_leases.h"
#include "tiers.h"

namespace afterimage::python {

/// How answers to similar questions are found.
struct SimilarityArgs {
  SimilarityMode mode = SimilarityMode::kWatch;
  std::shared_ptr<Embedder> embedder;
  float threshold = 0.85F;
  double error_budget = 0.01;
};

struct AnswerStoreArgs {
  CacheBudget budget;
  std::string policy;
  EntryCount max_entries;
  BelowArgs below;
  Secret secret;                 // of the processes that share answers through servers
  Duration coalesce_timeout{0};  // for another process that generates the answer; 0: no leases
  std::optional<SimilarityArgs> similarity;
};

/// An answer cache with everything it uses: single flight, and an archive if there is a tier.
///
/// Threads  Any. No call needs the GIL; `generate` runs on the caller's thread.
class AnswerStore {
 public:
  static Result<std::shared_ptr<AnswerStore>> open(const AnswerStoreArgs& args);

  [[nodiscard]] AnswerLookup find(Question& question, const LookupRules& rules);
  Result<void> insert(Question& question, const Answer& answer, const AnswerFacts& facts);
  /// AnswerOnce::get_or_answer, which also looks into the tier before it generates.
  Result<AnswerLookup> get_or_answer(Question& question, const LookupRules& rules,
                                     const AnswerOnce::Generate& generate);
  /// The answer to this question was wrong: erases it, or the similar question's that it would get.
  /// False: there is none.
  Result<bool> report_wrong(Question& question, const LookupRules& rules);
  Result<bool> erase(Question& question);
  Result<AnswerCount> erase(const AnswerFilter& filter);
  Result<void> flush();

  [[nodiscard]] AnswerCacheStats cache_stats() const { return cache_->stats(); }
  [[nodiscard]] AnswerOnceStats once_stats() const { return front_->stats(); }
  /// Answers of other processes that this one waited for.
  [[nodiscard]] std::uint64_t answered_elsewhere() const { return answered_elsewhere_; }
  /// nullopt: similarity is off.
  [[nodiscard]] std::optional<SimilarAnswersStats> similarity_stats() const;
  /// nullopt: there is no tier.
  [[nodiscard]] std::optional<AnswerArchiveStats> archive_stats() const;

 private:
  explicit AnswerStore(CacheBudget budget) : budget_(std::move(budget)) {}
  Result<void> open_archive(const AnswerStoreArgs& args);
  Result<void> open_similarity(const AnswerStoreArgs& args);
  /// The answer to a similar question, if it may be served; `lookup`: what was found.
  [[nodiscard]] std::optional<AnswerLookup> find_similar(const Question& question,
                                                         const LookupRules& rules,
                                                         const AnswerArchive::ReadLease& before,
                                                         std::vector<MatchStep> looked,
                                                         std::optional<SimilarLookup>& lookup);
  [[nodiscard]] AnswerArchive::ReadLease lease() const;
  [[nodiscard]] bool may_serve(const AnswerArchive::ReadLease& before);
  /// The steps of a hit that must not be served, because nobody can tell whether it was erased.
  [[nodiscard]] std::vector<MatchStep> retract(AnswerLookup hit);
  /// The answer in the tier, with the steps that missed before it.
  [[nodiscard]] std::optional<AnswerLookup> restore(Question& question, const LookupRules& rules,
                                                    std::vector<MatchStep> looked);
  Result<AnswerLookup> lead(AnswerLeader leader, Question& question, const LookupRules& rules,
                            const AnswerArchive::ReadLease& before,
                            const AnswerOnce::Generate& generate);
  /// The answer of another process, or nullopt: this one generates it, under `lease` if there are
  /// servers.
  Result<std::optional<AnswerLookup>> wait_for_lease_holder(Question& question,
                                                            const LookupRules& rules,
                                                            std::unique_ptr<Lease>& lease);
  Result<AnswerLookup> generate_uncached(std::vector<MatchStep> looked,
                                         const AnswerOnce::Generate& generate);

  SystemClock clock_;
  SystemWallClock wall_;
  const CacheBudget budget_;
  MemoryBudget transfer_{64_MiB};             // for answers on their way into memory
  std::unique_ptr<InvalidationPlace> below_;  // nullptr: nothing is below
  std::unique_ptr<RedisLeases> leases_;       // nullptr: other processes are not waited for
  std::atomic<std::uint64_t> answered_elsewhere_{0};
  std::unique_ptr<AnswerCache> cache_;
  BudgetPool::Place place_;
  std::unique_ptr<AnswerArchive> archive_;  // nullptr: nothing is below
  std::unique_ptr<PeriodicTask> poller_;
  std::unique_ptr<SimilarAnswers> similar_;  // nullptr: similarity is off
  std::unique_ptr<AnswerOnce> front_;
};

}  // namespace afterimage::python
