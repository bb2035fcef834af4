// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "afterimage/engine.h"
#include "foundation/text/valid_text.h"
#include "runtime/engine_api/stop_texts.h"

namespace afterimage {

/// The log probabilities of `chosen` and of the `top` most likely tokens. `bytes_of` spells a token.
/// Cost     O(vocabulary).
[[nodiscard]] TokenLogprobs logprobs_of(std::span<const float> logits, TokenId chosen,
                                        std::uint32_t top,
                                        const std::function<std::string(TokenId)>& bytes_of);

/// Writes an answer's text as its tokens come: in whole characters, up to the first stop text.
/// Threads  One at a time.
class AnswerWriter {
 public:
  /// Both outlive it. It fills `completion`'s text, `stopped` and `ended` (if a stop text was found).
  AnswerWriter(const GenerateOptions& options, Completion& completion);

  /// kCancelled: the client no longer wants the answer.
  Result<void> add(std::string_view bytes);
  /// Reports a token, before its text.
  void add(TokenLogprobs token);
  /// The text that was held back.
  Result<void> finish();

 private:
  Result<void> emit(const std::string& text);

  const GenerateOptions& options_;
  Completion& completion_;
  TextPieces pieces_;
  StopTexts stops_;
};

}  // namespace afterimage
