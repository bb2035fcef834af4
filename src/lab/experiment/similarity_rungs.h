// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/memory_budget.h"
#include "caches/similarity/similarity.h"
#include "lab/datasets/sample.h"
#include "lab/experiment/layer_vectors.h"
#include "lab/experiment/spec.h"
#include "lab/experiment/technique.h"

namespace afterimage {

/// What a rung found that may stand for an answer.
struct LikeAnswer {
  Answer answer;
  std::string source;     // "text"; "embedding:prompt": the layer that finds it least alike
  std::string candidate;  // the key it was kept under
  double score = 0;       // cosine, in that layer
};

/// The rungs behind those of text, as an experiment asks for them: likeness of latent layers, all
/// of which have to agree on one candidate, and then of keys. Candidates are of the question's
/// scope.
///
/// Threads  One at a time, one sample after the other: insert and learn are about the sample that
///          was looked up last.
class SimilarityRungs {
 public:
  /// `cache`, `budget`, `clock` and `images` outlive the rungs.
  ///
  /// Errors   kInvalidArgument: a layer whose vectors have other dimensions than it says.
  static Result<std::unique_ptr<SimilarityRungs>> create(const ExperimentSpec& spec,
                                                         AnswerCache& cache, MemoryBudget& budget,
                                                         const Clock& clock,
                                                         const ImageRoots& images);

  /// Notes in `techniques` what each layer made of it. nullopt: nothing is like enough.
  Result<std::optional<LikeAnswer>> find(const Question& question, const Sample& sample,
                                         const std::string& prompt, Techniques& techniques);
  /// After the answer has been kept.
  Result<void> insert(const Question& question);
  /// What the engine said in the end.
  void learn(const Question& question, const Answer& truth);

 private:
  /// One rung, with what it made of the sample that was looked up last.
  struct Rung {
    std::unique_ptr<SimilarityRung> rung;
    std::unique_ptr<LayerVectors> makes;
    std::vector<Vector> vectors;
    std::optional<SimilarityLookup> found;
  };
  SimilarityRungs() = default;
  static Result<Rung> text_rung(const ExperimentSpec& spec, AnswerCache& cache,
                                MemoryBudget& budget, const Clock& clock);
  static Result<Rung> latent_rung(const ExperimentSpec& spec, AnswerCache& cache,
                                  MemoryBudget& budget, const Clock& clock,
                                  const ImageRoots& images);
  static Result<std::optional<LikeAnswer>> ask(Rung& rung, const Question& question,
                                               const SampleToEmbed& sample, Techniques& techniques);

  std::vector<Rung> rungs_;  // in the order in which they are asked
};

}  // namespace afterimage
