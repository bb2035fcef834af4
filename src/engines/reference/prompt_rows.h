// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"
#include "engines/reference/decoder.h"

namespace afterimage {

/// A prompt and its spans' embeddings, validated and copied, because the caller's memory may be
/// unaligned.
class PromptRows {
 public:
  struct Wanted {
    std::size_t hidden = 0;
    std::size_t planes = 0;
    TokenCount covered{};
    std::span<const MovedMedia> moved = {};
    bool places = false;  // rows have the places of M-RoPE
  };
  /// Embeddings of an image or video are 1 + `planes` tensors, those of audio one. Spans that end
  /// at or before `covered`, and moved ones of which no token is computed, need none and get no rows.
  ///
  /// Errors   kInvalidArgument, naming the position or the span: a token outside the vocabulary, a
  ///          placeholder outside a span, or tensors that do not match their span.
  static Result<PromptRows> of(const Sequence& prompt, std::span<const TensorViews> embeddings,
                               const Wanted& wanted);
  static Result<PromptRows> of(const Sequence& prompt, std::span<const TensorViews> embeddings,
                               std::size_t hidden, std::size_t planes, TokenCount covered = {}) {
    return of(prompt, embeddings, {.hidden = hidden, .planes = planes, .covered = covered});
  }

  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  /// Valid while this lives.
  [[nodiscard]] std::span<const InputRow> rows() const { return rows_; }
  /// The place after the last token. Requires Wanted::places.
  [[nodiscard]] TokenPlace end() const { return places_.back(); }

 private:
  std::vector<InputRow> rows_;
  /// Rows_ points into these; growing the outer vector moves no inner buffer.
  std::vector<std::vector<float>> copies_;
  std::vector<TokenPlace> places_;
};

}  // namespace afterimage
