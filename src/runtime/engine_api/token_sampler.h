// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <vector>

#include "afterimage/engine.h"
#include "foundation/platform/random.h"

namespace afterimage {

/// The token with the highest logit; of equal ones the lowest id.
[[nodiscard]] TokenId most_likely(std::span<const float> logits);

/// How many tokens the answer may have: `most`, or with kNoTokenLimit what the context still holds.
/// kLimitExceeded: the prompt and `most` more do not fit the context.
Result<TokenCount> answer_limit(const Sequence& prompt, TokenCount most, TokenCount context);

/// A seed for a request that names none.
[[nodiscard]] std::uint64_t any_seed();

/// The prompt's tokens without those that stand for media.
[[nodiscard]] std::vector<TokenId> text_tokens_of(const Sequence& prompt);

/// Chooses an answer's tokens: biases, penalties, then top_k, top_p and min_p, then a draw at the
/// temperature. Reads the prompt's tokens only, so a run that resumes from cached KV draws the same.
/// Cost     O(vocabulary); with a temperature, a sort of the candidates.
/// Threads  One at a time.
class TokenSampler {
 public:
  /// `options` outlives it.
  TokenSampler(const SamplingOptions& options, const Sequence& prompt);
  [[nodiscard]] TokenId next(std::span<const float> logits);

 private:
  struct Candidate {
    TokenId token;
    float logit;
  };
  void penalize(std::vector<float>& logits) const;
  [[nodiscard]] std::vector<Candidate> candidates(std::span<const float> logits) const;
  [[nodiscard]] TokenId draw(std::span<const Candidate> candidates);

  const SamplingOptions& options_;
  std::vector<TokenId> history_;
  Rng random_;
};

}  // namespace afterimage
