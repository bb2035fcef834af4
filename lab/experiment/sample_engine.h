// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/answer.h"
#include "afterimage/result.h"
#include "lab/datasets/sample.h"

namespace afterimage {

/// What a model makes of a sample.
enum class EngineState : unsigned char {
  kVision,  // of the image: the encoder's output, averaged over its tokens
  kPrompt,  // of the prompt without the image: Engine::hidden_state()
  kFusion,  // of both
};

/// The engine that answers when nothing is served from the cache.
class SampleEngine {
 public:
  virtual ~SampleEngine() = default;
  virtual Result<Answer> answer(const Sample& sample, const std::string& prompt) = 0;
  /// Of the prompt of the last answer, the tokens that the engine did not compute again; nullopt: it
  /// does not say.
  [[nodiscard]] virtual std::optional<std::uint64_t> reused_tokens() const { return std::nullopt; }
  /// The model that answers; empty: the one that the experiment names.
  [[nodiscard]] virtual std::string model() const { return {}; }
  /// A vector of length 1; empty: the sample has no image, and the state is of one. kUnsupported:
  /// the engine does not expose its states, which is the default.
  virtual Result<std::vector<float>> state(const Sample& sample, const std::string& prompt,
                                           EngineState which);
  /// False: state() is kUnsupported.
  [[nodiscard]] virtual bool shows_states() const { return false; }
  /// Answers come from the data set; no model runs.
  [[nodiscard]] virtual bool is_oracle() const { return false; }
};

/// Answers with the data set's own answer, which counts as correct, so every wrong answer is caused
/// by reuse. kNotFound: the data set has no answer.
class OracleEngine final : public SampleEngine {
 public:
  Result<Answer> answer(const Sample& sample, const std::string& prompt) override;
  [[nodiscard]] bool is_oracle() const override { return true; }
};

}  // namespace afterimage
