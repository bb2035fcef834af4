// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "afterimage/kv.h"

/// Sequence states as llama.cpp writes them (see sequence_state.h), made by hand from the format's
/// description, without the code under test.
namespace afterimage::testing {

using WrittenBytes = std::vector<std::byte>;

template <typename T>
void append_number(T value, WrittenBytes& to) {
  const auto* const from = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), from, from + sizeof value);
}

struct WrittenMemory {
  KvKind kind = KvKind::kFull;
  std::uint32_t streams = 1;
  std::uint32_t own_stream = 0;
  bool pictures = false;  // cells hold positions within an image
  bool transposed = false;
  std::vector<std::uint32_t> key_rows{8, 12};  // bytes per token
  std::vector<std::uint32_t> value_rows{4, 8};
  std::uint32_t element = 2;
  std::vector<std::int32_t> positions;  // of its cells; recurrent: of its last token only
  std::size_t state_bytes = 24;         // recurrent: bytes after its three leading numbers

  /// One byte of a layer's key (`part` 0) or value (1) at a position; differs from its neighbours.
  [[nodiscard]] static std::byte content(int part, std::size_t layer, std::int32_t position,
                                         std::size_t i) {
    std::uint64_t mixed = static_cast<std::uint64_t>(position) * 31 + i * 7 + layer * 101 +
                          static_cast<std::uint64_t>(part) * 53 + 1;
    mixed *= 0x9e3779b97f4a7c15U;
    return static_cast<std::byte>(mixed >> 56U);
  }

  /// The bytes of the cell at `position`: its position, keys and values.
  [[nodiscard]] WrittenBytes row(std::int32_t position) const {
    WrittenBytes row;
    append_number(position, row);
    if (pictures) put_place(position, row);
    for (int part = 0; part < 2; ++part) {
      const auto& rows = part == 0 ? key_rows : value_rows;
      for (std::size_t layer = 0; layer < rows.size(); ++layer) {
        for (std::size_t i = 0; i < rows[layer]; ++i) {
          row.push_back(content(part, layer, position, i));
        }
      }
    }
    return row;
  }

  static void put_place(std::int32_t position, WrittenBytes& to) {
    for (const std::int32_t axis : {3, 5, 7}) append_number(position * axis + 100, to);
  }
};

/// A written sequence, and which of its bytes the format fixes: a reader must check those.
class WrittenSequence {
 public:
  static constexpr std::uint32_t kMagic = 0xaf143cd8;

  /// With `partial`, full memories are left out.
  explicit WrittenSequence(const std::vector<WrittenMemory>& memories, bool partial = false) {
    fixed(kMagic);
    free(std::int32_t{0});  // the sequence id
    for (const WrittenMemory& memory : memories) {
      if (memory.kind == KvKind::kRecurrent) {
        put_state(memory);
      } else if (!partial || memory.kind != KvKind::kFull) {
        put_attention(memory);
      }
    }
  }

  [[nodiscard]] const WrittenBytes& bytes() const { return bytes_; }
  [[nodiscard]] bool is_fixed(std::size_t at) const { return fixed_[at]; }

 private:
  template <typename T>
  void fixed(T value) {
    append_number(value, bytes_);
    fixed_.resize(bytes_.size(), true);
  }
  template <typename T>
  void free(T value) {
    append_number(value, bytes_);
    fixed_.resize(bytes_.size(), false);
  }

  void put_attention(const WrittenMemory& memory) {
    fixed(memory.streams);
    for (std::uint32_t stream = 0; stream < memory.streams; ++stream) {
      const bool own = stream == memory.own_stream;
      fixed(own ? static_cast<std::uint32_t>(memory.positions.size()) : 0U);
      if (own && !memory.positions.empty()) put_cells(memory);
    }
  }

