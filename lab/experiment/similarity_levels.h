// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <optional>
#include <span>
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

/// What the match levels work with. All but the samples outlive them.
struct SimilarityLevelsDependencies {
  AnswerCache& cache;
  MemoryBudget& budget;
  const Clock& clock;
  const ImageRoots& images;
  SampleEngine& engine;
  Embedder* text_encoder = nullptr;   // nullptr: hashed n-grams
  std::span<const Sample> samples{};  // an engine's dimensions are those of its states of one
};

/// A cached answer found by similarity.
struct SimilarAnswer {
  Answer answer;
  std::string source;     // "text"; "embedding:prompt": the layer with the lowest score
  std::string candidate;  // key of the cached answer
  double score = 0;       // cosine similarity in that layer
};

/// The match levels after the text levels: similarity of latent layers, which must all agree on one
/// candidate, then of the engine's state of image and question, then of keys. Candidates are from
/// the question's scope.
///
/// Threads  One at a time, one sample after the other: insert() and learn() refer to the last
///          look-up.
class SimilarityLevels {
 public:
  /// Errors   kInvalidArgument: a layer's vectors have other dimensions than it says; kUnsupported:
  ///          the hook is "engine", and the engine does not expose its states.
  static Result<std::unique_ptr<SimilarityLevels>> create(
      const ExperimentSpec& spec, const SimilarityLevelsDependencies& dependencies);

  /// Adds each layer's result to `techniques`. nullopt: nothing is similar enough.
  Result<std::optional<SimilarAnswer>> find(const Question& question, const Sample& sample,
                                            const std::string& prompt, Techniques& techniques);
  /// Call after the answer was inserted.
  Result<void> insert(const Question& question);
  /// In order of look-up.
  [[nodiscard]] std::vector<SimilarityLevel*> all() const;
  /// Compares the candidates of the last look-up with the engine's answer.
  void learn(const Question& question, const Answer& truth);

 private:
  /// One match level, with its results for the last look-up.
  struct Level {
    std::unique_ptr<SimilarityLevel> level;
    std::unique_ptr<LayerVectors> layer_vectors;
    std::vector<Vector> vectors;
    std::optional<SimilarityLookup> found;
  };
  SimilarityLevels() = default;
  static Result<Level> text_level(const ExperimentSpec& spec,
                                  const SimilarityLevelsDependencies& dependencies);
  static Result<Level> latent_level(const ExperimentSpec& spec,
                                    const SimilarityLevelsDependencies& dependencies);
  static Result<Level> fusion_level(const ExperimentSpec& spec,
                                    const SimilarityLevelsDependencies& dependencies);
  static Result<std::optional<SimilarAnswer>> ask(Level& level, const Question& question,
                                                  const SampleToEmbed& sample,
                                                  Techniques& techniques);

  std::vector<Level> levels_;  // in order of look-up
};

}  // namespace afterimage
