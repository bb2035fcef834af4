// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/decoder.h"

#include <algorithm>
#include <cmath>

#include "afterimage/result.h"
#include "engines/reference/angle.h"
#include "engines/reference/encoder_stack.h"

namespace afterimage {

Matrix Decoder::forward(DecoderState& state, std::span<const InputRow> inputs) const {
  AFI_CHECK(state.layers.size() == layers_.size());
  Matrix x = embed(inputs);
  const Rotation angles = rotation(state.covered, inputs);
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    add(x, mix(layer, normalized(x, layers_[layer].mixer_gain, *kernels_), angles, state));
    add(x, gated_mlp(layers_[layer], normalized(x, layers_[layer].mlp_gain, *kernels_)));
    if (layer >= kMaxDeepstackPlanes) continue;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const float* plane = inputs[i].planes[layer];
      if (plane == nullptr) continue;
      for (std::size_t c = 0; c < hidden(); ++c) x.row(i)[c] += plane[c];
    }
  }
  state.covered += inputs.size();
  drop_unneeded_rows(state);
  return x;
}

Matrix Decoder::logits(const Matrix& hidden) const {
  return head_.times(normalized(hidden, final_gain_, *kernels_), *kernels_);
}

DecoderState Decoder::start() const {
  DecoderState state;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (std::holds_alternative<RecurrentWeights>(layers_[layer].mixer)) {
      state.layers.emplace_back(RecurrentState(hidden()));
    } else if (owner_of(layer) == layer) {
      state.layers.emplace_back(LayerRows(options_.kv_heads, options_.head_dim));
    } else {
      state.layers.emplace_back(std::monostate());
    }
  }
  return state;
}

std::size_t Decoder::owner_of(std::size_t layer) const {
  const auto* shared = std::get_if<SharedAttention>(&options_.layers[layer]);
  return shared != nullptr ? shared->with : layer;
}

std::size_t Decoder::needed_from(std::size_t layer, std::size_t covered) const {
  const auto* sliding = std::get_if<SlidingAttention>(&options_.layers[owner_of(layer)]);
  if (sliding == nullptr) return 0;
  return covered - std::min<std::size_t>(covered, sliding->window);
}

// Runs only after every layer: early tokens of this call, also in layers that share these rows,
// look further back than the next token will.
void Decoder::drop_unneeded_rows(DecoderState& state) const {
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (auto* rows = std::get_if<LayerRows>(&state.layers[layer])) {
      rows->drop_before(needed_from(layer, state.covered));
    }
  }
}

Matrix Decoder::embed(std::span<const InputRow> inputs) const {
  Matrix x(inputs.size(), hidden());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const float* from = inputs[i].media;
    if (from == nullptr) {
      const auto id = static_cast<std::size_t>(inputs[i].token);
      AFI_CHECK(id < embeddings_.rows());
      from = embeddings_.row(id);
    }
    std::copy_n(from, hidden(), x.row(i));
  }
  return x;
}

Decoder::Rotation Decoder::rotation(std::size_t first, std::span<const InputRow> inputs) const {
  const std::size_t half = frequencies_.size();
  Rotation result{.sines = Matrix(inputs.size(), half), .cosines = Matrix(inputs.size(), half)};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto index = static_cast<std::int32_t>(first + i);
    const TokenPlace place =
        inputs[i].place != nullptr ? *inputs[i].place : TokenPlace{index, index, index};
    for (std::size_t f = 0; f < half; ++f) {
      const auto angle = sine_cosine(static_cast<double>(place[axes_[f]]) * frequencies_[f]);
      result.sines.row(i)[f] = angle.sine;
      result.cosines.row(i)[f] = angle.cosine;
    }
  }
  return result;
}

void Decoder::rotate(float* heads, std::size_t count, std::size_t row,
                     const Rotation& rotation) const {
  const std::size_t half = frequencies_.size();
  const float* sines = rotation.sines.row(row);
  const float* cosines = rotation.cosines.row(row);
  for (std::size_t h = 0; h < count; ++h, heads += 2 * half) {
    for (std::size_t f = 0; f < half; ++f) {
      const float low = heads[f];
      const float high = heads[half + f];
      heads[f] = low * cosines[f] - high * sines[f];
      heads[half + f] = low * sines[f] + high * cosines[f];
    }
  }
}

