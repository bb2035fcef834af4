// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <utility>

#include "afterimage/kv.h"

namespace afterimage {
namespace {

constexpr std::array<std::byte, 256> kBytes{};

KvLayout layout() {
  return {.groups = {{.kind = KvKind::kFull, .row_bytes = Bytes(8)},
                     {.kind = KvKind::kSliding, .window = TokenCount(3), .row_bytes = Bytes(4)},
                     {.kind = KvKind::kShared, .owner = 0},
                     {.kind = KvKind::kRecurrent, .state_bytes = Bytes(16)}}};
}

KvRows rows(std::uint32_t first, std::uint32_t count, std::size_t size) {
  return {.first = TokenCount(first),
          .count = TokenCount(count),
          .bytes = std::span(kBytes).first(count * size)};
}

// Rows [2, 9) in two pieces; the window at 9 is one row longer than needed.
KvSlice good() {
  return {
      .begin = TokenCount(2),
      .end = TokenCount(9),
      .rows = {{rows(2, 4, 8), rows(6, 3, 8)}, {}, {}, {}},
      .snapshots = {{.at = TokenCount(2), .groups = {{}, {rows(0, 2, 4)}, {}, {rows(0, 1, 16)}}},
                    {.at = TokenCount(9),
                     .groups = {{}, {rows(5, 1, 4), rows(6, 3, 4)}, {}, {rows(0, 1, 16)}}}}};
}

TEST(KvSlice, IsCheckedAgainstItsLayout) {
  const auto checked = check_slice(good(), layout());
  EXPECT_TRUE(checked.has_value()) << to_string(checked.error());
  const struct {
    const char* name;
    const char* says;
    std::function<void(KvSlice&)> change;
  } kCases[] = {
      {"ends before it begins", "[9, 8)",
       [](auto& s) { s.begin = TokenCount(9), s.end = TokenCount(8); }},
      {"a group less", "3 groups", [](auto& s) { s.rows.pop_back(); }},
      {"no rows", "group 0", [](auto& s) { s.rows[0].clear(); }},
      {"rows that begin later", "[2, 9)", [](auto& s) { s.rows[0].erase(s.rows[0].begin()); }},
      {"rows that end earlier", "[2, 9)", [](auto& s) { s.rows[0].pop_back(); }},
      {"rows that end later", "[2, 9)", [](auto& s) { s.rows[0].push_back(rows(9, 1, 8)); }},
      {"a gap", "group 0", [](auto& s) { s.rows[0][1] = rows(7, 2, 8); }},
      {"an overlap", "group 0", [](auto& s) { s.rows[0][1] = rows(5, 4, 8); }},
      {"out of order", "group 0", [](auto& s) { std::swap(s.rows[0][0], s.rows[0][1]); }},
      {"rows of another size", "8 bytes", [](auto& s) { s.rows[0][0] = rows(2, 4, 7); }},
      {"half a row", "8 bytes", [](auto& s) { s.rows[0][1].bytes = s.rows[0][1].bytes.first(20); }},
      {"as many rows as there are numbers", "group 0",
       [](auto& s) { s.rows[0][1].count = TokenCount::max(); }},
      {"rows of a sliding group", "group 1 (sliding)",
       [](auto& s) { s.rows[1] = {rows(2, 7, 4)}; }},
      {"rows of a shared group", "group 2 (shared)", [](auto& s) { s.rows[2] = {rows(2, 7, 8)}; }},
      {"snapshots out of order", "follows one at 9",
       [](auto& s) { std::swap(s.snapshots[0], s.snapshots[1]); }},
      {"a snapshot of nothing", "snapshot at 0",
       [](auto& s) { s.snapshots[0].at = TokenCount(0); }},
      {"a snapshot with a group less", "snapshot at 2",
       [](auto& s) { s.snapshots[0].groups.pop_back(); }},
      {"a window one short", "[6, 9)", [](auto& s) { s.snapshots[1].groups[1] = {rows(7, 2, 4)}; }},
      {"a window that ends early", "[6, 9)",
       [](auto& s) { s.snapshots[1].groups[1] = {rows(5, 3, 4)}; }},
      {"a window before the start", "[0, 2)",
       [](auto& s) { s.snapshots[0].groups[1] = {rows(0, 3, 4)}; }},
      {"no state", "one state", [](auto& s) { s.snapshots[0].groups[3].clear(); }},
      {"two states", "one state",
       [](auto& s) { s.snapshots[0].groups[3].push_back(rows(0, 1, 16)); }},
      {"a shorter state", "16 bytes", [](auto& s) { s.snapshots[0].groups[3] = {rows(0, 1, 15)}; }},
      {"full rows in a snapshot", "group 0 (full)",
       [](auto& s) { s.snapshots[0].groups[0] = {rows(0, 2, 8)}; }},
  };
  for (const auto& c : kCases) {
    KvSlice slice = good();
    c.change(slice);
    const auto refused = check_slice(slice, layout());
    ASSERT_FALSE(refused.has_value()) << c.name;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << c.name;
    EXPECT_TRUE(refused.error().message.contains(c.says))
        << c.name << ": " << refused.error().message;
  }
}

TEST(KvSlice, MayHaveNoRowsAndEmptyPieces) {
  KvSlice slice{.begin = TokenCount(4), .end = TokenCount(4), .rows = {{}, {}, {}, {}}};
  EXPECT_TRUE(check_slice(slice, layout()).has_value());
  slice.rows[0] = {rows(4, 0, 8), rows(4, 0, 8)};
  EXPECT_TRUE(check_slice(slice, layout()).has_value());
}

TEST(KvRows, EndWhereTheyAreSaidTo) {
  const KvLayout groups = layout();
  const KvRows window = rows_before(TokenCount(9), groups.groups[1], std::span(kBytes).first(12));
  EXPECT_EQ(window.first, TokenCount(6));
  EXPECT_EQ(window.count, TokenCount(3));
  const KvRows state = rows_before(TokenCount(9), groups.groups[3], std::span(kBytes).first(16));
  EXPECT_EQ(state.first, TokenCount(0));
  EXPECT_EQ(state.count, TokenCount(1));
  // Bytes that are not whole rows, or more of them than positions, stay for check_slice() to see.
  KvSlice slice{.end = TokenCount(2), .rows = {{}, {}, {}, {}}};
  for (const std::size_t size : {15U, 17U, 24U}) {
    slice.rows[0] = {rows_before(slice.end, groups.groups[0], std::span(kBytes).first(size))};
    EXPECT_FALSE(check_slice(slice, groups).has_value()) << size;
  }
}

TEST(KvRows, AreCutAtPositions) {
  const std::vector<KvRows> pieces = {rows(2, 4, 8), rows(6, 0, 8), rows(6, 3, 8)};
  const auto cut = rows_between(pieces, TokenCount(4), TokenCount(7));
  ASSERT_EQ(cut.size(), 2U);
  EXPECT_EQ(cut[0].first, TokenCount(4));
  EXPECT_EQ(cut[0].count, TokenCount(2));
  EXPECT_EQ(cut[0].bytes.data(), kBytes.data() + 16);
  EXPECT_EQ(cut[0].bytes.size(), 16U);
  EXPECT_EQ(cut[1].first, TokenCount(6));
  EXPECT_EQ(cut[1].bytes.size(), 8U);
  EXPECT_TRUE(rows_between(pieces, TokenCount(9), TokenCount(20)).empty());
  EXPECT_TRUE(rows_between(pieces, TokenCount(5), TokenCount(5)).empty());
}

TEST(KvBuffers, StayWhereTheyAre) {
  KvBuffers buffers;
  const std::span<std::byte> first = buffers.add(8);
  first[0] = std::byte{7};
  for (int i = 0; i < 100; ++i) static_cast<void>(buffers.add(64));
  EXPECT_EQ(first[0], std::byte{7});
  EXPECT_TRUE(buffers.add(0).empty());
}

}  // namespace
}  // namespace afterimage
