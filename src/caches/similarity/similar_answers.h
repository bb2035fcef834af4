// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/clock.h"
#include "afterimage/memory_budget.h"
#include "afterimage/secret.h"
#include "caches/answers/answer_archive.h"
#include "caches/similarity/embedder.h"
#include "caches/similarity/similarity.h"
#include "caches/similarity/similarity_archive.h"
#include "caches/similarity/verifier.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// A question by its vector, and what was found for it.
struct SimilarLookup {
  std::vector<Vector> vectors;
  SimilarityLookup found;
};

/// Where answers, and what is known about them, outlive the process. All must outlive the user.
struct SimilarStorage {
  AnswerArchive& answers;
  Tier& tier;
  /// The cell of the evidence about these matches. `name`: hex digits that differ with the embedder,
  /// the verifier, its threshold, whether it overrules vetoes and the words that may differ, so that
  /// evidence about others is never added to it.
  std::function<Result<SharedCell*>(const std::string& name)> evidence;
  MemoryBudget& transfer;
  Secret secret{};
};

struct SimilarAnswersOptions {
  std::unique_ptr<Embedder> embedder;
  bool embedder_waits = false;                   // it takes milliseconds, or waits for a server
  std::unique_ptr<Verifier> verifier = nullptr;  // nullptr: the most similar question is judged
  float verifier_threshold = 0.5F;               // least score of a match
  bool verifier_overrules_vetoes = false;        // it also reads questions with a veto
  WordSet may_differ = {};                       // no other words may; empty: any
  bool only_if_faster = true;                    // false: embed every question, whatever it takes
  float threshold = 0.85F;                       // minimum cosine of a neighbour
  SimilarityMode mode = SimilarityMode::kWatch;
  AcceptanceOptions acceptance;
  /// What a stored answer says, to be compared; nullopt: it cannot be. Empty: Answer::text.
  std::function<std::optional<std::string>(const Answer&)> text_of;
  std::optional<SimilarStorage> storage;  // nullopt: lost with the process
  SharedBudget* shared = nullptr;         // that the budget's other caches free memory in
};

struct SimilarAnswersStats {
  SimilarityStats level;
  SimilarityArchiveStats archive;
  std::uint64_t not_embedded = 0;  // questions whose embedder failed or was too slow
  std::uint64_t not_worth = 0;     // questions whose vector would have cost more than their answer
  std::uint64_t demotions = 0;     // wrong answers that were served, and ended the evidence
};

/// Answers to similar questions: embeds a question, proposes the answer to a similar one of the same
/// scope, and compares proposals that were not served with what the model says.
///
///   find -> served, or the model answers -> learn
///
/// With SimilarityMode::kWatch nothing is served. A served answer that turns out to be wrong ends the
/// evidence: nothing is served until new evidence allows it. With a SimilarStorage, candidates and
/// evidence are kept for later processes and shared with others.
///
/// Cost     With only_if_faster: while a vector of an embedder that waits, and the verifier, take longer
///          than an answer of the model, only one question of kRemeasure is embedded.
/// Errors   create: kInvalidArgument, as SimilarityLevel::create; those of SimilarStorage. find: none; a question without a
///          vector finds nothing.
/// Threads  Any.
/// Source   src/caches/similarity/DESIGN.md.
class SimilarAnswers {
 public:
  static constexpr std::uint64_t kRemeasure = 64;

  /// All arguments outlive the object.
  static Result<std::unique_ptr<SimilarAnswers>> create(SimilarAnswersOptions options,
                                                        AnswerCache& cache, MemoryBudget& budget,
                                                        const Clock& clock);

  /// Whether calls take milliseconds, or wait for a disk or a server.
  [[nodiscard]] bool waits() const {
    return options_.embedder_waits || options_.verifier != nullptr || options_.storage.has_value();
  }
  /// nullopt: the question has no vector.
  [[nodiscard]] std::optional<SimilarLookup> find(const Question& question,
                                                  const LookupRules& rules);
  /// The result that find() would return now; counts and learns nothing.
  [[nodiscard]] std::optional<SimilarLookup> peek(const Question& question,
                                                  const LookupRules& rules);
  /// The model's answer to a question for which `lookup` was made: evidence, and a new candidate,
  /// while the answer is in the cache. `cost`: the time that it took; 0: unknown.
  void learn(const Question& question, const SimilarLookup& lookup, std::string_view answer,
             Duration cost = Duration(0));
  /// What the model says to a question that `lookup` has served: evidence, or its end.
  /// True: the same.
  bool verify(const Question& question, const SimilarLookup& lookup, std::string_view answer);

  /// Somebody says that the answer to this question is wrong; `served`: the look-up by which it was
  /// given, if it was: evidence. Its neighbours are suspected (SimilarityLevel::suspect).
  void reported_wrong(const Question& question, const std::optional<SimilarLookup>& served);

  [[nodiscard]] SimilarAnswersStats stats() const;

 private:
  /// Whether a hit can save more than the vector costs, as far as both are known.
  bool is_worth_a_vector();
  /// The question's vector, once the match level has what others know of its scope. nullopt: it has none.
  std::optional<SimilarLookup> embed(const Question& question);
  /// nullopt: there was nothing to compare.
  std::optional<bool> compare(const Question& question, const SimilarLookup& lookup,
                              std::string_view answer);
  SimilarAnswers(SimilarAnswersOptions options, const AnswerCache& cache, const Clock& clock)
      : options_(std::move(options)), cache_(cache), clock_(clock) {}

  const SimilarAnswersOptions options_;
  const AnswerCache& cache_;
  const Clock& clock_;
  std::unique_ptr<SimilarityLevel> level_;
  std::unique_ptr<SimilarityArchive> archive_;  // nullptr: lost with the process
  Mutex costs_mutex_;
  std::optional<Duration> vector_cost_ AFI_GUARDED_BY(costs_mutex_);  // of the fastest lately
  std::optional<Duration> verify_cost_ AFI_GUARDED_BY(costs_mutex_);  // the same
  std::optional<Duration> answer_cost_ AFI_GUARDED_BY(costs_mutex_);  // a moving average
  std::atomic<std::uint64_t> not_worth_ = 0;
  std::atomic<std::uint64_t> not_embedded_ = 0;
  std::atomic<std::uint64_t> demotions_ = 0;
};

}  // namespace afterimage
