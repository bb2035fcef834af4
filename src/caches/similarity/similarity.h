// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/clock.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "caches/answers/answer_observer.h"
#include "caches/language/vetoes.h"
#include "caches/similarity/acceptance.h"
#include "caches/similarity/embedder.h"
#include "caches/similarity/similar_page.h"
#include "caches/similarity/verifier.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// One kind of vector by which questions are compared: of their text, or of a model's hidden layer.
struct SimilarityLayer {
  std::string name;  // as in provenance: "text", "embedding:prompt"
  std::size_t dimensions = 0;
  float threshold = 0.85F;  // minimum cosine of a neighbour
};

/// What is done with a similar question's answer.
enum class SimilarityMode : unsigned char {
  kWatch,      // counted and compared with the model's answer, never served
  kLearned,    // served while the evidence allows it: see acceptance.h
  kThreshold,  // always served, with unknown error rate. For experiments
};

/// "watch", "learned", "threshold".
std::string_view to_string(SimilarityMode mode);

struct SimilarityOptions {
  /// Every layer must find the neighbour similar enough: one layer alone would match any question
  /// about an image, or ignore the image. At least one layer.
  std::vector<SimilarityLayer> layers;
  SimilarityMode mode = SimilarityMode::kWatch;
  AcceptanceOptions acceptance;
  /// Share of acceptable matches that the model answers anyway, to keep gathering evidence.
  double explore = 0.01;
  std::size_t nearest = 8;  // neighbours examined per layer
  bool vetoes = true;       // false: for experiments
  /// Reads the question and each neighbour without a veto; of those with at least this score the
  /// surest is judged. nullptr: the first of SimilarityLookup::proposals is. Outlives the match level.
  Verifier* verifier = nullptr;
  float verifier_threshold = 0.5F;
  bool verifier_overrules_vetoes = false;  // it also reads neighbours with a veto
  /// The only words in which questions may differ that are similar, whatever the verifier says;
  /// empty: any. With them 64 neighbours are examined, and the nearest of those that differ in no
  /// other words are read; question words are no veto but for those that may not differ. Without a
  /// verifier the most similar of them is judged, by the evidence of all such matches together.
  WordSet may_differ;
  std::uint64_t seed = 1;  // of the exploration
  SharedBudget* shared = nullptr;
  /// Brings a candidate's answer into the cache from where it is stored. Called without a lock, for
  /// a candidate whose answer is not in memory; empty: there is no such place.
  std::function<void(Question& candidate, const LookupRules& rules)> bring;
};

/// A similar question, and its evaluation.
struct Proposal {
  std::string candidate;          // its exact text
  std::vector<float> similarity;  // by layer
  std::size_t layer = 0;          // the layer closest to its threshold
  std::vector<Veto> vetoes;
  std::optional<float> score = {};            // the verifier's, if it was asked
  WordChange change = WordChange::kReplaced;  // of the judged proposal
};

/// What the verifier said of the proposals that it read.
enum class Verification : unsigned char {
  kNone,         // there is no verifier, or nothing to read
  kAccepted,     // one is judged
  kRefused,      // none reached the threshold
  kUnavailable,  // it did not answer in time, or not with valid scores: none is judged
};
/// "", "accepted", "refused", "unavailable".
std::string_view to_string(Verification verification);

/// A candidate near a wrong answer.
struct Suspect {
  std::string candidate;
  SimilarityKind kind;
};

struct SimilarityLookup {
  std::optional<Answer> answer;  // served
  /// kMissed: no neighbour, or all were vetoed or refused. kNotAllowed: SimilarityMode::kWatch. kInsufficientEvidence,
  /// kExplored: SimilarityMode::kLearned. Others, like kTooOld, come from the answer cache.
  Verdict verdict = Verdict::kMissed;
  /// Those with the same words first (WordChange::kNone) unless only some may differ; then the most
  /// similar first.
  std::vector<Proposal> proposals;
  std::optional<std::size_t> judged;  // the first proposal without a veto, or the surest verified
  Verification verification = Verification::kNone;
  std::string verifier_error;          // Verification::kUnavailable: why
  std::optional<Judgement> judgement;  // SimilarityMode::kLearned
  std::optional<Answer> given;         // the candidate's answer, served or not
  Duration age{0};                     // of the candidate's answer
  Duration saved{0};                   // cost of the answer, if it was served
  Duration took{0};
  Duration verified_in{0};  // time that the verifier took

  /// Name of the deciding layer. Empty: none.
  std::string source;
};

struct SimilarityStats {
  std::uint64_t lookups = 0;
  std::uint64_t skipped = 0;  // a layer had no vector
  std::uint64_t served = 0;
  std::uint64_t not_used = 0;  // a proposal without a veto existed
  std::uint64_t missed = 0;
  std::uint64_t explored = 0;                          // part of not_used
  std::array<std::uint64_t, kVetoes.size()> vetoed{};  // proposals, by reason
  std::uint64_t verified = 0;      // look-ups that the verifier accepted a proposal of,
  std::uint64_t refused = 0;       // that it refused all of,
  std::uint64_t not_verified = 0;  // or did not answer
  Evidence learned;                // of all comparisons with the model's answers
  std::uint64_t refused_no_space = 0;
  EntryCount entries;
  Bytes resident;  // of vectors and texts, as charged
};

