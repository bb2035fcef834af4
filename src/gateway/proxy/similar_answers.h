// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/reuse.h"
#include "caches/similarity/embedder.h"
#include "caches/similarity/similarity.h"
#include "gateway/config/settings.h"

namespace afterimage {

/// A question by its vector, and what was found for it.
struct SimilarLookup {
  std::vector<Vector> vectors;
  SimilarityLookup found;
};

struct SimilarAnswersStats {
  SimilarityStats rung;
  std::uint64_t not_embedded = 0;  // questions whose embedder failed or was too slow
  std::uint64_t demotions = 0;     // wrong answers that were served, and ended the evidence
};

/// The gateway's look-up by similarity: embeds a question, proposes the answer to a similar one of
/// the same scope, and compares proposals that were not served with what the model says.
///
///   find -> served, or the model answers -> learn, insert
///
/// In shadow mode nothing is served. A served answer that turns out to be wrong ends the evidence:
/// nothing is served until new evidence allows it.
///
/// Errors   create: kInvalidArgument: the embedder cannot be used. find: none; a question without a
///          vector finds nothing.
/// Threads  Any.
/// Source   src/gateway/proxy/DESIGN.md, src/caches/similarity/DESIGN.md.
class SimilarAnswers {
 public:
  /// nullptr: similarity.mode is off. `model`: of the settings' embedder, if that is a file.
  /// `reuse` has an answer cache, and outlives the object.
  static Result<std::unique_ptr<SimilarAnswers>> create(const SimilaritySettings& settings,
                                                        std::unique_ptr<Embedder> model,
                                                        const std::string& key, Reuse& reuse,
                                                        const Clock& clock);

  /// Whether find() takes milliseconds, or waits for a server.
  [[nodiscard]] bool waits() const { return waits_; }
  /// nullopt: the question has no vector.
  [[nodiscard]] std::optional<SimilarLookup> find(const Question& question,
                                                  const LookupRules& rules);
  /// The model's answer to a question for which `lookup` was made: evidence, and a new candidate.
  /// The answer is in the cache.
  void learn(const Question& question, const SimilarLookup& lookup, std::string_view answer);
  /// What the model says to a question that `lookup` has served: evidence, or its end.
  /// True: the same.
  bool verify(const Question& question, const SimilarLookup& lookup, std::string_view answer);

  [[nodiscard]] SimilarAnswersStats stats() const;

 private:
  /// nullopt: there was nothing to compare.
  std::optional<bool> compare(const Question& question, const SimilarLookup& lookup,
                              std::string_view answer);
  SimilarAnswers(std::unique_ptr<Embedder> embedder, std::unique_ptr<SimilarityRung> rung,
                 bool waits);

  std::unique_ptr<Embedder> embedder_;
  std::unique_ptr<SimilarityRung> rung_;
  bool waits_;
  std::atomic<std::uint64_t> not_embedded_ = 0;
  std::atomic<std::uint64_t> demotions_ = 0;
};

}  // namespace afterimage
