// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/clock.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "caches/language/vetoes.h"
#include "caches/similarity/acceptance.h"
#include "caches/similarity/embedder.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// One kind of vectors that questions are compared by: of their words, or of what a model made of
/// them on its way.
struct SimilarityLayer {
  std::string name;  // as provenance tells it: "text", "embedding:prompt"
  std::size_t dimensions = 0;
  float threshold = 0.85F;  // neighbours below it are none
};

/// What becomes of the answer to a neighbour.
enum class SimilarityMode : unsigned char {
  kWatch,      // found and counted, compared with what the model says, never served
  kLearned,    // served while it is known to be right often enough: see acceptance.h
  kThreshold,  // always served: how often that is wrong, nobody knows. For experiments
};

/// "watch", "learned", "threshold".
std::string_view to_string(SimilarityMode mode);

struct SimilarityOptions {
  /// All must find the neighbour near enough: one alone would take any question about a picture for
  /// any other, or a word for the picture. At least one.
  std::vector<SimilarityLayer> layers;
  SimilarityMode mode = SimilarityMode::kWatch;
  AcceptanceOptions acceptance;
  double explore = 0.01;    // of what might be served, so much is asked all the same, for ever
  std::size_t nearest = 8;  // neighbours looked at, in each layer
  bool vetoes = true;       // false: for experiments
  std::uint64_t seed = 1;   // of the choice what to explore
  SharedBudget* shared = nullptr;
};

/// A neighbour, and what was thought of it.
struct Proposal {
  std::string candidate;          // its question, in its own words
  std::vector<float> similarity;  // by layer
  std::size_t layer = 0;          // the one that was nearest to its threshold
  std::vector<Veto> vetoes;
  WordChange change = WordChange::kReplaced;  // of the one that is judged
};

struct SimilarityLookup {
  std::optional<Answer> answer;  // served
  /// kMissed: no neighbour, or all were vetoed. kNotAllowed: only watched. kUnsure, kExplored:
  /// SimilarityMode::kLearned. kTooOld and the like as the answer cache has them.
  Verdict verdict = Verdict::kMissed;
  std::vector<Proposal> proposals;     // the nearest first
  std::optional<std::size_t> judged;   // the first of them that nothing spoke against
  std::optional<Judgement> judgement;  // SimilarityMode::kLearned
  std::optional<Answer> given;         // what it had been answered, served or not
  Duration age{0};                     // of that
  Duration saved{0};                   // what the answer had taken, if it was served
  Duration took{0};

  /// The layer that decided, as provenance tells it: "text". Empty: none.
  std::string source;
};

struct SimilarityStats {
  std::uint64_t lookups = 0;
  std::uint64_t skipped = 0;  // a layer had no vector
  std::uint64_t served = 0;
  std::uint64_t not_used = 0;  // there was one that nothing spoke against
  std::uint64_t missed = 0;
  std::uint64_t explored = 0;                          // of those not used
  std::array<std::uint64_t, kVetoes.size()> vetoed{};  // proposals, by reason
  Evidence learned;  // of all that was compared with what the model said
  std::uint64_t refused_no_room = 0;
  EntryCount entries;
  Bytes resident;  // of vectors and words, as charged
};

/// Answers of questions that look alike: neighbours by their vectors, in the same scope; what
/// speaks against them; and whether such neighbours have been right.
///
/// A neighbour proposes its question, and the answer comes from the answer cache alone: what was
/// erased there, or evicted, or is too old, cannot be served from here.
///
///   AnswerCache::find -> nothing -> SimilarityRung::find -> nothing -> the model
///     -> AnswerCache::insert -> SimilarityRung::insert, learn
///
/// Only for requests that may be served another's answer: see question.h.
///
/// Unit     Bytes of vectors, links and words, charged to the budget. Without room a question is
///          not found by likeness.
/// Errors   kInvalidArgument: vectors that are none, or not one a layer.
/// Threads  Any. One lock, never held while the answer cache is asked.
/// Cost     find: one search a layer in the scope's partition.
/// Source   src/semantic/DESIGN.md.
class SimilarityRung final : public AnswerObserver {
 public:
  /// All outlive the rung. kInvalidArgument: no layer, or a name twice.
  static Result<std::unique_ptr<SimilarityRung>> create(SimilarityOptions options,
                                                        AnswerCache& cache, MemoryBudget& budget,
                                                        const Clock& clock);
  ~SimilarityRung() override;
  SimilarityRung(const SimilarityRung&) = delete;
  SimilarityRung& operator=(const SimilarityRung&) = delete;

  /// `vectors`: one a layer, in order; an empty one where there is none, and then nothing is found.
  Result<SimilarityLookup> find(const Question& question, std::span<const Vector> vectors,
                                const LookupRules& rules = {});
  /// From now on the question is a neighbour. Its answer is in the cache.
  Result<void> insert(const Question& question, std::span<const Vector> vectors);
  /// What the model said in the end, where `found` was not served. True: the neighbour's answer
  /// was the same; absent: there was none to compare.
  std::optional<bool> learn(const Question& question, const SimilarityLookup& found,
                            const Answer& truth);

  void answer_left(const ScopeId& scope, std::string_view question) override;

  [[nodiscard]] const std::vector<SimilarityLayer>& layers() const { return options_.layers; }
  [[nodiscard]] SimilarityStats stats() const;
  void check_invariants() const;

 private:
  struct State;
  struct Partition;
  SimilarityRung(SimilarityOptions options, AnswerCache& cache, MemoryBudget& budget,
                 const Clock& clock);
  [[nodiscard]] Result<void> check(std::span<const Vector> vectors) const;
  [[nodiscard]] Result<std::vector<Proposal>> propose(const ScopeId& scope,
                                                      std::span<const Vector> vectors);
  [[nodiscard]] Verdict decide(const Question& question, SimilarityLookup& found);

  const SimilarityOptions options_;
  AnswerCache& cache_;
  MemoryBudget& budget_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::unique_ptr<State> state_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
