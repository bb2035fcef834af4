// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/prefix/captured_kv.h"

#include <algorithm>
#include <string>

#include "afterimage/check.h"

namespace afterimage {
namespace {

constexpr std::size_t kMaxTokens = std::size_t{1} << 31U;

TensorView bytes_view(std::span<const std::byte> bytes, std::uint64_t rows) {
  auto view = TensorView::over(DType::kU8, Shape{rows, rows == 0 ? 0 : bytes.size() / rows}, bytes);
  AFI_CHECK(view.has_value());
  return *view;
}

Result<void> check_bytes(const std::string& what, std::size_t found, std::uint64_t expected) {
  if (found == expected) return {};
  return fail(ErrorCode::kInvalidArgument, what + " must have " + std::to_string(expected) +
                                               " bytes, has " + std::to_string(found));
}

Result<void> check_window(const LayerGroup& group, TokenCount at, const std::string& what,
                          std::size_t found) {
  const std::uint64_t rows = found / group.row_bytes.value();
  const std::uint64_t least = std::min(at, group.window).value();
  if (found % group.row_bytes.value() == 0 && least <= rows && rows <= at.value()) return {};
  return fail(ErrorCode::kInvalidArgument, what + " must have " + std::to_string(least) + " to " +
                                               std::to_string(at.value()) + " rows of " +
                                               std::to_string(group.row_bytes.value()) +
                                               " bytes, has " + std::to_string(found) + " bytes");
}

Result<void> check_snapshot(const KvLayout& layout, const Sequence& sequence,
                            const CapturedSnapshot& snapshot) {
  const std::string where = "snapshot at " + std::to_string(snapshot.at.value());
  if (snapshot.groups.size() != layout.groups.size()) {
    return fail(ErrorCode::kInvalidArgument,
                where + " has " + std::to_string(snapshot.groups.size()) +
                    " groups, the layout has " + std::to_string(layout.groups.size()));
  }
  if (legal_boundary(layout, sequence.spans, snapshot.at) != snapshot.at) {
    return fail(ErrorCode::kInvalidArgument,
                where + " is not at a multiple of the alignment, or inside a media item");
  }
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const LayerGroup& group = layout.groups[g];
    const std::string what = "group " + std::to_string(g) + " of the " + where;
    const std::size_t found = snapshot.groups[g].size();
    if (group.kind == KvKind::kSliding) {
      AFI_TRY_VOID(check_window(group, snapshot.at, what, found));
    } else {
      const bool state = group.kind == KvKind::kRecurrent;
      AFI_TRY_VOID(check_bytes(what, found, state ? group.state_bytes.value() : 0));
    }
  }
  return {};
}

bool any_of_kind(const KvLayout& layout, KvKind kind) {
  return std::ranges::find(layout.groups, kind, &LayerGroup::kind) != layout.groups.end();
}

}  // namespace

bool keeps_rows(const KvLayout& layout) { return any_of_kind(layout, KvKind::kFull); }
bool keeps_states(const KvLayout& layout) { return any_of_kind(layout, KvKind::kRecurrent); }
bool keeps_snapshots(const KvLayout& layout) {
  return keeps_states(layout) || any_of_kind(layout, KvKind::kSliding);
}

Result<void> check_prompt(const Sequence& sequence) {
  if (sequence.tokens.size() > kMaxTokens) {
    return fail(ErrorCode::kInvalidArgument, "the sequence has " +
                                                 std::to_string(sequence.tokens.size()) +
                                                 " tokens; the limit is 2^31");
  }
  return check_sequence(sequence);
}

Result<void> check_captured(const KvLayout& layout, const Sequence& sequence,
                            const CapturedKv& kv) {
  AFI_TRY_VOID(check_layout(layout));
  AFI_TRY_VOID(check_prompt(sequence));
  const auto negative =
      std::ranges::find_if(sequence.tokens, [](TokenId id) { return id < TokenId(0); });
  if (negative != sequence.tokens.end()) {
    return fail(ErrorCode::kInvalidArgument,
                "token " + std::to_string(negative - sequence.tokens.begin()) +
                    " of the sequence has the negative id " +
                    std::to_string(static_cast<int>(*negative)));
  }
  if (kv.covered.value() > sequence.tokens.size() || kv.first_row > kv.covered) {
    return fail(ErrorCode::kInvalidArgument,
                "the capture holds rows [" + std::to_string(kv.first_row.value()) + ", " +
                    std::to_string(kv.covered.value()) + "), the sequence has " +
                    std::to_string(sequence.tokens.size()) + " tokens");
  }
  if (kv.rows.size() != layout.groups.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "the capture has rows for " + std::to_string(kv.rows.size()) +
                    " groups, the layout has " + std::to_string(layout.groups.size()));
  }
  const std::uint64_t rows = (kv.covered - kv.first_row).value();
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const LayerGroup& group = layout.groups[g];
    std::uint64_t expected = 0;
    if (group.kind == KvKind::kFull &&
        __builtin_mul_overflow(rows, group.row_bytes.value(), &expected)) {
      return fail(ErrorCode::kInvalidArgument, "the capture's rows exceed 2^64 bytes");
    }
    AFI_TRY_VOID(check_bytes("rows of group " + std::to_string(g), kv.rows[g].size(), expected));
  }
  TokenCount before{};
  for (const CapturedSnapshot& snapshot : kv.snapshots) {
    if (!keeps_snapshots(layout) || snapshot.at <= before || snapshot.at > kv.covered) {
      return fail(ErrorCode::kInvalidArgument,
                  "the snapshot at " + std::to_string(snapshot.at.value()) +
                      " is not after the one at " + std::to_string(before.value()) +
                      ", is beyond the " + std::to_string(kv.covered.value()) +
                      " covered tokens, or its layout needs no snapshots");
    }
    AFI_TRY_VOID(check_snapshot(layout, sequence, snapshot));
    before = snapshot.at;
  }
  return {};
}

std::uint32_t serves_from(const KvLayout& layout, const CapturedSnapshot& snapshot) {
  if (keeps_states(layout)) return snapshot.at.value();
  std::uint32_t from = 0;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const LayerGroup& group = layout.groups[g];
    if (group.kind != KvKind::kSliding) continue;
    const auto rows =
        static_cast<std::uint32_t>(snapshot.groups[g].size() / group.row_bytes.value());
    const std::uint32_t first = snapshot.at.value() - rows;
    if (first > 0) from = std::max(from, first + group.window.value());
  }
  return from;
}

TensorViews row_views(const KvLayout& layout, const CapturedKv& kv, TokenCount first,
                      TokenCount count) {
  TensorViews views;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    if (layout.groups[g].kind != KvKind::kFull) continue;
    const std::uint64_t row = layout.groups[g].row_bytes.value();
    views.push_back(
        bytes_view(kv.rows[g].subspan((first - kv.first_row).value() * row, count.value() * row),
                   count.value()));
  }
  return views;
}

TensorViews snapshot_views(const KvLayout& layout, const CapturedSnapshot& snapshot) {
  TensorViews views;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const LayerGroup& group = layout.groups[g];
    const std::span<const std::byte> bytes = snapshot.groups[g];
    if (group.kind == KvKind::kSliding) {
      views.push_back(bytes_view(bytes, bytes.size() / group.row_bytes.value()));
    } else if (group.kind == KvKind::kRecurrent) {
      views.push_back(bytes_view(bytes, 1));
    }
  }
  return views;
}

}  // namespace afterimage
