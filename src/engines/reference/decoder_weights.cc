// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "engines/reference/angle.h"
#include "engines/reference/decoder.h"
#include "engines/reference/encoder_stack.h"

namespace afterimage {
namespace {

Matrix random_rows(std::size_t rows, std::size_t columns, Rng& rng) {
  Matrix result(rows, columns);
  const Floats numbers = random_floats(rows * columns, -1.7F, 1.7F, rng);
  std::copy(numbers.begin(), numbers.end(), result.row(0));
  return result;
}

std::vector<std::uint8_t> axes_of(const DecoderOptions& options) {
  std::vector<std::uint8_t> axes;
  for (std::size_t axis = 0; axis < options.sections.size(); ++axis) {
    axes.insert(axes.end(), options.sections[axis], static_cast<std::uint8_t>(axis));
  }
  axes.resize(options.head_dim / 2, 0);
  return axes;
}

}  // namespace

Decoder::Decoder(const DecoderOptions& options, std::size_t vocabulary, const Kernels& kernels,
                 Rng rng)
    : options_(options),
      kernels_(&kernels),
      frequencies_(position_frequencies(options.head_dim / 2, kernels)),
      axes_(axes_of(options)),
      embeddings_(random_rows(vocabulary, options.hidden, rng)),
      final_gain_(random_gain(options.hidden, rng)),
      head_(PackedWeights::random(options.hidden, vocabulary, rng)) {
  for (std::size_t i = 0; i < options.layers.size(); ++i) {
    Rng own = rng.split(i);
    Floats mixer_gain = random_gain(options.hidden, own);
    auto mixer = [&]() -> std::variant<AttentionWeights, RecurrentWeights> {
      if (std::holds_alternative<Recurrence>(options.layers[i])) return random_recurrence(own);
      return random_attention(owner_of(i) == i, own);
    }();
    Floats mlp_gain = random_gain(options.hidden, own);
    PackedWeights mlp_in = PackedWeights::random(options.hidden, 2ULL * options.mlp, own);
    PackedWeights mlp_out = PackedWeights::random(options.mlp, options.hidden, own);
    layers_.push_back({.mixer_gain = std::move(mixer_gain),
                       .mixer = std::move(mixer),
                       .mlp_gain = std::move(mlp_gain),
                       .mlp_in = std::move(mlp_in),
                       .mlp_out = std::move(mlp_out)});
  }
}

Decoder::AttentionWeights Decoder::random_attention(bool owns_rows, Rng& rng) const {
  const std::size_t query_size = std::size_t{options_.heads} * options_.head_dim;
  const std::size_t row_size = std::size_t{options_.kv_heads} * options_.head_dim;
  AttentionWeights weights{.query = PackedWeights::random(hidden(), query_size, rng),
                           .key_value = std::nullopt,
                           .out = PackedWeights::random(query_size, hidden(), rng)};
  if (owns_rows) weights.key_value = PackedWeights::random(hidden(), 2 * row_size, rng);
  return weights;
}

Decoder::RecurrentWeights Decoder::random_recurrence(Rng& rng) const {
  const std::size_t width = hidden();
  const auto floats = [&](float low, float high) { return random_floats(width, low, high, rng); };
  return {
      .in = PackedWeights::random(width, 2 * width, rng),
      .conv = {floats(-0.8F, 0.8F), floats(-0.8F, 0.8F), floats(-0.8F, 0.8F), floats(-0.8F, 0.8F)},
      .forget_scale = floats(-1.0F, 1.0F),
      .forget_bias = floats(-1.0F, 1.0F),
      .admit_scale = floats(-1.0F, 1.0F),
      .admit_bias = floats(-1.0F, 1.0F),
      .decay = floats(-0.5F, -0.002F),  // memory of a few to several hundred tokens
      .out = PackedWeights::random(width, width, rng)};
}

}  // namespace afterimage
