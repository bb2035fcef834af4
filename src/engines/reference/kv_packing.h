// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <vector>

#include "afterimage/engine.h"
#include "engines/reference/decoder_state.h"
#include "engines/reference/reference_engine.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {

/// Converts a decoder's state to the rows and states of a KvSlice and back.
///
/// Shape    A group is all layers of one kind and window, or all that share with one group,
///          wherever they are in the stack. A row is its layers' rows in order: keys, then values,
///          f32. A state is its layers' states: hidden, then tail, oldest token first, f32.
/// Order    Position by position, so that rows do not depend on the blocks they were stored in.
/// Threads  Immutable.
class KvPacking {
 public:
  /// Requires options that check_options() accepts.
  explicit KvPacking(const DecoderOptions& options);

  [[nodiscard]] const KvLayout& layout() const { return layout_; }

  /// Rows [from, to) of the full groups, copied into `buffers`: one piece per group.
  std::vector<std::vector<KvRows>> rows(const DecoderState& state, std::size_t from, std::size_t to,
                                        KvBuffers& buffers) const;
  KvSnapshot snapshot(const DecoderState& state, KvBuffers& buffers) const;
  /// Fills `state`, which must be new from Decoder::start(). Requires that check_resume() accepts
  /// `from`.
  void restore(const KvSlice& from, DecoderState& state) const;
  /// Appends the rows of an item from its token `item.recomputed` on, with their keys turned by
  /// `steps`. Requires a rotation and an item that check_rotation() and check_moved() accept.
  void append_moved(const MovedMedia& item, const KeyRotation& rotation, const TokenPlace& steps,
                    DecoderState& state) const;
  /// Which bytes of a row are keys. Requires that each group has rows of its own or shares others'.
  [[nodiscard]] std::vector<KeyRotation::Keys> keys() const;

 private:
  KvRows rows_of(std::size_t group, const DecoderState& state, std::size_t from, std::size_t to,
                 KvBuffers& buffers) const;
  KvRows state_of(std::size_t group, const DecoderState& state, KvBuffers& buffers) const;

  KvLayout layout_;
  std::uint32_t kv_heads_;
  std::vector<std::vector<std::size_t>> layers_;  // of each group
};

}  // namespace afterimage