  void put_cells(const WrittenMemory& memory) {
    for (const std::int32_t position : memory.positions) {
      free(position);
      fixed(std::uint32_t{1});  // one owner
      if (memory.pictures) {
        WrittenMemory::put_place(position, bytes_);
        fixed_.resize(bytes_.size(), false);
      }
      free(std::int32_t{0});  // its id
    }
    fixed(std::uint32_t{memory.transposed});
    fixed(static_cast<std::uint32_t>(memory.key_rows.size()));
    for (std::size_t layer = 0; layer < memory.key_rows.size(); ++layer) {
      fixed(std::int32_t{1});  // its type
      fixed(std::uint64_t{memory.key_rows[layer]});
      put_rows(memory, 0, layer, memory.key_rows[layer]);
    }
    for (std::size_t layer = 0; layer < memory.value_rows.size(); ++layer) {
      const std::uint32_t size = memory.value_rows[layer];
      fixed(std::int32_t{2});
      if (!memory.transposed) {
        fixed(std::uint64_t{size});
        put_rows(memory, 1, layer, size);
        continue;
      }
      fixed(memory.element);
      fixed(size / memory.element);
      for (std::uint32_t at = 0; at < size; at += memory.element) {
        for (const std::int32_t position : memory.positions) {
          for (std::uint32_t i = at; i < at + memory.element; ++i) {
            free(WrittenMemory::content(1, layer, position, i));
          }
        }
      }
    }
  }

  void put_rows(const WrittenMemory& memory, int part, std::size_t layer, std::uint32_t size) {
    for (const std::int32_t position : memory.positions) {
      for (std::uint32_t i = 0; i < size; ++i) {
        free(WrittenMemory::content(part, layer, position, i));
      }
    }
  }

  void put_state(const WrittenMemory& memory) {
    fixed(std::uint32_t{1});  // one cell
    free(memory.positions.back());
    fixed(std::uint32_t{0});  // it names no sequence
    for (std::size_t i = 0; i < memory.state_bytes; ++i) {
      free(WrittenMemory::content(2, 0, memory.positions.back(), i));
    }
  }

  WrittenBytes bytes_;
  std::vector<bool> fixed_;
};

/// The positions first, first + 1, … of `count` cells.
inline std::vector<std::int32_t> positions_from(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> positions;
  for (std::int32_t i = 0; i < count; ++i) positions.push_back(first + i);
  return positions;
}

/// Models, described by their memories, `tokens` tokens long; window: for sliding memories.
inline std::vector<std::pair<const char*, std::vector<WrittenMemory>>> written_models(
    std::int32_t tokens, std::int32_t window) {
  const std::int32_t seen = std::min(tokens, window);
  const WrittenMemory full{.positions = positions_from(0, tokens)};
  WrittenMemory transposed = full;
  transposed.transposed = true;
  WrittenMemory pictures = transposed;
  pictures.pictures = true;
  WrittenMemory quantised = full;  // rows of blocks instead of elements
  quantised.key_rows = {34, 18};
  quantised.value_rows = {18, 34};
  WrittenMemory floats = transposed;
  floats.element = 4;
  WrittenMemory odd = transposed;
  odd.element = 1;
  WrittenMemory streams = pictures;
  streams.streams = 3;
  WrittenMemory sliding = transposed;
  sliding.kind = KvKind::kSliding;
  sliding.key_rows = {16};
  sliding.value_rows = {16};
  sliding.positions = positions_from(tokens - seen, seen);
  const WrittenMemory recurrent{.kind = KvKind::kRecurrent, .positions = {tokens - 1}};
  return {{"full", {full}},
          {"full, transposed", {transposed}},
          {"full, with places in pictures", {pictures}},
          {"full, quantised", {quantised}},
          {"full, elements of four bytes", {floats}},
          {"full, elements of one byte", {odd}},
          {"full, several streams", {streams}},
          {"sliding", {sliding}},
          {"full and sliding", {transposed, sliding}},
          {"recurrent", {recurrent}},
          {"full and recurrent", {pictures, recurrent}},
          {"full, sliding and recurrent", {full, sliding, recurrent}}};
}

inline std::vector<KvKind> kinds_of(const std::vector<WrittenMemory>& memories) {
  std::vector<KvKind> kinds;
  for (const WrittenMemory& memory : memories) kinds.push_back(memory.kind);
  return kinds;
}

}  // namespace afterimage::testing
