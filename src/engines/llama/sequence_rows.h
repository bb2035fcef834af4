// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/kv.h"
#include "afterimage/result.h"
#include "engines/llama/sequence_state.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {

/// Converts llama.cpp's serialized sequence state to the rows and states of a KvLayout and back.
///
/// Shape    A row is the position after its token (i32), the token's cell metadata, its keys and
///          its values; a recurrent state is the position after it and the library's own bytes.
///          With M-RoPE an image takes more tokens than positions, so a position does not follow
///          from a count.
/// Threads  Values; const calls from any thread.
class SequenceRows {
 public:
  /// Where sliding layers keep their rows.
  struct Window {
    TokenCount tokens{};  // that a layer sees before the current one; 0: there are no such layers
    TokenCount cells{};   // of a sequence; those of tokens that no layer sees are used again
    /// Rows are restored to the cells that they had in the run that wrote them, modulo this, behind
    /// empty cells, so that sums run in the same order. 1: to any.
    TokenCount period{1};
  };

  /// Learns the format from `written`, a sequence of `tokens` tokens at positions 0, 1, … written
  /// by a model with the memories `kinds`. kUnsupported: an unknown format.
  static Result<SequenceRows> learn(std::span<const std::byte> written, TokenCount tokens,
                                    std::span<const KvKind> kinds, const Window& window);

  [[nodiscard]] const KvLayout& layout() const { return layout_; }
  [[nodiscard]] bool has_only_full_groups() const;  // no windows, no states

  /// Keys in a row of a full group, layer by layer, as KeyRotation has them.
  struct Keys {
    DType dtype = DType::kF16;
    std::vector<KeyRotation::Keys> layers;
  };
  /// kUnsupported: keys that are neither f16 nor f32, or that are not whole heads of `head_size`
  /// numbers.
  [[nodiscard]] Result<Keys> keys(std::uint32_t head_size) const;
  /// A row's position in its sequence.
  [[nodiscard]] static std::int32_t position(std::span<const std::byte> row);
  /// Moves a row of a full group by `steps` positions: its cell, along all axes, and the position
  /// after it. Keys stay as they are. A sum that overflows wraps; positions() rejects it.
  void move(std::size_t group, std::int32_t steps, std::span<std::byte> row) const;

  /// Rows [from, to) of the full groups, copied into `buffers`: one piece per group. after[i] is
  /// the position after token i. kCorruption: not this model's format; kUnsupported: not one cell
  /// per token.
  Result<std::vector<std::vector<KvRows>>> rows(StatePieces written, TokenCount from, TokenCount to,
                                                std::span<const std::int32_t> after,
                                                KvBuffers& buffers) const;
  /// Windows and recurrent states, from a partial save made when `at` tokens are covered.
  Result<KvSnapshot> snapshot(StatePieces partial, TokenCount at,
                              std::span<const std::int32_t> after, KvBuffers& buffers) const;

  /// The position after each token that `slice` covers. Where the slice has no rows left, and the
  /// value is not needed, it is the last token's. Requires a slice that check_resume() accepts.
  /// kCorruption: a row has an impossible position, which the library would accept and could never
  /// remove.
  [[nodiscard]] Result<std::vector<std::int32_t>> positions(const KvSlice& slice) const;
  /// `slice` for LoadedModel::restore(). Refers to its bytes and to this object.
  [[nodiscard]] StateOutline outline(const KvSlice& slice) const;
  /// The same of a sequence whose first `cells` tokens are zeros, as far as there are cells for them.
  [[nodiscard]] StateOutline zeros(TokenCount cells) const;
  /// Copies rows to the places that the model has for them.
  [[nodiscard]] Result<void> fill(const StateOutline& outline, StatePlaces places) const {
    return fill_rows(format_, outline.sections, places);
  }

 private:
  StateFormat format_;
  KvLayout layout_;  // groups[i] is format_.sections[i]
  Window window_;
  std::vector<std::byte> sample_state_;  // a recurrent section written by the library; may be empty
};

}  // namespace afterimage
