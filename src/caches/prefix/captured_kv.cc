// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/prefix/captured_kv.h"

#include <algorithm>
#include <string>

#include "afterimage/result.h"
#include "caches/prefix/resume_point.h"

namespace afterimage {
namespace {

constexpr std::size_t kMaxTokens = std::size_t{1} << 31U;

/// `pieces` as one tensor of `row` bytes a row.
void add_tensor(std::span<const KvRows> pieces, Bytes row, PayloadTensors& tensors) {
  std::uint64_t rows = 0;
  for (const KvRows& piece : pieces) rows += piece.count.value();
  std::span<const std::byte> bytes;
  if (pieces.size() == 1) {
    bytes = pieces.front().bytes;
  } else {
    const std::span<std::byte> joined = tensors.joined.add(rows * row.value());
    std::span<std::byte> left = joined;
    for (const KvRows& piece : pieces) {
      std::ranges::copy(piece.bytes, left.begin());
      left = left.subspan(piece.bytes.size());
    }
    bytes = joined;
  }
  auto view = TensorView::over(DType::kU8, Shape{rows, row.value()}, bytes);
  AFI_CHECK(view.has_value());
  tensors.views.push_back(*view);
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

Result<void> check_captured(const KvLayout& layout, const Sequence& sequence, const KvSlice& kv) {
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
  AFI_TRY_VOID(check_slice(kv, layout));
  if (kv.end.value() > sequence.tokens.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "the slice ends at " + std::to_string(kv.end.value()) + ", the sequence has " +
                    std::to_string(sequence.tokens.size()) + " tokens");
  }
  TokenCount before{};
  for (const KvSnapshot& snapshot : kv.snapshots) {
    const std::string where = "the snapshot at " + std::to_string(snapshot.at.value());
    if (!keeps_snapshots(layout) || snapshot.at <= before || snapshot.at > kv.end) {
      return fail(ErrorCode::kInvalidArgument,
                  where + " is not after the one at " + std::to_string(before.value()) +
                      ", is beyond the slice's end at " + std::to_string(kv.end.value()) +
                      ", or its layout needs no snapshots");
    }
    if (legal_boundary(layout, sequence.spans, snapshot.at) != snapshot.at) {
      return fail(ErrorCode::kInvalidArgument,
                  where + " is not at a multiple of the alignment, or inside a media item");
    }
    before = snapshot.at;
  }
  return {};
}

std::uint32_t serves_from(const KvLayout& layout, const KvSnapshot& snapshot) {
  if (keeps_states(layout)) return snapshot.at.value();
  std::uint32_t from = 0;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const LayerGroup& group = layout.groups[g];
    if (group.kind != KvKind::kSliding) continue;
    const std::uint32_t first = snapshot.groups[g].front().first.value();
    if (first > 0) from = std::max(from, first + group.window.value());
  }
  return from;
}

PayloadTensors row_tensors(const KvLayout& layout, const KvSlice& kv, TokenCount first,
                           TokenCount count) {
  PayloadTensors tensors;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    if (layout.groups[g].kind != KvKind::kFull) continue;
    add_tensor(rows_between(kv.rows[g], first, first + count), layout.groups[g].row_bytes, tensors);
  }
  return tensors;
}

PayloadTensors snapshot_tensors(const KvLayout& layout, const KvSnapshot& snapshot) {
  PayloadTensors tensors;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const LayerGroup& group = layout.groups[g];
    if (group.kind == KvKind::kSliding) add_tensor(snapshot.groups[g], group.row_bytes, tensors);
    if (group.kind == KvKind::kRecurrent) {
      add_tensor(snapshot.groups[g], group.state_bytes, tensors);
    }
  }
  return tensors;
}

Bytes row_payload_bytes(const KvLayout& layout, TokenCount count) {
  Bytes total;
  for (const LayerGroup& group : layout.groups) {
    if (group.kind != KvKind::kFull) continue;
    total += Bytes(Payload::padded(count.value() * group.row_bytes.value()));
  }
  return total;
}

Bytes snapshot_payload_bytes(const KvLayout& layout, const KvSnapshot& snapshot) {
  Bytes total;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    std::uint64_t bytes = 0;
    for (const KvRows& piece : snapshot.groups[g]) bytes += piece.bytes.size();
    total += Bytes(Payload::padded(bytes));
  }
  return total;
}

}  // namespace afterimage
