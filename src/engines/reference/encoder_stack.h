// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <vector>

#include "engines/reference/matrix.h"
#include "engines/reference/reference_engine.h"

namespace afterimage {

/// Pre-norm transformer blocks with bidirectional attention: x += attention(norm(x)); x +=
/// silu(norm(x) · W1) · W2.
class EncoderStack {
 public:
  EncoderStack(const StackOptions& options, const Kernels& kernels, Rng rng);

  [[nodiscard]] std::size_t layers() const { return blocks_.size(); }
  [[nodiscard]] std::size_t width() const { return width_; }
  /// Runs one block over x, [rows, width], in place.
  void run(std::size_t layer, Matrix& x) const;

 private:
  struct Block {
    Floats attention_gain;
    PackedWeights query_key_value;  // [width, 3 * width]
    PackedWeights attention_out;
    Floats mlp_gain;
    PackedWeights mlp_in;
    PackedWeights mlp_out;
  };
  [[nodiscard]] Matrix attend(const Matrix& query_key_value) const;

  std::size_t width_;
  std::size_t heads_;
  const Kernels* kernels_;
  std::vector<Block> blocks_;
};

/// Encoder rows to decoder rows: silu(norm(x) · W1) · W2.
class Projector {
 public:
  Projector(std::size_t in, std::size_t hidden, const Kernels& kernels, Rng rng);
  [[nodiscard]] Matrix project(const Matrix& x) const;

 private:
  const Kernels* kernels_;
  Floats gain_;
  PackedWeights first_;
  PackedWeights second_;
};

/// Gains around 1, as after training.
[[nodiscard]] Floats random_gain(std::size_t size, Rng& rng);

}  // namespace afterimage