/// Semantic answer cache: finds similar questions of the same scope by their vectors, drops those
/// with a veto, and serves an answer only while the evidence says that such matches are right.
///
/// It stores questions only. The answer comes from the answer cache, so an answer that was erased,
/// evicted or is too old there cannot be served from here. SimilarityArchive stores candidates and
/// evidence below memory.
///
///   AnswerCache::find -> miss -> SimilarityLevel::find -> miss -> the model
///     -> AnswerCache::insert -> SimilarityLevel::insert, learn
///
/// With a verifier only what it accepts is served and is evidence; if it fails, nothing is.
///
/// Use it only for requests whose sampling allows it: see question.h.
///
/// Unit     Bytes of vectors, links and texts, charged to the budget. A question that does not fit
///          is not found by similarity.
/// Errors   kInvalidArgument: invalid vectors, or not one per layer.
/// Threads  Any. One lock, never held while the answer cache or the verifier is called.
/// Cost     find: one search per layer in the scope's partition; one call of the verifier, if a
///          neighbour has no veto.
/// Source   src/caches/similarity/DESIGN.md.
class SimilarityLevel final : public AnswerObserver {
 public:
  /// All arguments must outlive the match level. kInvalidArgument: no layer, or a duplicate name.
  static Result<std::unique_ptr<SimilarityLevel>> create(SimilarityOptions options,
                                                         AnswerCache& cache, MemoryBudget& budget,
                                                         const Clock& clock);
  ~SimilarityLevel() override;
  SimilarityLevel(const SimilarityLevel&) = delete;
  SimilarityLevel& operator=(const SimilarityLevel&) = delete;

  /// `vectors`: one per layer, in order; if one is empty, nothing is found.
  Result<SimilarityLookup> find(const Question& question, std::span<const Vector> vectors,
                                const LookupRules& rules = {});
  /// The result that find() would return now, but for its exploration. Counts, brings and removes
  /// nothing.
  Result<SimilarityLookup> peek(const Question& question, std::span<const Vector> vectors,
                                const LookupRules& rules = {});
  /// Adds the question as a candidate. Its answer must be in the cache.
  Result<void> insert(const Question& question, std::span<const Vector> vectors);
  /// Records the model's answer as evidence, if `found` was not served. True: the candidate's
  /// answer was the same; nullopt: there was none to compare.
  std::optional<bool> learn(const Question& question, const SimilarityLookup& found,
                            const Answer& truth);

  /// The same where somebody else compared them; also if `found` was served. Requires `found.judged`.
  void learn(const Question& question, const SimilarityLookup& found, bool right);
  /// Somebody says that the answer to `question` is wrong: the neighbours that could be judged
  /// have one wrong answer each, so that they are served by their own evidence only. Returns them.
  Result<std::vector<Suspect>> suspect(const Question& question, std::span<const Vector> vectors);

  /// After a served answer turned out to be wrong: nothing is served until new evidence allows it.
  void forget_evidence();

  /// A candidate that another process inserted, with its evidence, which replaces the match level's own.
  /// Its answer need not be in the cache. True: the match level did not have it.
  Result<bool> restore(const ScopeId& scope, const SimilarCandidate& candidate);
  /// What restore() takes, of a question that the match level has; nullopt: it does not.
  [[nodiscard]] std::optional<SimilarCandidate> candidate(const ScopeId& scope,
                                                          std::string_view question) const;
  /// Whether vectors are as the layers say; an empty one is absent.
  [[nodiscard]] bool accepts(std::span<const Vector> vectors) const {
    return check(vectors).has_value();
  }
  /// Of all scopes.
  [[nodiscard]] EvidenceTable evidence() const;
  /// The evidence of all scopes, by all processes that share it. Replaces the match level's own.
  void take_evidence(const EvidenceTable& everything);
  /// The kind of match that learn() records. Requires `found.judged`.
  [[nodiscard]] static SimilarityKind kind_of(const Question& question,
                                              const SimilarityLookup& found);

  void answer_removed(const ScopeId& scope, std::string_view question) override;

  [[nodiscard]] const std::vector<SimilarityLayer>& layers() const { return options_.layers; }
  /// What evidence depends on, besides the layers: the verifier, its threshold and whether it
  /// overrules vetoes, and the words that may differ, without a verifier with the layers'
  /// thresholds; empty: neither.
  [[nodiscard]] std::string verified_by() const;
  [[nodiscard]] SimilarityStats stats() const;
  void check_invariants() const;

 private:
  struct State;
  struct Partition;
  SimilarityLevel(SimilarityOptions options, AnswerCache& cache, MemoryBudget& budget,
                  const Clock& clock);
  [[nodiscard]] Result<void> check(std::span<const Vector> vectors) const;
  [[nodiscard]] Result<std::vector<Proposal>> propose(const ScopeId& scope,
                                                      std::span<const Vector> vectors);
  [[nodiscard]] Result<void> judge_proposals(const Question& question,
                                             std::span<const Vector> vectors,
                                             SimilarityLookup& found);
  /// Whether a veto keeps a neighbour from being judged.
  [[nodiscard]] bool forbids(const std::vector<Veto>& vetoes) const;
  /// Says why each proposal cannot be judged, and drops those beyond `nearest`: of proposals with
  /// other words than may_differ first.
  void find_vetoes(const Question& question, std::vector<Proposal>& proposals) const;
  static void same_words_first(const Question& question, std::vector<Proposal>& proposals);
  /// The proposal to be judged; nullopt: none.
  [[nodiscard]] std::optional<std::size_t> choose(const Question& question,
                                                  SimilarityLookup& found);
  [[nodiscard]] std::optional<std::size_t> verify(const Question& question,
                                                  SimilarityLookup& found);
  [[nodiscard]] Verdict decide(const Question& question, SimilarityLookup& found);
  [[nodiscard]] AnswerLookup answer_of(Question& candidate, const LookupRules& rules, bool serve);
  /// The verdict of exploration.
  [[nodiscard]] bool explores();
  void count(const SimilarityLookup& found, bool skipped);
  Result<Reservation> reserve(std::string_view question);

  const SimilarityOptions options_;
  AnswerCache& cache_;
  MemoryBudget& budget_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::unique_ptr<State> state_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
