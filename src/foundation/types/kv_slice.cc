// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <limits>
#include <string>

#include "afterimage/kv.h"
#include "afterimage/result.h"

namespace afterimage {
namespace {

std::string name_of(const KvLayout& layout, std::size_t group) {
  return "group " + std::to_string(group) + " (" +
         std::string(to_string(layout.groups[group].kind)) + ")";
}

std::string range(TokenCount begin, TokenCount end) {
  return "[" + std::to_string(begin.value()) + ", " + std::to_string(end.value()) + ")";
}

std::string described(std::span<const KvRows> pieces) {
  if (pieces.empty()) return "none";
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  for (const KvRows& piece : pieces) {
    count += piece.count.value();
    bytes += piece.bytes.size();
  }
  return std::to_string(count) + " from " + std::to_string(pieces.front().first.value()) +
         " on, of " + std::to_string(bytes) + " bytes in " + std::to_string(pieces.size()) +
         " pieces";
}

bool is_whole(const KvRows& piece, Bytes row) {
  std::uint64_t expected = 0;
  return !__builtin_mul_overflow(std::uint64_t{piece.count.value()}, row.value(), &expected) &&
         piece.bytes.size() == expected;
}

/// Whether `pieces` are whole rows, in order and without gaps, that end before `end`.
bool follow_each_other(std::span<const KvRows> pieces, TokenCount end, Bytes row) {
  if (pieces.empty()) return true;
  TokenCount at = pieces.front().first;
  for (const KvRows& piece : pieces) {
    if (piece.first != at || piece.count > sub_sat(end, at) || !is_whole(piece, row)) return false;
    at += piece.count;
  }
  return at == end;
}

Result<void> check_empty(const std::string& where, std::span<const KvRows> pieces) {
  if (pieces.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, where + " must be empty; it has " + described(pieces));
}

Result<void> check_rows(const KvSlice& slice, const KvLayout& layout, std::size_t g) {
  const std::string what = "rows of " + name_of(layout, g);
  const std::vector<KvRows>& pieces = slice.rows[g];
  if (layout.groups[g].kind != KvKind::kFull) return check_empty(what, pieces);
  const Bytes row = layout.groups[g].row_bytes;
  const TokenCount first = pieces.empty() ? slice.end : pieces.front().first;
  if (first == slice.begin && follow_each_other(pieces, slice.end, row)) return {};
  return fail(ErrorCode::kInvalidArgument, what + " must be " + range(slice.begin, slice.end) +
                                               ", " + std::to_string(row.value()) +
                                               " bytes each; there are " + described(pieces));
}

Result<void> check_window(const std::string& what, TokenCount at, const LayerGroup& group,
                          std::span<const KvRows> pieces) {
  const TokenCount latest = sub_sat(at, group.window);
  const TokenCount first = pieces.empty() ? at : pieces.front().first;
  if (first <= latest && follow_each_other(pieces, at, group.row_bytes)) return {};
  return fail(ErrorCode::kInvalidArgument, what + " must have rows " + range(latest, at) +
                                               ", and may have earlier ones, " +
                                               std::to_string(group.row_bytes.value()) +
                                               " bytes each; it has " + described(pieces));
}

Result<void> check_state(const std::string& what, const LayerGroup& group,
                         std::span<const KvRows> pieces) {
  if (pieces.size() == 1 && pieces.front().first == TokenCount(0) &&
      pieces.front().count == TokenCount(1) && is_whole(pieces.front(), group.state_bytes)) {
    return {};
  }
  return fail(ErrorCode::kInvalidArgument, what + " must have one state of " +
                                               std::to_string(group.state_bytes.value()) +
                                               " bytes; it has " + described(pieces));
}

Result<void> check_snapshot(const KvSnapshot& snapshot, const KvLayout& layout) {
  const std::string where = "the snapshot at " + std::to_string(snapshot.at.value());
  if (snapshot.groups.size() != layout.groups.size()) {
    return fail(ErrorCode::kInvalidArgument,
                where + " has " + std::to_string(snapshot.groups.size()) +
                    " groups; the layout has " + std::to_string(layout.groups.size()));
  }
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const LayerGroup& group = layout.groups[g];
    const std::string what = name_of(layout, g) + " of " + where;
    if (group.kind == KvKind::kSliding) {
      AFI_TRY_VOID(check_window(what, snapshot.at, group, snapshot.groups[g]));
    } else if (group.kind == KvKind::kRecurrent) {
      AFI_TRY_VOID(check_state(what, group, snapshot.groups[g]));
    } else {
      AFI_TRY_VOID(check_empty(what, snapshot.groups[g]));
    }
  }
  return {};
}

}  // namespace

Result<void> check_slice(const KvSlice& slice, const KvLayout& layout) {
  if (slice.begin > slice.end) {
    return fail(ErrorCode::kInvalidArgument,
                "a slice of positions " + range(slice.begin, slice.end) + " ends before it begins");
  }
  if (slice.rows.size() != layout.groups.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "a slice with rows of " + std::to_string(slice.rows.size()) +
                    " groups; the layout has " + std::to_string(layout.groups.size()));
  }
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    AFI_TRY_VOID(check_rows(slice, layout, g));
  }
  TokenCount before{};
  for (const KvSnapshot& snapshot : slice.snapshots) {
    if (snapshot.at == TokenCount(0) || snapshot.at < before) {
      return fail(ErrorCode::kInvalidArgument,
                  "the snapshot at " + std::to_string(snapshot.at.value()) + " follows one at " +
                      std::to_string(before.value()));
    }
    AFI_TRY_VOID(check_snapshot(snapshot, layout));
    before = snapshot.at;
  }
  return {};
}

KvRows rows_before(TokenCount end, const LayerGroup& group, std::span<const std::byte> bytes) {
  if (group.kind == KvKind::kRecurrent) return {.count = TokenCount(1), .bytes = bytes};
  const std::uint64_t row = std::max<std::uint64_t>(group.row_bytes.value(), 1);
  const TokenCount count(static_cast<std::uint32_t>(
      std::min<std::uint64_t>(bytes.size() / row, std::numeric_limits<std::uint32_t>::max())));
  return {.first = sub_sat(end, count), .count = count, .bytes = bytes};
}

std::vector<KvRows> rows_between(std::span<const KvRows> pieces, TokenCount begin, TokenCount end) {
  std::vector<KvRows> result;
  for (const KvRows& piece : pieces) {
    const TokenCount from = std::max(begin, piece.first);
    const TokenCount to = std::min(end, piece.first + piece.count);
    if (from >= to) continue;
    const std::size_t row = piece.bytes.size() / piece.count.value();
    result.push_back({.first = from,
                      .count = to - from,
                      .bytes = piece.bytes.subspan((from - piece.first).value() * row,
                                                   (to - from).value() * row)});
  }
  return result;
}

}  // namespace afterimage
