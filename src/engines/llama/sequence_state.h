// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/kv.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"
#include "engines/llama_library/state_parts.h"

namespace afterimage {

/// llama.cpp's serialized state of one sequence: a header, then one section for each memory
/// (attention, sliding attention, recurrent). Attention is stored layer by layer; values are stored
/// transposed (element by element) if flash attention is off. A cache needs rows token by token, so
/// that the rows of a prefix are a prefix of the bytes; this file converts between the two.
///
/// The format is private to the library and not self-describing, so learn() derives it from a
/// sequence that was really written and verifies it to the last byte. An unknown format is not used
/// at all.
///
/// Source   src/llama-kv-cache.cpp, state_write_*, and src/llama-memory-recurrent.cpp of the pinned
///          release; format magic 0xaf143cd8.
/// Threads  Values.

/// One memory's section of a serialized sequence.
struct StateSection {
  KvKind kind = KvKind::kFull;
  // full and sliding
  std::uint32_t streams = 1;  // only the sequence's own stream holds cells
  /// Cell metadata: position, and with M-RoPE the place inside the image.
  std::size_t cell_meta_bytes = 4;
  bool transposed = false;                // values stored element by element instead of row by row
  std::vector<std::uint32_t> key_rows;    // bytes per token, layer by layer
  std::vector<std::uint32_t> value_rows;  // the same
  std::vector<std::int32_t> key_types;    // in the library's numbering
  std::vector<std::int32_t> value_types;
  std::uint32_t value_element = 0;  // transposed: bytes of one element
  // recurrent
  std::size_t state_bytes = 0;  // the whole section

  /// Bytes of one token's cell metadata, keys and values.
  [[nodiscard]] std::size_t row_bytes() const;
  bool operator==(const StateSection&) const = default;
};

struct StateFormat {
  std::uint32_t magic = 0;
  std::vector<StateSection> sections;

  /// Derives the format from `written`, a sequence of `tokens` tokens at positions 0, 1, …, by a
  /// model that has the memories `kinds`, in this order. kUnsupported: another format.
  static Result<StateFormat> learn(std::span<const std::byte> written, TokenCount tokens,
                                   std::span<const KvKind> kinds);
  bool operator==(const StateFormat&) const = default;
};

/// The rows or the state in one section of a serialized sequence; a view, not a copy.
struct SectionContent {
  std::uint32_t cells = 0;              // rows; recurrent: 1
  std::span<const std::byte> metadata;  // of the cells
  /// Cells lie in runs: these many in each. One run in a state that is one piece.
  std::vector<std::uint32_t> runs;
  /// Keys of each layer, then values of each layer; of each, every run. Of transposed values every
  /// run of every element. Recurrent: the state.
  std::vector<std::span<const std::byte>> pieces;

  /// The sequence position of cell `i`. Full and sliding sections only.
  [[nodiscard]] std::int32_t position(const StateSection& section, std::uint32_t i) const;
  /// Copies cells [from, to) as rows: cell metadata, keys of every layer, values of every layer.
  /// Touches no other cells.
  void copy_rows(const StateSection& section, std::uint32_t from, std::uint32_t to,
                 std::span<std::byte> rows, std::size_t stride) const;
};

/// Parses `written` section by section; `partial`: only the sections that are not full attention.
/// kCorruption if it does not match the format to the last byte.
Result<std::vector<SectionContent>> read_state(const StateFormat& format, StatePieces written,
                                               bool partial);
inline Result<std::vector<SectionContent>> read_state(const StateFormat& format,
                                                      std::span<const std::byte> written,
                                                      bool partial) {
  return read_state(format, StatePieces(&written, 1), partial);
}

/// One section to restore: rows in any number of pieces, `cells` in total; or a state.
struct SectionRows {
  std::uint32_t cells = 0;
  std::vector<std::span<const std::byte>> pieces;  // each: whole rows of `stride` bytes
  std::size_t stride = 0;  // the first `skip` bytes of a row are not the library's
  std::size_t skip = 0;
  std::uint32_t empty = 0;  // zeroed cells of the positions before those; never attended to
};

/// A state for llama.cpp's restore call, without the keys and values, which are copied only once:
/// to where the model reads them.
struct StateOutline {
  std::vector<SectionRows> sections;  // in the format's order
  std::vector<std::byte> numbers;     // all bytes but rows and states
  std::vector<StatePart> parts;       // refer to `numbers` and, for a state, to its piece
};
StateOutline outline_of(const StateFormat& format, std::vector<SectionRows> sections);
/// Copies keys and values. kCorruption: the places have other sizes; nothing may be computed then.
Result<void> fill_rows(const StateFormat& format, std::span<const SectionRows> sections,
                       StatePlaces places);

}  // namespace afterimage
