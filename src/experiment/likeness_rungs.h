// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/experiment/image_roots.h"
#include "afterimage/experiment/sample.h"
#include "afterimage/experiment/spec.h"
#include "afterimage/experiment/technique.h"
#include "afterimage/memory/budget.h"
#include "afterimage/platform/clock.h"
#include "afterimage/semantic/answer_cache.h"

namespace afterimage {

/// What a rung found that may stand for an answer.
struct LikeAnswer {
  Answer answer;
  std::string source;     // "text", "embedding:prompt", "embedding:prompt+vision"
  std::string candidate;  // the key it was kept under
  double score = 0;       // of the layer that is least alike
};

/// The rungs behind those of text: likeness of the key, and of latent layers, all of which have to
/// agree on one candidate. They look for candidates in the question's scope only.
class LikenessRungs {
 public:
  virtual ~LikenessRungs() = default;
  /// Notes in `techniques` what each layer made of it. nullopt: nothing is like enough.
  virtual Result<std::optional<LikeAnswer>> find(Question& question, const Sample& sample,
                                                 Techniques& techniques) = 0;
  /// After the answer has been kept.
  virtual Result<void> insert(Question& question, const Sample& sample) = 0;
  /// What a person should know of them: which model of likeness stands in for which.
  [[nodiscard]] virtual std::vector<std::string> remarks() const = 0;
};

/// The rungs that a spec asks for. `spec`, `cache`, `budget`, `clock` and `images` outlive them.
///
/// Errors   kInvalidArgument: a layer whose vectors would have other dimensions than it says.
Result<std::unique_ptr<LikenessRungs>> make_likeness_rungs(const ExperimentSpec& spec,
                                                           AnswerCache& cache, MemoryBudget& budget,
                                                           const Clock& clock,
                                                           const ImageRoots& images);

}  // namespace afterimage
