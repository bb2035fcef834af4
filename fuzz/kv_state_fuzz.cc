// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// KV from an archive or another engine, for a layout of any kind: an accepted slice has exactly the
// layout's rows, so that copying them never reads out of bounds.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "fuzz_input.h"

using namespace afterimage;

namespace {

KvLayout layout_of(testing::FuzzInput& input) {
  KvLayout layout{.alignment = TokenCount(input.u8() % 5)};
  for (std::uint8_t left = input.u8() % 5; left > 0; --left) {
    layout.groups.push_back({.kind = static_cast<KvKind>(1 + input.u8() % 4),
                             .layers = input.u8() % 3U,
                             .window = TokenCount(input.u8() % 9),
                             .owner = input.u8() % 4U,
                             .row_bytes = Bytes(input.u8() % 4),
                             .state_bytes = Bytes(input.u8() % 4)});
  }
  return layout;
}

Sequence prompt_of(testing::FuzzInput& input) {
  Sequence prompt{.tokens = std::vector<TokenId>(input.u8() % 24)};
  for (std::uint8_t left = input.u8() % 3; left > 0; --left) {
    prompt.spans.push_back({.offset = TokenCount(input.u8()),
                            .length = TokenCount(input.u8()),
                            .splittable = input.u8() % 2 == 0});
  }
  return prompt;
}

std::uint64_t extent_of(testing::FuzzInput& input) {
  const std::uint8_t n = input.u8();
  return n < 250 ? n % 12U : input.u64();
}

/// Pieces whose sizes mostly agree with their row counts, from `first` on.
std::vector<KvRows> pieces_of(testing::FuzzInput& input, TokenCount first) {
  static const std::vector<std::byte> kBytes(4096);
  std::vector<KvRows> pieces;
  for (std::uint8_t left = input.u8() % 4; left > 0; --left) {
    const std::uint64_t rows = extent_of(input);
    const std::uint64_t row = extent_of(input);
    const std::uint8_t how = input.u8();
    std::uint64_t size = 0;
    if (__builtin_mul_overflow(rows, row, &size) || size > kBytes.size()) size = how;
    if (how % 8 == 0) size = std::min<std::uint64_t>(size + 1, kBytes.size());
    const TokenCount count(static_cast<std::uint32_t>(rows));
    pieces.push_back({.first = how % 8 == 2 ? TokenCount(how) : first,
                      .count = count,
                      .bytes = std::span(kBytes).first(size)});
    first = count <= TokenCount::max() - first ? first + count : TokenCount(0);
  }
  return pieces;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::FuzzInput input(data, size);
  const KvLayout layout = layout_of(input);
  const Sequence prompt = prompt_of(input);
  if (!check_layout(layout).has_value() || !check_sequence(prompt).has_value()) return 0;

  const KvOrigin origin{};
  KvSlice slice{.origin = origin, .end = TokenCount(input.u8() % 24)};
  KvSnapshot& snapshot = slice.snapshots.emplace_back();
  snapshot.at = slice.end;
  while (!input.empty() && slice.rows.size() < 6) {
    const std::size_t group = slice.rows.size();
    const bool known = group < layout.groups.size();
    const KvKind kind = known ? layout.groups[group].kind : KvKind::kShared;
    const TokenCount window = known ? layout.groups[group].window : TokenCount(0);
    const bool sliding = kind == KvKind::kSliding;
    auto pieces = pieces_of(input, sliding ? sub_sat(slice.end, window) : TokenCount(0));
    const bool in_rows = kind == KvKind::kFull;
    slice.rows.push_back(in_rows ? pieces : std::vector<KvRows>());
    snapshot.groups.push_back(in_rows ? std::vector<KvRows>() : std::move(pieces));
  }
  if (!check_slice(slice, layout).has_value()) {
    AFI_CHECK(!check_resume(slice, layout, origin, prompt).has_value());
  }
  const auto good = check_resume(slice, layout, origin, prompt);
  if (!good.has_value()) {
    AFI_CHECK(!good.error().message.empty());
    return 0;
  }
  AFI_CHECK(slice.rows.size() == layout.groups.size());
  AFI_CHECK(slice.end.value() % layout.alignment.value() == 0);
  AFI_CHECK(slice.end.value() < prompt.tokens.size());
  for (const MediaSpan& span : prompt.spans) {
    AFI_CHECK(span.splittable || slice.end <= span.offset || slice.end >= span.end());
  }
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    std::uint64_t held = 0;
    const std::span<const KvRows> pieces = rows_to_restore(slice, layout, i);
    for (const KvRows& piece : pieces) held += piece.bytes.size();
    AFI_CHECK(held == rows_at(layout.groups[i], slice.end) * row_size(layout.groups[i]).value());
    if (layout.groups[i].kind == KvKind::kRecurrent) continue;
    std::uint64_t half = 0;
    const TokenCount middle(slice.end.value() / 2);
    for (const KvRows& piece : rows_between(pieces, middle, slice.end)) half += piece.bytes.size();
    for (const KvRows& piece : rows_between(pieces, {}, middle)) half += piece.bytes.size();
    AFI_CHECK(half == held);
  }
  AFI_CHECK(!check_resume(slice, layout, KvOrigin{.bytes = {std::byte{1}}}, prompt).has_value());
  return 0;
}
