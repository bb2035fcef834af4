// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/sequence_state.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "afterimage/result.h"

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
  explicit StateCursor(StatePieces pieces) : later_(pieces) { begin_next_piece(); }

  template <typename T>
  T take() {
    T value{};
    const auto from = skip(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  /// Bytes that lie in one piece.
  std::span<const std::byte> skip(std::uint64_t count) {
    if (count > piece_.size()) {
      fail();
      return {};
    }
    const auto taken = piece_.first(static_cast<std::size_t>(count));
    piece_ = piece_.subspan(taken.size());
    begin_next_piece();
    return taken;
  }
  /// Appends the next `count` bytes to `taken`, in as many pieces as they lie in.
  void take_pieces(std::uint64_t count, std::vector<std::span<const std::byte>>& taken) {
    while (count > 0 && !piece_.empty()) {
      taken.push_back(skip(std::min<std::uint64_t>(count, piece_.size())));
      count -= taken.back().size();
    }
    if (count > 0) fail();
  }
  void expect(bool holds) { good_ = good_ && holds; }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return piece_.empty(); }
  /// What is left of the current piece.
  [[nodiscard]] std::span<const std::byte> rest() const { return piece_; }

 private:
  void begin_next_piece() {
    while (piece_.empty() && !later_.empty()) {
      piece_ = later_.front();
      later_ = later_.subspan(1);
    }
  }
  void fail() {
    good_ = false;
    piece_ = {};
    later_ = {};
  }

  std::span<const std::byte> piece_;
  StatePieces later_;
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
  StateCursor from(StatePieces(&written, 1));
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

/// Takes `size` bytes of each cell. The first call for a section determines its runs.
void take_rows(StateCursor& from, std::uint64_t size, SectionContent& content) {
  const std::size_t before = content.pieces.size();
  from.take_pieces(size * content.cells, content.pieces);
  const auto taken = std::span(content.pieces).subspan(before);
  if (content.runs.empty()) {
    for (const auto piece : taken) {
      content.runs.push_back(static_cast<std::uint32_t>(piece.size() / size));
    }
  }
  from.expect(std::ranges::equal(taken, content.runs, [size](const auto& piece, std::uint64_t run) {
    return piece.size() == run * size;
  }));
}

/// Takes the rows of every layer, and before each what `key_head` and `value_head` take.
template <typename KeyHead, typename ValueHead>
void take_layers(StateCursor& from, const StateSection& section, SectionContent& content,
                 const KeyHead& key_head, const ValueHead& value_head) {
  for (std::size_t layer = 0; from.good() && layer < section.key_rows.size(); ++layer) {
    key_head(layer);
    take_rows(from, section.key_rows[layer], content);
  }
  for (std::size_t layer = 0; from.good() && layer < section.value_rows.size(); ++layer) {
    value_head(layer);
    const std::uint32_t size = section.value_rows[layer];
    const std::uint32_t column = section.transposed ? section.value_element : size;
    for (std::uint32_t at = 0; from.good() && at < size; at += column) {
      take_rows(from, column, content);
    }
  }
}

void read_attention(StateCursor& from, const StateSection& section, SectionContent& content) {
  from.expect(from.take<std::uint32_t>() == section.streams);
  std::uint32_t stream = 0;
  content.cells = take_cells_before(from, section.streams, stream);
  if (content.cells == 0) return;  // all streams are empty
  content.metadata = from.skip(std::uint64_t{content.cells} * meta_bytes(section));
  if (!from.good()) return;
  for (std::size_t at = kPosition; at < content.metadata.size(); at += meta_bytes(section)) {
    std::uint32_t owners = 0;
    std::memcpy(&owners, content.metadata.data() + at, sizeof owners);
    from.expect(owners == 1);
  }
  from.expect(from.take<std::uint32_t>() == (section.transposed ? 1U : 0U));
  from.expect(from.take<std::uint32_t>() == section.key_rows.size());
  const auto key_head = [&](std::size_t layer) {
    from.expect(from.take<std::int32_t>() == section.key_types[layer]);
    from.expect(from.take<std::uint64_t>() == section.key_rows[layer]);
  };
  const auto value_head = [&](std::size_t layer) {
    const std::uint32_t size = section.value_rows[layer];
    from.expect(from.take<std::int32_t>() == section.value_types[layer]);
    if (section.transposed) {
      from.expect(from.take<std::uint32_t>() == section.value_element);
      from.expect(from.take<std::uint32_t>() == size / section.value_element);
    } else {
      from.expect(from.take<std::uint64_t>() == size);
    }
  };
  take_layers(from, section, content, key_head, value_head);
  take_empty_streams(from, section.streams, stream);
}

void read_recurrent(StateCursor& from, const StateSection& section, SectionContent& content) {
  content.cells = 1;
  from.take_pieces(section.state_bytes, content.pieces);
  StateCursor state{StatePieces(content.pieces)};
  from.expect(state.take<std::uint32_t>() == 1);
  state.take<std::int32_t>();
  from.expect(state.take<std::uint32_t>() == 0);
}

template <bool kToRows>
void copy_between(std::byte* cell, std::byte* row, std::size_t size) {
  std::memcpy(kToRows ? row : cell, kToRows ? cell : row, size);
}

/// Some cells of one run, next to each other.
struct CellRange {
  std::size_t run = 0;
  std::size_t first = 0;  // within the run
  std::size_t count = 0;
};

/// Calls `visit(cells, how many of [from, to) come before them)` for each run.
template <typename Visit>
void for_each_run(const SectionContent& content, std::size_t from, std::size_t to,
                  const Visit& visit) {
  std::size_t begin = 0;
  for (std::size_t run = 0; run < content.runs.size(); ++run) {
    const std::size_t end = begin + content.runs[run];
    const std::size_t first = std::max(begin, from);
    const std::size_t last = std::min(end, to);
    if (first < last) {
      visit(CellRange{.run = run, .first = first - begin, .count = last - first}, first - from);
    }
    begin = end;
  }
}

/// Transposes between the library's order (all tokens of one element, then the next element: a
/// column) and the cache's (all elements of one token). A few tokens at a time, so that source and
/// target stay in the CPU caches. `columns` has those of every run; the element size is a
/// compile-time constant where it is common, which turns each copy into one instruction.
template <bool kToRows, typename Element>
void transpose(std::span<const std::span<const std::byte>> columns, std::size_t runs,
               const CellRange& cells, Element element, std::byte* rows, std::size_t stride) {
  constexpr std::size_t kTokens = 16;
  for (std::size_t from = 0; from < cells.count; from += kTokens) {
    const std::size_t to = std::min(from + kTokens, cells.count);
    std::byte* at = rows;
    for (std::size_t j = cells.run; j < columns.size(); j += runs, at += element) {
      // const_cast: this serves both directions; the places of a restore are writable.
      auto* const column = const_cast<std::byte*>(columns[j].data()) + cells.first * element;
      for (std::size_t i = from; i < to; ++i) {
        copy_between<kToRows>(column + i * element, at + i * stride, element);
      }
    }
  }
}

/// Copies keys and values between cells of one run and rows, which begin with metadata.
template <bool kToRows>
void copy_layers(const StateSection& section, const SectionContent& content, const CellRange& cells,
                 std::byte* rows, std::size_t stride) {
  const std::size_t runs = content.runs.size();
  auto pieces = std::span(content.pieces);
  rows += section.cell_meta_bytes;
  const auto copy = [&](std::size_t size) {
    auto* const from = const_cast<std::byte*>(pieces[cells.run].data()) + cells.first * size;
    for (std::size_t i = 0; i < cells.count; ++i) {
      copy_between<kToRows>(from + i * size, rows + i * stride, size);
    }
    pieces = pieces.subspan(runs);
    rows += size;
  };
  for (const std::uint32_t size : section.key_rows) copy(size);
  for (const std::uint32_t size : section.value_rows) {
    if (!section.transposed) {
      copy(size);
      continue;
    }
    const std::size_t element = section.value_element;
    const auto columns = pieces.first(size / element * runs);
    if (element == 2) {
      transpose<kToRows>(columns, runs, cells, std::integral_constant<std::size_t, 2>(), rows,
                         stride);
    } else if (element == 4) {
      transpose<kToRows>(columns, runs, cells, std::integral_constant<std::size_t, 4>(), rows,
                         stride);
    } else {
      transpose<kToRows>(columns, runs, cells, element, rows, stride);
    }
    pieces = pieces.subspan(columns.size());
    rows += size;
  }
}

/// Writes all of a state but rows, with gaps for those.
class OutlineWriter {
 public:
  template <typename T>
  void put(T value) {
    put(std::as_bytes(std::span(&value, 1)));
  }
  void put(std::span<const std::byte> from) {
    numbers_.insert(numbers_.end(), from.begin(), from.end());
  }
  void add(const StatePart& part) {
    end_numbers();
    parts_.push_back(part);
  }
  void finish(StateOutline& outline) && {
    end_numbers();
    outline.numbers = std::move(numbers_);
    outline.parts = std::move(parts_);
    // Only now do the numbers stay where they are.
    std::size_t begin = 0;
    for (const auto& [part, end] : ends_) {
      outline.parts[part].bytes = std::span(outline.numbers).subspan(begin, end - begin);
      begin = end;
    }
  }

 private:
  void end_numbers() {
    if (numbers_.size() == (ends_.empty() ? 0 : ends_.back().second)) return;
    ends_.emplace_back(parts_.size(), numbers_.size());
    parts_.emplace_back();
  }

  std::vector<std::byte> numbers_;
  std::vector<StatePart> parts_;
  std::vector<std::pair<std::size_t, std::size_t>> ends_;  // of numbers: the part, and its end
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

void write_cell_metadata(const StateSection& section, const SectionRows& rows, OutlineWriter& to) {
  const auto put_cell = [&](const std::byte* place) {
    to.put(std::span(place, kPosition));
    to.put<std::uint32_t>(1);
    to.put(std::span(place + kPosition, section.cell_meta_bytes - kPosition));
    to.put<std::int32_t>(0);
  };
  const auto empty = static_cast<std::int32_t>(rows.empty);
  std::int32_t first = empty;  // position of the first row
  if (!rows.pieces.empty()) {
    std::memcpy(&first, rows.pieces.front().data() + rows.skip, sizeof first);
  }
  std::vector<std::byte> empty_cell(section.cell_meta_bytes);
  for (std::int32_t i = 0; i < empty; ++i) {
    const std::int32_t position = std::max(0, first - empty + i);
    std::memcpy(empty_cell.data(), &position, sizeof position);
    put_cell(empty_cell.data());
  }
  for_each_piece(rows, [&](std::size_t /*first*/, const std::byte* row, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) put_cell(row + i * rows.stride);
  });
}

void write_attention(const StateSection& section, const SectionRows& rows, OutlineWriter& to) {
  const std::size_t cells = rows.empty + rows.cells;
  to.put(section.streams);
  to.put(static_cast<std::uint32_t>(cells));
  write_cell_metadata(section, rows, to);
  to.put<std::uint32_t>(section.transposed ? 1 : 0);
  to.put(static_cast<std::uint32_t>(section.key_rows.size()));
  for (std::size_t layer = 0; layer < section.key_rows.size(); ++layer) {
    const std::size_t size = section.key_rows[layer];
    to.put(section.key_types[layer]);
    to.put(std::uint64_t{size});
    to.add({.rows = cells * size});
  }
  for (std::size_t layer = 0; layer < section.value_rows.size(); ++layer) {
    const std::size_t size = section.value_rows[layer];
    to.put(section.value_types[layer]);
    if (section.transposed) {
      to.put(section.value_element);
      to.put(static_cast<std::uint32_t>(size / section.value_element));
    } else {
      to.put(std::uint64_t{size});
    }
    to.add({.rows = cells * size});
  }
  for (std::uint32_t stream = 1; stream < section.streams; ++stream) to.put<std::uint32_t>(0);
}

/// Copies rows to `content`, the places of the section.
void fill_section(const StateSection& section, const SectionRows& rows,
                  const SectionContent& content) {
  // One row of zeros serves all empty cells.
  std::vector<std::byte> zeros(rows.empty > 0 ? section.row_bytes() : 0);
  for_each_run(content, 0, rows.empty, [&](const CellRange& cells, std::size_t /*before*/) {
    copy_layers<false>(section, content, cells, zeros.data(), 0);
  });
  for_each_piece(rows, [&](std::size_t first, const std::byte* row, std::size_t count) {
    for_each_run(content, first, first + count, [&](const CellRange& cells, std::size_t before) {
      // const_cast: the function serves both directions and only reads rows here.
      copy_layers<false>(section, content, cells,
                         const_cast<std::byte*>(row) + before * rows.stride, rows.stride);
    });
  });
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
  std::memcpy(&position, metadata.data() + i * meta_bytes(section), sizeof position);
  return position;
}

void SectionContent::copy_rows(const StateSection& section, std::uint32_t from, std::uint32_t to,
                               std::span<std::byte> rows, std::size_t stride) const {
  AFI_CHECK(from <= to && to <= cells);
  if (from == to) return;
  AFI_CHECK(rows.size() >= (to - from - 1) * stride + section.row_bytes());
  for (std::size_t i = 0; i < to - from; ++i) {
    const std::byte* const cell = metadata.data() + (from + i) * meta_bytes(section);
    std::byte* const row = rows.data() + i * stride;
    std::memcpy(row, cell, kPosition);
    std::memcpy(row + kPosition, cell + kPosition + sizeof(std::uint32_t),
                section.cell_meta_bytes - kPosition);
  }
  for_each_run(*this, from, to, [&](const CellRange& some, std::size_t before) {
    copy_layers<true>(section, *this, some, rows.data() + before * stride, stride);
  });
}

Result<std::vector<SectionContent>> read_state(const StateFormat& format, StatePieces written,
                                               bool partial) {
  StateCursor from(written);
  from.expect(from.take<std::uint32_t>() == format.magic);
  from.take<std::int32_t>();
  std::vector<SectionContent> contents;
  for (const StateSection& section : format.sections) {
    SectionContent& content = contents.emplace_back();
    if (partial && section.kind == KvKind::kFull) continue;
    if (section.kind == KvKind::kRecurrent) {
      read_recurrent(from, section, content);
    } else {
      read_attention(from, section, content);
    }
    if (!from.good()) break;
  }
  if (from.good() && from.at_end()) return contents;
  return fail(ErrorCode::kCorruption, "a sequence state does not match this model's format");
}

StateOutline outline_of(const StateFormat& format, std::vector<SectionRows> sections) {
  AFI_CHECK(sections.size() == format.sections.size());
  OutlineWriter to;
  to.put(format.magic);
  to.put<std::int32_t>(0);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const StateSection& section = format.sections[i];
    if (section.kind == KvKind::kRecurrent) {
      to.add({.bytes = sections[i].pieces.front().subspan(sections[i].skip)});
    } else {
      write_attention(section, sections[i], to);
    }
  }
  StateOutline outline{.sections = std::move(sections), .numbers = {}, .parts = {}};
  std::move(to).finish(outline);
  return outline;
}

Result<void> fill_rows(const StateFormat& format, std::span<const SectionRows> sections,
                       StatePlaces places) {
  const std::vector<std::span<const std::byte>> pieces(places.begin(), places.end());
  StateCursor from{StatePieces(pieces)};
  const auto no_head = [](std::size_t /*layer*/) {};
  std::vector<SectionContent> contents(sections.size());
  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (format.sections[i].kind == KvKind::kRecurrent) continue;
    contents[i].cells = sections[i].empty + sections[i].cells;
    take_layers(from, format.sections[i], contents[i], no_head, no_head);
  }
  if (!from.good() || !from.at_end()) {
    return fail(ErrorCode::kCorruption, "the model has other places for rows than its format says");
  }
  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (format.sections[i].kind == KvKind::kRecurrent) continue;
    fill_section(format.sections[i], sections[i], contents[i]);
  }
  return {};
}

}  // namespace afterimage
