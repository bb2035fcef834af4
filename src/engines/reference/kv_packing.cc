// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/kv_packing.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "afterimage/result.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {
namespace {

LayerGroup group_of(const LayerKind& layer, const DecoderOptions& options,
                    std::span<const std::uint32_t> group_of_layer) {
  const Bytes row(2ULL * options.kv_heads * options.head_dim * sizeof(float));
  if (const auto* sliding = std::get_if<SlidingAttention>(&layer)) {
    return {.kind = KvKind::kSliding, .window = TokenCount(sliding->window), .row_bytes = row};
  }
  if (const auto* shared = std::get_if<SharedAttention>(&layer)) {
    return {.kind = KvKind::kShared, .owner = group_of_layer[shared->with]};
  }
  if (std::holds_alternative<Recurrence>(layer)) {
    const std::uint64_t floats = (1 + kConvolutionTail) * std::uint64_t{options.hidden};
    return {.kind = KvKind::kRecurrent, .state_bytes = Bytes(floats * sizeof(float))};
  }
  return {.kind = KvKind::kFull, .row_bytes = row};
}

// Compares the kind, window and owner only: layer counts and sizes are not set yet.
bool same_group(const LayerGroup& a, const LayerGroup& b) {
  return a.kind == b.kind && a.window == b.window && a.owner == b.owner;
}

void put(std::span<const float> numbers, std::byte*& to) {
  std::memcpy(to, numbers.data(), numbers.size_bytes());
  to += numbers.size_bytes();
}

void take(std::span<float> numbers, const std::byte*& from) {
  std::memcpy(numbers.data(), from, numbers.size_bytes());
  from += numbers.size_bytes();
}

/// One token's row of each layer.
void append_row(std::span<const std::size_t> layers, const std::byte* from, DecoderState& state) {
  std::vector<float> both;  // copied, because a piece may be unaligned
  for (const std::size_t layer : layers) {
    auto& rows = std::get<LayerRows>(state.layers[layer]);
    both.resize(2 * rows.row_size());
    take(both, from);
    rows.append(std::span(both).first(rows.row_size()), std::span(both).last(rows.row_size()));
  }
}

void restore_rows(std::span<const std::size_t> layers, std::span<const KvRows> pieces,
                  std::size_t first, DecoderState& state) {
  for (const std::size_t layer : layers) std::get<LayerRows>(state.layers[layer]).start_at(first);
  for (const KvRows& piece : pieces) {
    if (piece.count.value() == 0) continue;
    const std::size_t row = piece.bytes.size() / piece.count.value();
    for (std::uint32_t i = 0; i < piece.count.value(); ++i) {
      append_row(layers, piece.bytes.data() + i * row, state);
    }
  }
  for (const std::size_t layer : layers) {
    AFI_CHECK(std::get<LayerRows>(state.layers[layer]).end() == state.covered);
  }
}

void restore_states(std::span<const std::size_t> layers, const KvRows& packed,
                    DecoderState& state) {
  const std::byte* from = packed.bytes.data();
  for (const std::size_t layer : layers) {
    auto& recurrent = std::get<RecurrentState>(state.layers[layer]);
    take(recurrent.hidden, from);
    take({recurrent.tail.row(0), kConvolutionTail * recurrent.hidden.size()}, from);
  }
}

}  // namespace

KvPacking::KvPacking(const DecoderOptions& options) : kv_heads_(options.kv_heads) {
  std::vector<std::uint32_t> group_of_layer;
  std::vector<LayerGroup> single;  // each group with one layer
  for (std::size_t layer = 0; layer < options.layers.size(); ++layer) {
    const LayerGroup group = group_of(options.layers[layer], options, group_of_layer);
    const auto found = std::ranges::find_if(
        single, [&group](const LayerGroup& other) { return same_group(group, other); });
    const auto index = static_cast<std::size_t>(found - single.begin());
    if (found == single.end()) {
      single.push_back(group);
      layers_.emplace_back();
    }
    layers_[index].push_back(layer);
    group_of_layer.push_back(static_cast<std::uint32_t>(index));
  }
  for (std::size_t i = 0; i < single.size(); ++i) {
    LayerGroup group = single[i];
    group.layers = static_cast<std::uint32_t>(layers_[i].size());
    group.row_bytes = Bytes(group.row_bytes.value() * group.layers);
    group.state_bytes = Bytes(group.state_bytes.value() * group.layers);
    layout_.groups.push_back(group);
  }
  AFI_CHECK(check_layout(layout_).has_value());
}