Matrix Decoder::mix(std::size_t layer, const Matrix& x, const Rotation& rotation,
                    DecoderState& state) const {
  if (const auto* weights = std::get_if<RecurrentWeights>(&layers_[layer].mixer)) {
    return recur(*weights, x, std::get<RecurrentState>(state.layers[layer]));
  }
  const auto& weights = std::get<AttentionWeights>(layers_[layer].mixer);
  auto& rows = std::get<LayerRows>(state.layers[owner_of(layer)]);
  if (weights.key_value) append_rows(*weights.key_value, x, rotation, rows);

  Matrix queries = weights.query.times(x, *kernels_);
  Matrix attended(queries.rows(), queries.columns());
  Floats scores;
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const std::size_t position = state.covered + i;
    rotate(queries.row(i), options_.heads, i, rotation);
    attend(queries.row(i), rows, needed_from(layer, position), position, scores, attended.row(i));
  }
  return weights.out.times(attended, *kernels_);
}

void Decoder::append_rows(const PackedWeights& key_value, const Matrix& x, const Rotation& rotation,
                          LayerRows& rows) const {
  Matrix fresh = key_value.times(x, *kernels_);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    rotate(fresh.row(i), options_.kv_heads, i, rotation);
    rows.append({fresh.row(i), rows.row_size()}, {fresh.row(i) + rows.row_size(), rows.row_size()});
  }
}

// One token over positions [first, position]: these two alone determine the order of summation.
void Decoder::attend(const float* query, const LayerRows& rows, std::size_t first,
                     std::size_t position, Floats& scores, float* out) const {
  const std::size_t dim = options_.head_dim;
  const std::size_t group = options_.heads / options_.kv_heads;
  const std::size_t block = first / kPanelColumns * kPanelColumns;
  const std::size_t scored = position + 1 - block;
  const std::size_t seen = position + 1 - first;
  const std::size_t stride =
      (scored / kSumLanes + 2) * kSumLanes;  // softmax rounds up from `first`
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  scores.resize(group * stride);
  for (std::size_t head = 0; head < options_.kv_heads; ++head) {
    kernels_->product(query + head * group * dim, dim, group, rows.keys(head, block), dim, scored,
                      scores.data(), stride);
    float* visible = scores.data() + (first - block);
    for (std::size_t g = 0; g < group; ++g) {
      float* row = visible + g * stride;
      for (std::size_t j = 0; j < seen; ++j) row[j] *= scale;
      kernels_->softmax(row, seen);
    }
    kernels_->product(visible, stride, group, rows.values(head, first), seen, dim,
                      out + head * group * dim, dim);
  }
}

Matrix Decoder::recur(const RecurrentWeights& weights, const Matrix& x,
                      RecurrentState& state) const {
  const std::size_t width = hidden();
  Matrix branches = weights.in.times(x, *kernels_);
  Matrix result(x.rows(), width);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    float* input = branches.row(i);
    float* gate = input + width;
    RecurrentStep step{.width = width,
                       .input = {state.tail.row(0), state.tail.row(1), state.tail.row(2), input},
                       .conv = {weights.conv[0].data(), weights.conv[1].data(),
                                weights.conv[2].data(), weights.conv[3].data()},
                       .forget_scale = weights.forget_scale.data(),
                       .forget_bias = weights.forget_bias.data(),
                       .admit_scale = weights.admit_scale.data(),
                       .admit_bias = weights.admit_bias.data(),
                       .decay = weights.decay.data(),
                       .state = state.hidden.data(),
                       .out = result.row(i)};
    kernels_->recurrent_step(step);
    kernels_->silu(gate, width);
    for (std::size_t c = 0; c < width; ++c) result.row(i)[c] *= gate[c];
    std::copy_n(state.tail.row(1), 2 * width, state.tail.row(0));
    std::copy_n(input, width, state.tail.row(2));
  }
  return weights.out.times(result, *kernels_);
}

Matrix Decoder::gated_mlp(const Layer& layer, const Matrix& x) const {
  const std::size_t size = options_.mlp;
  Matrix both = layer.mlp_in.times(x, *kernels_);
  Matrix inner(x.rows(), size);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    float* gate = both.row(i);
    kernels_->silu(gate, size);
    for (std::size_t c = 0; c < size; ++c) inner.row(i)[c] = gate[c] * gate[size + c];
  }
  return layer.mlp_out.times(inner, *kernels_);
}

}  // namespace afterimage
