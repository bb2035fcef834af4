// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/ids.h"
#include "engines/reference/decoder_state.h"
#include "engines/reference/matrix.h"
#include "engines/reference/reference_engine.h"

namespace afterimage {

inline constexpr std::size_t kMaxDeepstackPlanes = 4;

/// The decoder's input at one position. Rows have `hidden` floats and outlive the call.
struct InputRow {
  TokenId token{};
  const float* media = nullptr;       // if set, replaces the token's embedding
  const TokenPlace* place = nullptr;  // of rotary positions; nullptr: the token's index
  /// Added to the hidden state after layer i; nullptr: none.
  std::array<const float*, kMaxDeepstackPlanes> planes{};
};

/// The language model: RMS norms, rotary positions, grouped-query attention of every kind, gated
/// recurrences, gated MLPs.
///
/// Order    What a token computes is a function of its position and of the state before it, in one
///          fixed order of operations. How a prompt is split into calls of forward() changes no bit
///          of the hidden rows or of the state; DESIGN.md gives the reasons.
/// Threads  const calls on different states: any.
class Decoder {
 public:
  /// Requires options that check_options() accepts.
  Decoder(const DecoderOptions& options, std::size_t vocabulary, const Kernels& kernels, Rng rng);

  [[nodiscard]] std::size_t hidden() const { return options_.hidden; }
  [[nodiscard]] std::size_t vocabulary() const { return head_.columns(); }

  [[nodiscard]] DecoderState start() const;
  /// Appends `inputs` to `state`, which start() of this decoder made. Shape: [inputs, hidden].
  [[nodiscard]] Matrix forward(DecoderState& state, std::span<const InputRow> inputs) const;
  /// Shape: [rows, vocabulary].
  [[nodiscard]] Matrix logits(const Matrix& hidden) const;

  /// By which angle one step of TokenPlace turns pair i of a head, and which of its axes does.
  [[nodiscard]] const std::vector<float>& frequencies() const { return frequencies_; }
  [[nodiscard]] const std::vector<std::uint8_t>& axes() const { return axes_; }
  /// The first position whose rows `layer` still needs once `covered` tokens have been processed.
  [[nodiscard]] std::size_t needed_from(std::size_t layer, std::size_t covered) const;

 private:
  struct AttentionWeights {
    PackedWeights query;
    std::optional<PackedWeights> key_value;  // [hidden, 2 * kv_heads * head_dim]; shared: none
    PackedWeights out;
  };
  struct RecurrentWeights {
    PackedWeights in;  // [hidden, 2 * hidden]: the recurrence's input, then its output gate
    std::array<Floats, 4> conv;
    Floats forget_scale, forget_bias, admit_scale, admit_bias, decay;
    PackedWeights out;
  };
  struct Layer {
    Floats mixer_gain;
    std::variant<AttentionWeights, RecurrentWeights> mixer;
    Floats mlp_gain;
    PackedWeights mlp_in;  // [hidden, 2 * mlp]: gate, then value
    PackedWeights mlp_out;
  };
  /// Sines and cosines of one call's positions, [rows, head_dim / 2] each.
  struct Rotation {
    Matrix sines;
    Matrix cosines;
  };

  [[nodiscard]] AttentionWeights random_attention(bool owns_rows, Rng& rng) const;
  [[nodiscard]] RecurrentWeights random_recurrence(Rng& rng) const;
  [[nodiscard]] Matrix embed(std::span<const InputRow> inputs) const;
  [[nodiscard]] Rotation rotation(std::size_t first, std::span<const InputRow> inputs) const;
  void rotate(float* heads, std::size_t count, std::size_t row, const Rotation& rotation) const;

  [[nodiscard]] std::size_t owner_of(std::size_t layer) const;
  [[nodiscard]] Matrix mix(std::size_t layer, const Matrix& x, const Rotation& rotation,
                           DecoderState& state) const;
  void append_rows(const PackedWeights& key_value, const Matrix& x, const Rotation& rotation,
                   LayerRows& rows) const;
  void attend(const float* query, const LayerRows& rows, std::size_t first, std::size_t position,
              Floats& scores, float* out) const;
  [[nodiscard]] Matrix recur(const RecurrentWeights& weights, const Matrix& x,
                             RecurrentState& state) const;
  [[nodiscard]] Matrix gated_mlp(const Layer& layer, const Matrix& x) const;
  void drop_unneeded_rows(DecoderState& state) const;

  DecoderOptions options_;
  const Kernels* kernels_;
  std::vector<float> frequencies_;
  std::vector<std::uint8_t> axes_;
  Matrix embeddings_;  // [vocabulary, hidden]
  std::vector<Layer> layers_;
  Floats final_gain_;
  PackedWeights head_;
};

}  // namespace afterimage
