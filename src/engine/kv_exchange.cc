// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/engine/kv_exchange.h"

#include <algorithm>

#include "afterimage/prefix/resume_point.h"

namespace afterimage {
namespace {

Result<TensorView> opaque(std::uint64_t rows, Bytes row_bytes, std::span<const std::byte> bytes) {
  return TensorView::over(DType::kU8, Shape{rows, row_bytes.value()}, bytes);
}

/// The rows before `length` that a group needs, out of slices that may hold more.
Result<TensorViews> last_rows(const std::vector<RowSlice>& slices, const LayerGroup& group,
                              TokenCount length) {
  const std::uint64_t first = length.value() - rows_at(group, length);
  TensorViews views;
  for (const RowSlice& slice : slices) {
    const std::uint64_t begin = std::max<std::uint64_t>(slice.first.value(), first);
    const std::uint64_t end =
        std::min<std::uint64_t>((slice.first + slice.count).value(), length.value());
    if (begin >= end) continue;
    const std::uint64_t row = group.row_bytes.value();
    AFI_TRY(TensorView view,
            opaque(end - begin, group.row_bytes,
                   slice.bytes.subspan((begin - slice.first.value()) * row, (end - begin) * row)));
    views.push_back(view);
  }
  return views;
}

}  // namespace

Result<KvState> state_of(const CachedKv& cached, const KvLayout& layout, const KvOrigin& origin) {
  KvState state{.origin = origin, .covered = cached.length, .groups = {}};
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    const LayerGroup& group = layout.groups[i];
    TensorViews views;
    if (group.kind == KvKind::kFull || group.kind == KvKind::kSliding) {
      AFI_TRY(views, last_rows(cached.groups[i].rows, group, cached.length));
    } else if (group.kind == KvKind::kRecurrent) {
      AFI_TRY(TensorView view, opaque(1, group.state_bytes, cached.groups[i].state));
      views.push_back(view);
    }
    state.groups.push_back(std::move(views));
  }
  return state;
}

CapturedKv captured_of(const KvCapture& capture, Duration cost) {
  CapturedKv kv{.covered = capture.rows_to, .first_row = capture.rows_from, .cost = cost};
  for (const Tensor& rows : capture.rows) kv.rows.emplace_back(rows.bytes);
  for (const KvSnapshot& snapshot : capture.snapshots) {
    CapturedSnapshot& captured = kv.snapshots.emplace_back();
    captured.at = snapshot.at;
    for (const Tensor& group : snapshot.groups) captured.groups.emplace_back(group.bytes);
  }
  return kv;
}

std::vector<TokenCount> snapshot_positions(const Sequence& prompt, const KvLayout& layout,
                                           const PrefixMatch& match) {
  const bool needed = std::ranges::any_of(layout.groups, [](const LayerGroup& group) {
    return group.kind == KvKind::kSliding || group.kind == KvKind::kRecurrent;
  });
  std::vector<TokenCount> positions;
  if (!needed || prompt.tokens.size() < 2) return positions;
  const TokenCount last(static_cast<std::uint32_t>(prompt.tokens.size() - 1));
  positions.push_back(match.matched());
  for (std::size_t i = 0; i < prompt.spans.size(); ++i) {
    const TokenCount end = prompt.spans[i].end();
    const bool last_of_group = i + 1 == prompt.spans.size() || prompt.spans[i + 1].offset != end;
    if (last_of_group) positions.push_back(end);
  }
  positions.push_back(last);
  for (TokenCount& at : positions) at = legal_boundary(layout, prompt.spans, std::min(at, last));
  std::ranges::sort(positions);
  const auto repeated = std::ranges::unique(positions);
  positions.erase(repeated.begin(), repeated.end());
  std::erase_if(positions, [&](TokenCount at) { return at <= match.resume(); });
  return positions;
}

}  // namespace afterimage
