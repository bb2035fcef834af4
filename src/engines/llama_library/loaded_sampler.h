// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <span>
#include <string>

#include "afterimage/engine.h"
#include "engines/llama_library/loaded_model.h"

namespace afterimage {

/// llama-server's defaults.
[[nodiscard]] SamplingOptions default_llama_sampling();

/// Chooses the tokens of one answer with the library's samplers: biases, penalties, top_k, top_p,
/// min_p, temperature, a draw. Depends on the seed, the prompt's text tokens and the logits only, so
/// a run that resumes from cached KV draws the same tokens. Keeps to the grammar of the request's
/// ChatFormat, if it has one.
///
/// Errors   kInvalidArgument: a bias for a token that is not in the vocabulary, or a grammar that the
///          library cannot read.
/// Threads  One at a time.
class LoadedSampler {
 public:
  /// All arguments outlive it.
  static Result<LoadedSampler> create(const LoadedModel& model, const GenerateOptions& options,
                                      const Sequence& prompt);
  ~LoadedSampler();
  LoadedSampler(LoadedSampler&&) noexcept;
  LoadedSampler& operator=(LoadedSampler&&) noexcept;

  Result<TokenId> next(std::span<const float> logits);
  /// A token's bytes in the answer's text.
  [[nodiscard]] std::string bytes_of(TokenId token) const;

 private:
  struct State;
  explicit LoadedSampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
