// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/kv_layout.h"
#include "afterimage/result.h"
#include "engines/llama/sequence_state.h"

namespace afterimage {

/// What llama.cpp remembers of a sequence, as the rows and states of a KvLayout, and back.
///
/// Shape    A row is the position behind its token (i32), where the token stands, its keys and its
///          values; a state is the position behind it, and the library's own bytes. With M-RoPE a
///          picture takes more tokens than positions, so a position does not follow from a count.
/// Threads  Values; const calls from any.
class SequenceRows {
 public:
  /// From a sequence of `tokens` tokens at 0, 1, … that was written by a model with these memories.
  /// `window`: what a token of a sliding layer sees before itself. `in_place`: sliding rows are
  /// restored to where they lay in the run that wrote them, with nothing before them, so that sums
  /// run in the same order. kUnsupported: it is written otherwise than is known here.
  static Result<SequenceRows> learn(std::span<const std::byte> written, TokenCount tokens,
                                    std::span<const KvKind> kinds, TokenCount window,
                                    bool in_place);

  [[nodiscard]] const KvLayout& layout() const { return layout_; }
  [[nodiscard]] bool keeps_all_in_rows() const;  // no windows, no states

  /// Rows [from, to) of the full groups; the others' are empty. after[i] is the position behind
  /// token i. kCorruption: not what this model writes; kUnsupported: not one cell a token.
  Result<std::vector<Tensor>> rows(std::span<const std::byte> written, TokenCount from,
                                   TokenCount to, std::span<const std::int32_t> after) const;
  /// Windows and states, from what the library writes of them alone, when `at` tokens are covered.
  Result<KvSnapshot> snapshot(std::span<const std::byte> partial, TokenCount at,
                              std::span<const std::int32_t> after) const;

  /// The position behind each token that `state` covers; of those whose rows it no longer has, and
  /// nobody asks for, that of the last. Requires what check_state() checks. kCorruption: a row
  /// stands where none can; the library would take it, and never let go of it.
  [[nodiscard]] Result<std::vector<std::int32_t>> positions(const KvState& state) const;
  /// What the library reads.
  [[nodiscard]] std::vector<std::byte> written(const KvState& state) const;
  /// A sequence whose first `cells` tokens are zeros, as the library reads it.
  [[nodiscard]] std::vector<std::byte> zeros(TokenCount cells) const;

 private:
  StateFormat format_;
  KvLayout layout_;  // groups[i] is format_.sections[i]
  bool in_place_ = false;
  std::vector<std::byte> some_state_;  // a recurrent section that the library wrote; or empty
};

}  // namespace afterimage
