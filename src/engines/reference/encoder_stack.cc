// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/encoder_stack.h"

#include <algorithm>
#include <cmath>

namespace afterimage {
namespace {

// Queries processed together, so that the scores of a strip stay in the CPU caches.
constexpr std::size_t kStrip = 32;

std::size_t round_up(std::size_t n, std::size_t step) { return (n + step - 1) / step * step; }

// Keys of one head as panels: 32 rows of x side by side, panel after panel.
Floats transposed_keys(const Matrix& x, std::size_t first_column, std::size_t head_dim) {
  Floats panels(round_up(x.rows(), kPanelColumns) * head_dim);
  for (std::size_t j = 0; j < x.rows(); ++j) {
    float* column =
        panels.data() + j / kPanelColumns * head_dim * kPanelColumns + j % kPanelColumns;
    const float* key = x.row(j) + first_column;
    for (std::size_t d = 0; d < head_dim; ++d) column[d * kPanelColumns] = key[d];
  }
  return panels;
}

void silu_all(Matrix& x, const Kernels& kernels) {
  for (std::size_t i = 0; i < x.rows(); ++i) kernels.silu(x.row(i), x.columns());
}

}  // namespace

Floats random_gain(std::size_t size, Rng& rng) { return random_floats(size, 0.8F, 1.2F, rng); }

EncoderStack::EncoderStack(const StackOptions& options, const Kernels& kernels, Rng rng)
    : width_(options.width), heads_(options.heads), kernels_(&kernels) {
  for (std::uint32_t layer = 0; layer < options.layers; ++layer) {
    blocks_.push_back({.attention_gain = random_gain(width_, rng),
                       .query_key_value = PackedWeights::random(width_, 3 * width_, rng),
                       .attention_out = PackedWeights::random(width_, width_, rng),
                       .mlp_gain = random_gain(width_, rng),
                       .mlp_in = PackedWeights::random(width_, options.mlp, rng),
                       .mlp_out = PackedWeights::random(options.mlp, width_, rng)});
  }
}

void EncoderStack::run(std::size_t layer, Matrix& x) const {
  const Block& block = blocks_[layer];
  const Matrix attended = attend(
      block.query_key_value.times(normalized(x, block.attention_gain, *kernels_), *kernels_));
  add(x, block.attention_out.times(attended, *kernels_));
  Matrix inner = block.mlp_in.times(normalized(x, block.mlp_gain, *kernels_), *kernels_);
  silu_all(inner, *kernels_);
  add(x, block.mlp_out.times(inner, *kernels_));
}

Matrix EncoderStack::attend(const Matrix& query_key_value) const {
  const std::size_t rows = query_key_value.rows();
  const std::size_t columns = query_key_value.columns();
  const std::size_t head_dim = width_ / heads_;
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  Matrix result(rows, width_);
  Matrix scores(kStrip, round_up(rows, kPanelColumns));
  for (std::size_t head = 0; head < heads_; ++head) {
    const Floats keys = transposed_keys(query_key_value, width_ + head * head_dim, head_dim);
    const Panels values{.at = query_key_value.row(0) + 2 * width_ + head * head_dim,
                        .row_stride = columns,
                        .panel_stride = kPanelColumns};
    for (std::size_t first = 0; first < rows; first += kStrip) {
      const std::size_t here = std::min(kStrip, rows - first);
      kernels_->product(query_key_value.row(first) + head * head_dim, columns, here,
                        {.at = keys.data(),
                         .row_stride = kPanelColumns,
                         .panel_stride = head_dim * kPanelColumns},
                        head_dim, rows, scores.row(0), scores.columns());
      for (std::size_t i = 0; i < here; ++i) {
        for (std::size_t j = 0; j < rows; ++j) scores.row(i)[j] *= scale;
        kernels_->softmax(scores.row(i), rows);
      }
      kernels_->product(scores.row(0), scores.columns(), here, values, rows, head_dim,
                        result.row(first) + head * head_dim, width_);
    }
  }
  return result;
}

Projector::Projector(std::size_t in, std::size_t hidden, const Kernels& kernels, Rng rng)
    : kernels_(&kernels),
      gain_(random_gain(in, rng)),
      first_(PackedWeights::random(in, in, rng)),
      second_(PackedWeights::random(in, hidden, rng)) {}

Matrix Projector::project(const Matrix& x) const {
  Matrix inner = first_.times(normalized(x, gain_, *kernels_), *kernels_);
  silu_all(inner, *kernels_);
  return second_.times(inner, *kernels_);
}

}  // namespace afterimage
