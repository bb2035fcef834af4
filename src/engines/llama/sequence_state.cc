// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/sequence_state.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>

#include "afterimage/check.h"

namespace afterimage {
namespace {

constexpr std::size_t kPosition = sizeof(std::int32_t);
constexpr std::size_t kMropeCellBytes = 3 * sizeof(std::int32_t);  // x, y, token
// Owning sequences: count and ids.
constexpr std::size_t kOwners = 2 * sizeof(std::int32_t);
constexpr std::uint32_t kMaxLayers = 4'096;

/// Reads forward. After reading past the end every value is zero; expect() records mismatches.
class StateCursor {
 public:
  explicit StateCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T take() {
    T value{};
    const auto from = skip(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> skip(std::uint64_t count) {
    if (count > bytes_.size()) {
      good_ = false;
      bytes_ = {};
      return {};
    }
    const auto taken = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  void expect(bool holds) { good_ = good_ && holds; }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }
  [[nodiscard]] std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
  bool good_ = true;
};

std::size_t sum(const std::vector<std::uint32_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

/// The cell count of the only stream with cells; all other streams must be empty.
std::uint32_t take_cells_before(StateCursor& from, std::uint32_t streams, std::uint32_t& stream) {
  for (stream = 0; stream < streams; ++stream) {
    if (const auto cells = from.take<std::uint32_t>(); cells != 0) return cells;
  }
  return 0;
}

void take_empty_streams(StateCursor& from, std::uint32_t streams, std::uint32_t stream) {
  for (++stream; stream < streams; ++stream) from.expect(from.take<std::uint32_t>() == 0);
}

/// Learns the sizes of an attention section; `guess` supplies what the bytes do not say.
bool learn_attention(StateCursor& from, std::uint32_t tokens, StateSection& guess) {
  guess.streams = from.take<std::uint32_t>();
  from.expect(guess.streams >= 1 && guess.streams <= 256);
  if (!from.good()) return false;
  std::uint32_t stream = 0;
  from.expect(take_cells_before(from, guess.streams, stream) == tokens);
  for (std::uint32_t i = 0; from.good() && i < tokens; ++i) {
    from.expect(from.take<std::int32_t>() == static_cast<std::int32_t>(i));
    from.expect(from.take<std::uint32_t>() == 1);
    from.skip(guess.cell_meta_bytes - kPosition);
    from.take<std::int32_t>();
  }
  const auto transposed = from.take<std::uint32_t>();
  from.expect(transposed <= 1);
  guess.transposed = transposed == 1;
  const auto layers = from.take<std::uint32_t>();
  from.expect(layers >= 1 && layers <= kMaxLayers);
  for (std::uint32_t i = 0; from.good() && i < layers; ++i) {
    guess.key_types.push_back(from.take<std::int32_t>());
    const auto row = from.take<std::uint64_t>();
    from.expect(row > 0 && row <= UINT32_MAX);
    guess.key_rows.push_back(static_cast<std::uint32_t>(row));
    from.skip(row * tokens);
  }
  for (std::uint32_t i = 0; from.good() && i < layers; ++i) {
    guess.value_types.push_back(from.take<std::int32_t>());
    std::uint64_t row = 0;
    if (guess.transposed) {
      const auto element = from.take<std::uint32_t>();
      from.expect(element > 0 && (i == 0 || element == guess.value_element));
      guess.value_element = element;
      row = std::uint64_t{element} * from.take<std::uint32_t>();
    } else {
      row = from.take<std::uint64_t>();
    }
    from.expect(row > 0 && row <= UINT32_MAX);
    guess.value_rows.push_back(static_cast<std::uint32_t>(row));
    from.skip(row * tokens);
  }
  take_empty_streams(from, guess.streams, stream);
  return from.good();
}

/// Learns one section. Returns false if it does not have the expected form.
bool learn_section(StateCursor& from, std::uint32_t tokens, std::size_t cell_meta_bytes,
                   StateSection& section) {
  if (section.kind == KvKind::kRecurrent) {
    // Not all of its sizes are written, and it is always last: the rest of the bytes is the state.
    section.state_bytes = from.rest().size();
    from.expect(from.take<std::uint32_t>() == 1);  // one cell
    from.expect(from.take<std::int32_t>() ==
                static_cast<std::int32_t>(tokens) - 1);  // its last position
    from.expect(from.take<std::uint32_t>() == 0);        // no owners
    from.skip(from.rest().size());
    return from.good();
  }
  section.cell_meta_bytes = cell_meta_bytes;
  return learn_attention(from, tokens, section);
}

std::optional<StateFormat> learn_with(std::span<const std::byte> written, std::uint32_t tokens,
                                      std::span<const KvKind> kinds, std::size_t cell_meta_bytes) {
  if (tokens == 0) return std::nullopt;  // an empty sequence reveals no sizes
  StateCursor from(written);
  StateFormat format;
  format.magic = from.take<std::uint32_t>();
  from.take<std::int32_t>();  // the sequence id
  for (const KvKind kind : kinds) {
    StateSection& section = format.sections.emplace_back();
    section.kind = kind;
    if (!learn_section(from, tokens, cell_meta_bytes, section)) return std::nullopt;
  }
  if (!from.at_end()) return std::nullopt;
  return format;
}

std::size_t meta_bytes(const StateSection& section) { return section.cell_meta_bytes + kOwners; }

/// Byte offsets in a section of `cells` cells, counted from its cell count.
struct SectionOffsets {
  SectionOffsets(const StateSection& section, std::uint64_t cells)
      : meta(sizeof(std::uint32_t)),
        keys(meta + cells * meta_bytes(section) + 2 * sizeof(std::uint32_t)) {}
  std::uint64_t meta;
  std::uint64_t keys;  // first layer: type and size, then rows
};

constexpr std::size_t kKeyHead = sizeof(std::int32_t) + sizeof(std::uint64_t);

std::size_t value_head(const StateSection& section) {
  return section.transposed ? 3 * sizeof(std::int32_t) : kKeyHead;
}

std::uint64_t attention_bytes(const StateSection& section, std::uint64_t cells) {
  return SectionOffsets(section, cells).keys + section.key_rows.size() * kKeyHead +
         section.value_rows.size() * value_head(section) +
         cells * (sum(section.key_rows) + sum(section.value_rows));
}

/// Whether the metadata of cells and layers, between their rows, matches the format.
bool matches_format(const StateSection& section, const SectionContent& content) {
  StateCursor from(content.bytes);
  from.take<std::uint32_t>();  // cells
  for (std::uint32_t i = 0; i < content.cells; ++i) {
    from.skip(kPosition);
    from.expect(from.take<std::uint32_t>() == 1);
    from.skip(meta_bytes(section) - kPosition - sizeof(std::uint32_t));
  }
  from.expect(from.take<std::uint32_t>() == (section.transposed ? 1U : 0U));
  from.expect(from.take<std::uint32_t>() == section.key_rows.size());
  for (std::size_t layer = 0; layer < section.key_rows.size(); ++layer) {
    from.expect(from.take<std::int32_t>() == section.key_types[layer]);
    from.expect(from.take<std::uint64_t>() == section.key_rows[layer]);
    from.skip(std::uint64_t{content.cells} * section.key_rows[layer]);
  }
  for (std::size_t layer = 0; layer < section.value_rows.size(); ++layer) {
    const std::uint32_t size = section.value_rows[layer];
    from.expect(from.take<std::int32_t>() == section.value_types[layer]);
    if (section.transposed) {
      from.expect(from.take<std::uint32_t>() == section.value_element);
      from.expect(from.take<std::uint32_t>() == size / section.value_element);
    } else {
      from.expect(from.take<std::uint64_t>() == size);
    }
    from.skip(std::uint64_t{content.cells} * size);
  }
  return from.good() && from.at_end();
}

/// Transposes `count` tokens between the library's order (all tokens of one element, then the next
/// element) and the cache's (all elements of one token). A few tokens at a time, so that source and
/// target stay in the CPU caches.
template <bool kToRows>
void transpose(std::byte* elements, std::size_t cells, std::size_t first, std::size_t count,
               std::size_t element, std::size_t row_elements, std::byte* rows, std::size_t stride) {
  constexpr std::size_t kTokens = 16;
  for (std::size_t from = 0; from < count; from += kTokens) {
    const std::size_t to = std::min(from + kTokens, count);
    for (std::size_t j = 0; j < row_elements; ++j) {
      std::byte* const column = elements + (j * cells + first) * element;
      for (std::size_t i = from; i < to; ++i) {
        std::byte* const there = rows + i * stride + j * element;
        if constexpr (kToRows) {
          std::memcpy(there, column + i * element, element);
        } else {
          std::memcpy(column + i * element, there, element);
        }
      }
    }
  }
}

template <bool kToRows>
void transpose_sized(std::byte* elements, std::size_t cells, std::size_t first, std::size_t count,
                     std::size_t element, std::size_t row_bytes, std::byte* rows,
                     std::size_t stride) {
  const std::size_t row_elements = row_bytes / element;
  // A compile-time element size turns each copy into one instruction.
  if (element == 2) {
    transpose<kToRows>(elements, cells, first, count, 2, row_elements, rows, stride);
  } else if (element == 4) {
    transpose<kToRows>(elements, cells, first, count, 4, row_elements, rows, stride);
  } else {
    transpose<kToRows>(elements, cells, first, count, element, row_elements, rows, stride);
  }
}

class StateWriter {
 public:
  explicit StateWriter(std::size_t size) { bytes_.reserve(size); }
  template <typename T>
  void put(T value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof value);
  }
  void put(std::span<const std::byte> from) {
    bytes_.insert(bytes_.end(), from.begin(), from.end());
  }
  std::byte* append(std::size_t count) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + count);
    return bytes_.data() + at;
  }
  std::vector<std::byte> finish() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Calls `visit(index of the first row, pointer to the library's part of it, number of rows)` for
/// each run of consecutive rows.
template <typename Visit>
void for_each_piece(const SectionRows& rows, const Visit& visit) {
  std::size_t first = rows.empty;
  for (const auto piece : rows.pieces) {
    const std::size_t count = piece.size() / rows.stride;
    visit(first, piece.data() + rows.skip, count);
    first += count;
  }
}

void write_cell_metadata(const StateSection& section, const SectionRows& rows, StateWriter& to) {
  const auto put_cell = [&](const std::byte* place) {
    to.put(std::span(place, kPosition));
    to.put<std::uint32_t>(1);
    to.put(std::span(place + kPosition, section.cell_meta_bytes - kPosition));
    to.put<std::int32_t>(0);
  };
  std::vector<std::byte> empty_cell(section.cell_meta_bytes);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(rows.empty); ++i) {
    std::memcpy(empty_cell.data(), &i, sizeof i);
    put_cell(empty_cell.data());
  }
  for_each_piece(rows, [&](std::size_t /*first*/, const std::byte* row, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) put_cell(row + i * rows.stride);
  });
}

void write_attention(const StateSection& section, const SectionRows& rows, StateWriter& to) {
  const std::size_t cells = rows.empty + rows.cells;
  to.put(section.streams);
  to.put(static_cast<std::uint32_t>(cells));
  write_cell_metadata(section, rows, to);
  to.put<std::uint32_t>(section.transposed ? 1 : 0);
  to.put(static_cast<std::uint32_t>(section.key_rows.size()));
  std::size_t offset = section.cell_meta_bytes;
  const auto copy = [&](std::byte* layer, std::size_t size) {
    for_each_piece(rows, [&](std::size_t first, const std::byte* row, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(layer + (first + i) * size, row + i * rows.stride + offset, size);
      }
    });
    offset += size;
  };
  for (std::size_t layer = 0; layer < section.key_rows.size(); ++layer) {
    const std::size_t size = section.key_rows[layer];
    to.put(section.key_types[layer]);
    to.put(std::uint64_t{size});
    copy(to.append(cells * size), size);
  }
  for (std::size_t layer = 0; layer < section.value_rows.size(); ++layer) {
    const std::size_t size = section.value_rows[layer];
    to.put(section.value_types[layer]);
    if (!section.transposed) {
      to.put(std::uint64_t{size});
      copy(to.append(cells * size), size);
      continue;
    }
    to.put(section.value_element);
    to.put(static_cast<std::uint32_t>(size / section.value_element));
    std::byte* const elements = to.append(cells * size);
    for_each_piece(rows, [&](std::size_t first, const std::byte* row, std::size_t count) {
      // const_cast: the function serves both directions and only reads here.
      transpose_sized<false>(elements, cells, first, count, section.value_element, size,
                             const_cast<std::byte*>(row) + offset, rows.stride);
    });
    offset += size;
  }
  for (std::uint32_t stream = 1; stream < section.streams; ++stream) to.put<std::uint32_t>(0);
}

}  // namespace

