// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "afterimage/units.h"
#include "engines/reference/matrix.h"

namespace afterimage {

/// Keys and values of one full or sliding layer, by absolute position.
///
/// Shape    Keys in blocks of 32 positions, [block][kv_head][head_dim][32]: a block is a panel, so
///          that scores are a matrix product. Values row by row, [position][kv_heads * head_dim].
/// Order    Blocks start at multiples of 32 from the start of the sequence, never of a chunk.
class LayerRows {
 public:
  LayerRows(std::size_t kv_heads, std::size_t head_dim)
      : kv_heads_(kv_heads), head_dim_(head_dim) {}

  /// Positions held: [begin(), end()).
  [[nodiscard]] std::size_t begin() const { return begin_; }
  [[nodiscard]] std::size_t end() const { return end_; }
  /// Floats of one position's keys, and of its values.
  [[nodiscard]] std::size_t row_size() const { return kv_heads_ * head_dim_; }

  /// Appends the rows of the next position.
  void append(std::span<const float> key, std::span<const float> value);
  /// Makes `position` the next one appended. Requires that nothing was appended yet. Rows between
  /// the start of its block and `position` are zero and must not be read.
  void start_at(std::size_t position);
  /// Drops rows before `position`, in whole blocks.
  void drop_before(std::size_t position);

  /// Panels of keys from `position` on. Requires a multiple of 32 in [begin(), end()).
  [[nodiscard]] Panels keys(std::size_t kv_head, std::size_t position) const;
  /// Values from `position` on, as the right-hand side of a product.
  [[nodiscard]] Panels values(std::size_t kv_head, std::size_t position) const;
  /// Rows [from, to), which must be held, in plain order: each position's keys, then its values.
  [[nodiscard]] std::vector<float> rows(std::size_t from, std::size_t to) const;

 private:
  std::size_t kv_heads_;
  std::size_t head_dim_;
  std::size_t begin_ = 0;  // a multiple of 32
  std::size_t end_ = 0;
  Floats keys_;
  Floats values_;
};

inline constexpr std::size_t kConvolutionTail = 3;  // tokens before the current one

/// The state of a recurrent layer.
struct RecurrentState {
  std::vector<float> hidden;  // [width]
  Matrix tail;                // [3, width]: inputs of the last three tokens, oldest first

  explicit RecurrentState(std::size_t width) : hidden(width), tail(kConvolutionTail, width) {}
  bool operator==(const RecurrentState& other) const {
    return hidden == other.hidden && std::ranges::equal(tail.all(), other.tail.all());
  }
};

/// A shared layer has no state of its own.
using LayerState = std::variant<std::monostate, LayerRows, RecurrentState>;

/// The decoder's state after some tokens. Copyable; copies are independent.
struct DecoderState {
  std::vector<LayerState> layers;  // one per decoder layer
  std::size_t covered = 0;         // tokens seen; the next one gets this position
};

}  // namespace afterimage
