// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gateway/prompts/divergence.h"

namespace afterimage {

/// What became of a prompt in the prefix cache, compared with the prompt of a response that the client
/// names. Each protocol has its own words for it.
struct PromptDiagnosis {
  enum class State : unsigned char {
    kNotAsked,     // there is no response to compare with
    kAnswered,     // a stored answer was served: nothing was computed
    kNotFound,     // the client has no such response, or it is no longer known
    kNotCompared,  // its prompt is not known
    kCompared,
  };
  State state = State::kNotAsked;
  PromptDivergence divergence = {};  // of kCompared

  /// The prompt does not begin with the whole earlier one.
  [[nodiscard]] bool is_changed() const {
    return state == State::kCompared && divergence.part.has_value();
  }
  /// `bytes` of the prompt in tokens, of which it has `prompt_tokens`; 0: that is not known yet, and a token
  /// counts as four bytes.
  [[nodiscard]] std::uint64_t tokens_of(std::uint64_t bytes, std::uint64_t prompt_tokens) const;
};

/// Anthropic's `diagnostics`: an object with the reason, or null where nothing has changed.
[[nodiscard]] std::string messages_diagnostics(const PromptDiagnosis& diagnosis,
                                               std::uint64_t prompt_tokens);
/// OpenAI's `prompt_cache_diagnostics` of a response.
[[nodiscard]] std::string responses_diagnostics(const PromptDiagnosis& diagnosis,
                                                std::uint64_t prompt_tokens);

}  // namespace afterimage