std::size_t StateSection::row_bytes() const {
  return cell_meta_bytes + sum(key_rows) + sum(value_rows);
}

Result<StateFormat> StateFormat::learn(std::span<const std::byte> written, TokenCount tokens,
                                       std::span<const KvKind> kinds) {
  for (const std::size_t place : {kPosition, kPosition + kMropeCellBytes}) {
    if (auto format = learn_with(written, tokens.value(), kinds, place)) return *std::move(format);
  }
  return fail(ErrorCode::kUnsupported,
              "the format of this model's sequence state is not supported");
}

std::int32_t SectionContent::position(const StateSection& section, std::uint32_t i) const {
  std::int32_t position = 0;
  const std::size_t at = SectionOffsets(section, cells).meta + i * meta_bytes(section);
  std::memcpy(&position, bytes.data() + at, sizeof position);
  return position;
}

void SectionContent::copy_rows(const StateSection& section, std::uint32_t from, std::uint32_t to,
                               std::span<std::byte> rows, std::size_t stride) const {
  const SectionOffsets offsets(section, cells);
  const std::size_t count = to - from;
  AFI_CHECK(from <= to && to <= cells);
  if (count == 0) return;
  AFI_CHECK(rows.size() >= (count - 1) * stride + section.row_bytes());
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const cell = bytes.data() + offsets.meta + (from + i) * meta_bytes(section);
    std::byte* const row = rows.data() + i * stride;
    std::memcpy(row, cell, kPosition);
    std::memcpy(row + kPosition, cell + kPosition + sizeof(std::uint32_t),
                section.cell_meta_bytes - kPosition);
  }
  std::size_t offset = section.cell_meta_bytes;
  std::size_t at = offsets.keys;
  const auto copy = [&](std::size_t size) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(rows.data() + i * stride + offset, bytes.data() + at + (from + i) * size, size);
    }
    at += cells * size;
    offset += size;
  };
  for (const std::uint32_t size : section.key_rows) {
    at += kKeyHead;
    copy(size);
  }
  for (const std::uint32_t size : section.value_rows) {
    at += value_head(section);
    if (!section.transposed) {
      copy(size);
      continue;
    }
    transpose_sized<true>(const_cast<std::byte*>(bytes.data()) + at, cells, from, count,
                          section.value_element, size, rows.data() + offset, stride);
    at += std::size_t{cells} * size;
    offset += size;
  }
}

