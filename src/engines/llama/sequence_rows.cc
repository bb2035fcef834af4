// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/sequence_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <ranges>
#include <string>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {
namespace {

using Position = std::int32_t;

void put_position(Position position, std::byte* to) { std::memcpy(to, &position, sizeof position); }

std::unexpected<Error> cell_count_mismatch(std::uint64_t cells, std::uint64_t tokens) {
  return fail(ErrorCode::kUnsupported, "the model keeps " + std::to_string(cells) + " cells for " +
                                           std::to_string(tokens) + " tokens");
}

/// The cells that hold tokens [first, first + count), in this order.
Result<std::vector<std::uint32_t>> cells_of(const StateSection& section,
                                            const SectionContent& content, std::uint32_t first,
                                            std::uint32_t count) {
  std::vector<std::uint32_t> cells(content.cells);
  std::iota(cells.begin(), cells.end(), 0U);
  const auto position = [&](std::uint32_t cell) { return content.position(section, cell); };
  // A ring buffer is serialized in memory order, not in order of position.
  if (!std::ranges::is_sorted(cells, {}, position)) std::ranges::sort(cells, {}, position);
  if (cells.size() < count) return cell_count_mismatch(cells.size(), count);
  cells.erase(cells.begin(), cells.end() - count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (position(cells[i]) != static_cast<Position>(first + i)) {
      return cell_count_mismatch(content.cells, count);
    }
  }
  return cells;
}

Position position_at(const std::byte* from) {
  Position position = 0;
  std::memcpy(&position, from, sizeof position);
  return position;
}

/// Larger than any context, and far enough from the maximum that positions cannot overflow.
constexpr Position kMaxPosition = 1 << 30;

/// The position after a row or a state; `own` points to the library's position in it.
Result<Position> position_behind(const std::byte* row, const std::byte* own) {
  const Position behind = position_at(row);
  const Position position = position_at(own);
  if (0 <= position && position < behind && behind <= kMaxPosition) return behind;
  return fail(ErrorCode::kCorruption, "a KV row at position " + std::to_string(position) +
                                          " has the next position " + std::to_string(behind));
}

}  // namespace

Result<SequenceRows> SequenceRows::learn(std::span<const std::byte> written, TokenCount tokens,
                                         std::span<const KvKind> kinds, const Window& window) {
  SequenceRows rows;
  rows.window_ = window;
  AFI_TRY(rows.format_, StateFormat::learn(written, tokens, kinds));
  for (const StateSection& section : rows.format_.sections) {
    LayerGroup& group = rows.layout_.groups.emplace_back(LayerGroup{.kind = section.kind});
    if (section.kind == KvKind::kRecurrent) {
      group.state_bytes = Bytes(sizeof(Position) + section.state_bytes);
      const auto state = written.last(section.state_bytes);  // always the last section
      rows.sample_state_.assign(state.begin(), state.end());
      continue;
    }
    group.layers = static_cast<std::uint32_t>(section.key_rows.size());
    group.row_bytes = Bytes(sizeof(Position) + section.row_bytes());
    if (section.kind == KvKind::kSliding) group.window = window.tokens;
  }
  AFI_TRY_VOID(check_layout(rows.layout_));
  return rows;
}

bool SequenceRows::has_only_full_groups() const {
  return std::ranges::all_of(layout_.groups,
                             [](const LayerGroup& group) { return group.kind == KvKind::kFull; });
}

Result<SequenceRows::Keys> SequenceRows::keys(std::uint32_t head_size) const {
  constexpr std::int32_t kF32 = 0;  // in the library's numbering
  constexpr std::int32_t kF16 = 1;
  Keys keys;
  for (std::size_t i = 0; i < format_.sections.size(); ++i) {
    const StateSection& section = format_.sections[i];
    std::uint64_t at = sizeof(Position) + section.cell_meta_bytes;
    for (std::size_t layer = 0; layer < section.key_rows.size(); ++layer) {
      const std::int32_t type = section.key_types[layer];
      if ((type != kF32 && type != kF16) || type != format_.sections.front().key_types.front()) {
        return fail(ErrorCode::kUnsupported, "its keys are kept in another type than f16 or f32");
      }
      const std::uint32_t head = head_size * (type == kF32 ? 4 : 2);
      if (head == 0 || section.key_rows[layer] % head != 0) {
        return fail(ErrorCode::kUnsupported, "layer " + std::to_string(layer) + " has keys of " +
                                                 std::to_string(section.key_rows[layer]) +
                                                 " bytes, not whole heads of " +
                                                 std::to_string(head));
      }
      keys.dtype = type == kF32 ? DType::kF32 : DType::kF16;
      keys.layers.push_back({.group = i, .at = at, .heads = section.key_rows[layer] / head});
      at += section.key_rows[layer];
    }
  }
  return keys;
}

std::int32_t SequenceRows::position(std::span<const std::byte> row) {
  return position_at(row.data() + sizeof(Position));
}

void SequenceRows::move(std::size_t group, std::int32_t steps, std::span<std::byte> row) const {
  const auto add = [&](std::size_t at) {
    std::uint32_t number = 0;
    std::memcpy(&number, row.data() + at, sizeof number);
    number += static_cast<std::uint32_t>(steps);
    std::memcpy(row.data() + at, &number, sizeof number);
  };
  add(0);  // the position after it
  add(sizeof(Position));
  if (format_.sections[group].cell_meta_bytes == sizeof(Position)) return;
  add(2 * sizeof(Position));  // column and row of M-RoPE
  add(3 * sizeof(Position));
}

