// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"
#include "engines/reference/decoder.h"

namespace afterimage {

/// A prompt whose spans have their embeddings: checked, and copied out of foreign memory, which may
/// be aligned for nothing.
class PromptRows {
 public:
  /// Embeddings of an image or video are 1 + `planes` tensors, those of a sound one. Spans that end
  /// at or before `covered` need none, and get no rows: nothing of them is computed.
  /// kInvalidArgument, naming the position or the span, if tokens are outside the vocabulary, stand
  /// for media where no span is, or if tensors are not what the spans promise.
  static Result<PromptRows> of(const Sequence& prompt, std::span<const TensorViews> embeddings,
                               std::size_t hidden, std::size_t planes, TokenCount covered = {});

  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  /// Valid while this lives.
  [[nodiscard]] std::span<const InputRow> rows() const { return rows_; }

 private:
  std::vector<InputRow> rows_;
  std::vector<std::vector<float>> copies_;  // what rows_ points into; growing moves no inner buffer
};

}  // namespace afterimage
