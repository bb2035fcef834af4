// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/kv_layout.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

/// How llama.cpp writes down what it remembers of one sequence: a header, then for each of its
/// memories (attention, sliding attention, recurrence) one section. Attention lies layer by layer;
/// values lie element by element where flash attention is off. A cache wants rows token by token,
/// so that a prefix's rows are a prefix of the bytes: this is where one becomes the other.
///
/// The format is the library's own and says little of itself, so it is learned from a sequence that
/// was really written (learn()), to the last byte, or not used at all.
///
/// Source   src/llama-kv-cache.cpp, state_write_*, and src/llama-memory-recurrent.cpp of the pinned
///          release; format magic 0xaf143cd8.
/// Threads  Values.

/// One memory's part of a written sequence.
struct StateSection {
  KvKind kind = KvKind::kFull;
  // full and sliding
  std::uint32_t streams = 1;    // of which only the sequence's own holds cells
  std::size_t place_bytes = 4;  // of a cell: position, and with M-RoPE where in the picture it is
  bool transposed = false;      // values element by element instead of row by row
  std::vector<std::uint32_t> key_rows;    // bytes a token, layer by layer
  std::vector<std::uint32_t> value_rows;  // the same
  std::vector<std::int32_t> key_types;    // as the library numbers them
  std::vector<std::int32_t> value_types;
  std::uint32_t value_element = 0;  // transposed: bytes of one element
  // recurrent
  std::size_t state_bytes = 0;  // all of the section

  /// Bytes of one token's place, keys and values.
  [[nodiscard]] std::size_t row_bytes() const;
  bool operator==(const StateSection&) const = default;
};

struct StateFormat {
  std::uint32_t magic = 0;
  std::vector<StateSection> sections;

  /// From `written`, a sequence of `tokens` tokens at positions 0, 1, …, by a model that has the
  /// memories `kinds`, in this order. kUnsupported: it is written otherwise.
  static Result<StateFormat> learn(std::span<const std::byte> written, TokenCount tokens,
                                   std::span<const KvKind> kinds);
  bool operator==(const StateFormat&) const = default;
};

/// The rows or the state that one section of a written sequence holds, without a copy.
struct SectionContent {
  std::uint32_t cells = 0;           // rows; recurrent: 1
  std::span<const std::byte> bytes;  // of the section, from its count of cells on

  /// Where cell `i` stands: its position in the sequence. Full and sliding.
  [[nodiscard]] std::int32_t position(const StateSection& section, std::uint32_t i) const;
  /// Cells [from, to) as rows: place, keys of every layer, values of every layer.
  void copy_rows(const StateSection& section, std::uint32_t from, std::uint32_t to,
                 std::span<std::byte> rows, std::size_t stride) const;
};

/// What is in `written`, section by section; with `partial`, only of those that are not full.
/// kCorruption if it is not of this format, to the last byte.
Result<std::vector<SectionContent>> read_state(const StateFormat& format,
                                               std::span<const std::byte> written, bool partial);

/// One section to be written: rows in any number of pieces, together `cells`; or a state.
struct SectionRows {
  std::uint32_t cells = 0;
  std::vector<std::span<const std::byte>> pieces;  // each whole rows of `stride` bytes
  std::size_t stride = 0;  // of which the first `skip` are not the library's
  std::size_t skip = 0;
  std::uint32_t empty = 0;  // cells before those, at positions 0, 1, …, of zeros: never looked at
};

/// As the library reads it. Sections are in the format's order.
std::vector<std::byte> write_state(const StateFormat& format,
                                   std::span<const SectionRows> sections);

}  // namespace afterimage