Result<std::vector<SectionContent>> read_state(const StateFormat& format,
                                               std::span<const std::byte> written, bool partial) {
  StateCursor from(written);
  from.expect(from.take<std::uint32_t>() == format.magic);
  from.take<std::int32_t>();
  std::vector<SectionContent> contents;
  for (const StateSection& section : format.sections) {
    SectionContent& content = contents.emplace_back();
    if (partial && section.kind == KvKind::kFull) continue;
    if (section.kind == KvKind::kRecurrent) {
      content = {.cells = 1, .bytes = from.skip(section.state_bytes)};
      StateCursor state(content.bytes);
      from.expect(state.take<std::uint32_t>() == 1);
      state.take<std::int32_t>();
      from.expect(state.take<std::uint32_t>() == 0);
      continue;
    }
    from.expect(from.take<std::uint32_t>() == section.streams);
    std::uint32_t stream = 0;
    const auto before = from.rest();
    content.cells = take_cells_before(from, section.streams, stream);
    if (content.cells == 0) continue;  // all streams are empty
    const std::size_t count_at = before.size() - from.rest().size() - sizeof(std::uint32_t);
    const std::uint64_t size = attention_bytes(section, content.cells);
    content.bytes = before.subspan(count_at);
    from.skip(size - sizeof(std::uint32_t));
    if (!from.good()) break;
    content.bytes = content.bytes.first(static_cast<std::size_t>(size));
    from.expect(matches_format(section, content));
    take_empty_streams(from, section.streams, stream);
  }
  if (from.good() && from.at_end()) return contents;
  return fail(ErrorCode::kCorruption, "a sequence state of " + std::to_string(written.size()) +
                                          " bytes does not match this model's format");
}

std::vector<std::byte> write_state(const StateFormat& format,
                                   std::span<const SectionRows> sections) {
  AFI_CHECK(sections.size() == format.sections.size());
  std::size_t size = 2 * sizeof(std::uint32_t);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const StateSection& section = format.sections[i];
    size += section.kind == KvKind::kRecurrent
                ? section.state_bytes
                : attention_bytes(section, sections[i].empty + sections[i].cells) +
                      section.streams * sizeof(std::uint32_t);
  }
  StateWriter to(size);
  to.put(format.magic);
  to.put<std::int32_t>(0);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const StateSection& section = format.sections[i];
    if (section.kind == KvKind::kRecurrent) {
      to.put(sections[i].pieces.front().subspan(sections[i].skip));
    } else {
      write_attention(section, sections[i], to);
    }
  }
  return std::move(to).finish();
}

}  // namespace afterimage