Result<std::vector<std::vector<KvRows>>> SequenceRows::rows(StatePieces written, TokenCount from,
                                                            TokenCount to,
                                                            std::span<const std::int32_t> after,
                                                            KvBuffers& buffers) const {
  AFI_TRY(const auto contents, read_state(format_, written, false));
  std::vector<std::vector<KvRows>> all(layout_.groups.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const StateSection& section = format_.sections[i];
    if (section.kind != KvKind::kFull) continue;
    if (contents[i].cells != after.size())
      return cell_count_mismatch(contents[i].cells, after.size());
    if (from == to) continue;
    const std::size_t row = layout_.groups[i].row_bytes.value();
    const std::span<std::byte> bytes = buffers.add((to - from).value() * row);
    contents[i].copy_rows(section, from.value(), to.value(), bytes.subspan(sizeof(Position)), row);
    for (std::uint32_t token = from.value(); token < to.value(); ++token) {
      put_position(after[token], bytes.data() + (token - from.value()) * row);
    }
    all[i].push_back({.first = from, .count = to - from, .bytes = bytes});
  }
  return all;
}

Result<KvSnapshot> SequenceRows::snapshot(StatePieces partial, TokenCount at,
                                          std::span<const std::int32_t> after,
                                          KvBuffers& buffers) const {
  AFI_TRY(const auto contents, read_state(format_, partial, true));
  KvSnapshot snapshot{.at = at, .groups = std::vector<std::vector<KvRows>>(layout_.groups.size())};
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const StateSection& section = format_.sections[i];
    const LayerGroup& group = layout_.groups[i];
    if (section.kind == KvKind::kRecurrent) {
      const std::span<std::byte> bytes = buffers.add(group.state_bytes.value());
      put_position(after[at.value() - 1], bytes.data());
      std::byte* to = bytes.data() + sizeof(Position);
      for (const auto piece : contents[i].pieces) {
        std::memcpy(to, piece.data(), piece.size());
        to += piece.size();
      }
      snapshot.groups[i].push_back({.count = TokenCount(1), .bytes = bytes});
    }
    if (section.kind != KvKind::kSliding) continue;
    const auto count = static_cast<std::uint32_t>(rows_at(group, at));
    const std::uint32_t first = at.value() - count;
    AFI_TRY(const auto cells, cells_of(section, contents[i], first, count));
    const std::size_t row = group.row_bytes.value();
    const std::span<std::byte> bytes = buffers.add(count * row);
    for (std::uint32_t k = 0; k < count; ++k) {
      const std::span<std::byte> to = bytes.subspan(k * row, row);
      put_position(after[first + k], to.data());
      contents[i].copy_rows(section, cells[k], cells[k] + 1, to.subspan(sizeof(Position)), row);
    }
    snapshot.groups[i].push_back(
        {.first = TokenCount(first), .count = TokenCount(count), .bytes = bytes});
  }
  return snapshot;
}

Result<std::vector<std::int32_t>> SequenceRows::positions(const KvSlice& slice) const {
  std::vector<Position> known;  // from the last token backwards, as far as any group goes
  for (std::size_t group = 0; group < layout_.groups.size(); ++group) {
    // A state begins with its cell count; a row begins with its position.
    const bool recurrent = layout_.groups[group].kind == KvKind::kRecurrent;
    const std::size_t place = sizeof(Position) + (recurrent ? sizeof(std::uint32_t) : 0);
    const std::uint64_t row = row_size(layout_.groups[group]).value();
    std::vector<Position> own;
    for (const KvRows& piece : std::views::reverse(rows_to_restore(slice, layout_, group))) {
      for (std::uint32_t i = piece.count.value(); i > 0; --i) {
        const std::byte* const at = piece.bytes.data() + (i - 1) * row;
        AFI_TRY(const Position behind, position_behind(at, at + place));
        own.push_back(behind);
      }
    }
    if (own.size() > known.size()) known = std::move(own);
  }
  std::ranges::reverse(known);
  AFI_CHECK(!known.empty() && known.size() <= slice.end.value());
  std::vector<Position> after(slice.end.value() - known.size(), known.back());
  after.insert(after.end(), known.begin(), known.end());
  return after;
}

StateOutline SequenceRows::outline(const KvSlice& slice) const {
  std::vector<SectionRows> sections;
  for (std::size_t i = 0; i < layout_.groups.size(); ++i) {
    const LayerGroup& group = layout_.groups[i];
    SectionRows& section = sections.emplace_back();
    section.skip = sizeof(Position);
    section.stride = row_size(group).value();
    section.cells = static_cast<std::uint32_t>(rows_at(group, slice.end));
    if (group.kind == KvKind::kSliding) {
      section.empty = (slice.end.value() - section.cells) % window_.period.value();
    }
    for (const KvRows& piece : rows_to_restore(slice, layout_, i)) {
      if (!piece.bytes.empty()) section.pieces.push_back(piece.bytes);
    }
  }
  return outline_of(format_, std::move(sections));
}

StateOutline SequenceRows::zeros(TokenCount cells) const {
  std::vector<SectionRows> sections;
  for (const StateSection& section : format_.sections) {
    SectionRows& rows = sections.emplace_back();
    if (section.kind == KvKind::kRecurrent) {
      rows.pieces.push_back(sample_state_);  // the library resets it for a new sequence
    } else {
      const bool slides = section.kind == KvKind::kSliding;
      rows.empty = (slides ? std::min(cells, window_.cells) : cells).value();
      rows.stride = section.row_bytes();
    }
  }
  return outline_of(format_, std::move(sections));
}

}  // namespace afterimage
