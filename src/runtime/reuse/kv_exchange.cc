// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/reuse/kv_exchange.h"

#include <algorithm>

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

}  // namespace afterimage