KvRows KvPacking::rows_of(std::size_t group, const DecoderState& state, std::size_t from,
                          std::size_t to, KvBuffers& buffers) const {
  const std::span<std::byte> packed =
      buffers.add((to - from) * layout_.groups[group].row_bytes.value());
  std::vector<std::vector<float>> rows;
  for (const std::size_t layer : layers_[group]) {
    rows.push_back(std::get<LayerRows>(state.layers[layer]).rows(from, to));
  }
  std::byte* at = packed.data();
  for (std::size_t i = 0; i < to - from; ++i) {
    for (const std::vector<float>& layer : rows) {
      const std::size_t size = layer.size() / (to - from);
      put(std::span(layer).subspan(i * size, size), at);
    }
  }
  return {.first = TokenCount(static_cast<std::uint32_t>(from)),
          .count = TokenCount(static_cast<std::uint32_t>(to - from)),
          .bytes = packed};
}

KvRows KvPacking::state_of(std::size_t group, const DecoderState& state, KvBuffers& buffers) const {
  const std::span<std::byte> packed = buffers.add(layout_.groups[group].state_bytes.value());
  std::byte* at = packed.data();
  for (const std::size_t layer : layers_[group]) {
    const auto& recurrent = std::get<RecurrentState>(state.layers[layer]);
    put(recurrent.hidden, at);
    put(recurrent.tail.all(), at);
  }
  return {.count = TokenCount(1), .bytes = packed};
}

std::vector<std::vector<KvRows>> KvPacking::rows(const DecoderState& state, std::size_t from,
                                                 std::size_t to, KvBuffers& buffers) const {
  std::vector<std::vector<KvRows>> result(layout_.groups.size());
  for (std::size_t i = 0; from < to && i < result.size(); ++i) {
    if (layout_.groups[i].kind != KvKind::kFull) continue;
    result[i].push_back(rows_of(i, state, from, to, buffers));
  }
  return result;
}

KvSnapshot KvPacking::snapshot(const DecoderState& state, KvBuffers& buffers) const {
  KvSnapshot result{.at = TokenCount(static_cast<std::uint32_t>(state.covered)), .groups = {}};
  result.groups.resize(layout_.groups.size());
  for (std::size_t i = 0; i < result.groups.size(); ++i) {
    const LayerGroup& group = layout_.groups[i];
    if (group.kind == KvKind::kSliding) {
      const std::size_t first = state.covered - rows_at(group, result.at);
      result.groups[i].push_back(rows_of(i, state, first, state.covered, buffers));
    }
    if (group.kind == KvKind::kRecurrent) result.groups[i].push_back(state_of(i, state, buffers));
  }
  return result;
}

void KvPacking::restore(const KvSlice& from, DecoderState& state) const {
  AFI_CHECK(state.covered == 0);
  state.covered = from.end.value();
  for (std::size_t i = 0; i < layout_.groups.size(); ++i) {
    const LayerGroup& group = layout_.groups[i];
    if (group.kind == KvKind::kShared) continue;
    const std::span<const KvRows> pieces = rows_to_restore(from, layout_, i);
    if (group.kind == KvKind::kRecurrent) {
      restore_states(layers_[i], pieces.front(), state);
    } else {
      restore_rows(layers_[i], pieces, state.covered - rows_at(group, from.end), state);
    }
  }
}

void KvPacking::append_moved(const MovedMedia& item, const KeyRotation& rotation,
                             const TokenPlace& steps, DecoderState& state) const {
  std::size_t appended = 0;
  for (std::size_t group = 0; group < layout_.groups.size(); ++group) {
    if (layout_.groups[group].kind != KvKind::kFull) continue;
    const std::uint64_t size = layout_.groups[group].row_bytes.value();
    std::vector<std::byte> row(size);
    appended = 0;
    for (const KvRows& piece : item.rows[group]) {
      for (std::uint32_t i = 0; i < piece.count.value(); ++i) {
        if (piece.first + TokenCount(i) < item.recomputed) continue;
        std::memcpy(row.data(), piece.bytes.data() + i * size, size);
        rotate_keys(rotation, group, steps, row);
        append_row(layers_[group], row.data(), state);
        ++appended;
      }
    }
  }
  state.covered += appended;
}

std::vector<KeyRotation::Keys> KvPacking::keys() const {
  std::vector<KeyRotation::Keys> keys;
  for (std::size_t group = 0; group < layout_.groups.size(); ++group) {
    if (layout_.groups[group].kind != KvKind::kFull) continue;
    const std::uint64_t layer = layout_.groups[group].row_bytes.value() / layers_[group].size();
    for (std::size_t i = 0; i < layers_[group].size(); ++i) {
      keys.push_back({.group = group, .at = i * layer, .heads = kv_heads_});
    }
  }
  return keys;
}

}  // namespace afterimage
