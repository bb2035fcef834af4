// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/sequence_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "conformance/resume_check.h"
#include "testing/restored_state.h"
#include "testing/written_sequence.h"

namespace afterimage {
namespace {

using testing::append_number;
using testing::bytes_of;
using testing::kinds_of;
using testing::positions_from;
using testing::written_models;
using testing::WrittenBytes;
using testing::WrittenMemory;
using testing::WrittenSequence;

constexpr std::int32_t kWindow = 5;
constexpr std::uint32_t kCells = 20;
const std::size_t kWrittenModels = written_models(3, kWindow).size();
constexpr std::size_t kFullAlone = 1;
constexpr std::size_t kSlidingAlone = 7;
constexpr std::size_t kFullAndSliding = 8;
constexpr std::size_t kRecurrentAlone = 9;
constexpr std::size_t kEverything = 11;

std::vector<WrittenMemory> memories_of(std::size_t model, std::int32_t tokens) {
  return written_models(tokens, kWindow)[model].second;
}

SequenceRows learned(std::size_t model, TokenCount period = TokenCount(1)) {
  const auto memories = memories_of(model, 3);
  return SequenceRows::learn(
             WrittenSequence(memories).bytes(), TokenCount(3), kinds_of(memories),
             {.tokens = TokenCount(kWindow), .cells = TokenCount(kCells), .period = period})
      .value();
}

/// The position after each of `tokens` tokens, counted from 0.
std::vector<std::int32_t> after(std::int32_t tokens) { return positions_from(1, tokens); }

/// One row: the position after the token, then the library's bytes.
WrittenBytes row_of(const WrittenMemory& memory, std::int32_t position, std::int32_t behind) {
  WrittenBytes row;
  append_number(behind, row);
  const WrittenBytes own = memory.row(position);
  row.insert(row.end(), own.begin(), own.end());
  return row;
}

WrittenBytes rows_of(const WrittenMemory& memory, std::int32_t from, std::int32_t to) {
  WrittenBytes rows;
  for (std::int32_t position = from; position < to; ++position) {
    const WrittenBytes row = row_of(memory, position, position + 1);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

/// A state in one piece.
struct OnePiece {
  std::span<const std::byte> bytes;
  operator StatePieces() const { return {&bytes, 1}; }
};
OnePiece pieces_of(const WrittenBytes& bytes) { return {bytes}; }

WrittenBytes restored(const SequenceRows& kv, const KvSlice& slice) {
  const StateOutline outline = kv.outline(slice);
  return testing::restored_state(outline,
                                 [&](StatePlaces places) { return kv.fill(outline, places); });
}

/// The capture of a run of `tokens` tokens, which restores its end.
struct Captured {
  Captured(const SequenceRows& kv, const std::vector<WrittenMemory>& memories, std::int32_t tokens)
      : Captured(kv, WrittenSequence(memories).bytes(), WrittenSequence(memories, true).bytes(),
                 after(tokens)) {}
  Captured(const SequenceRows& kv, const WrittenBytes& whole, const WrittenBytes& part,
           const std::vector<std::int32_t>& behind) {
    slice.end = TokenCount(static_cast<std::uint32_t>(behind.size()));
    slice.rows = kv.rows(pieces_of(whole), TokenCount(0), slice.end, behind, buffers).value();
    slice.snapshots.push_back(kv.snapshot(pieces_of(part), slice.end, behind, buffers).value());
    const auto checked = check_slice(slice, kv.layout());
    EXPECT_TRUE(checked.has_value()) << to_string(checked.error());
  }
  /// Of group `i`; writable for tests.
  std::vector<KvRows>& pieces(const KvLayout& layout, std::size_t i) {
    return layout.groups[i].kind == KvKind::kFull ? slice.rows[i]
                                                  : slice.snapshots.front().groups[i];
  }

  KvBuffers buffers;
  KvSlice slice;
};

TEST(SequenceRows, LayoutHasTheSizesOfRowsAndStates) {
  for (std::size_t model = 0; model < kWrittenModels; ++model) {
    const auto memories = memories_of(model, 3);
    const SequenceRows kv = learned(model);
    ASSERT_EQ(kv.layout().groups.size(), memories.size());
    bool all_full = true;
    for (std::size_t i = 0; i < memories.size(); ++i) {
      const LayerGroup& group = kv.layout().groups[i];
      EXPECT_EQ(group.kind, memories[i].kind);
      all_full = all_full && group.kind == KvKind::kFull;
      if (group.kind == KvKind::kRecurrent) {
        EXPECT_EQ(group.state_bytes.value(), 4 + 12 + memories[i].state_bytes);
        continue;
      }
      EXPECT_EQ(group.layers, memories[i].key_rows.size());
      EXPECT_EQ(group.row_bytes.value(), 4 + memories[i].row(0).size());
      EXPECT_EQ(group.window.value(), group.kind == KvKind::kSliding ? kWindow : 0);
    }
    EXPECT_EQ(kv.has_only_full_groups(), all_full);
  }
}

TEST(SequenceRows, RejectsAnEmptyWindow) {
  const auto memories = memories_of(kSlidingAlone, 3);
  EXPECT_FALSE(
      SequenceRows::learn(WrittenSequence(memories).bytes(), TokenCount(3), kinds_of(memories), {})
          .has_value());
}

TEST(SequenceRows, RestoresExactlyWhatWasCaptured) {
  for (const std::int32_t tokens : {1, kWindow - 1, kWindow, kWindow + 1, 40}) {
    for (std::size_t model = 0; model < kWrittenModels; ++model) {
      const auto memories = memories_of(model, tokens);
      const SequenceRows kv = learned(model);
      const Captured captured(kv, memories, tokens);
      EXPECT_EQ(restored(kv, captured.slice), WrittenSequence(memories).bytes())
          << written_models(3, 5)[model].first << ", " << tokens << " tokens";
    }
  }
}

TEST(SequenceRows, CapturesTheRequestedRowsOfFullGroupsOnly) {
  constexpr std::int32_t kTokens = 20;
  const auto memories = memories_of(kEverything, kTokens);
  const WrittenBytes written = WrittenSequence(memories).bytes();
  const SequenceRows kv = learned(kEverything);
  for (const auto& [from, to] : {std::pair{0, kTokens}, {3, 4}, {7, kTokens}, {9, 9}, {20, 20}}) {
    KvBuffers buffers;
    KvSlice slice{.begin = TokenCount(static_cast<std::uint32_t>(from)),
                  .end = TokenCount(static_cast<std::uint32_t>(to))};
    auto rows = kv.rows(pieces_of(written), slice.begin, slice.end, after(kTokens), buffers);
    ASSERT_TRUE(rows.has_value()) << to_string(rows.error());
    slice.rows = *std::move(rows);
    EXPECT_EQ(bytes_of(slice.rows[0]), rows_of(memories[0], from, to));
    const auto checked = check_slice(slice, kv.layout());
    EXPECT_TRUE(checked.has_value()) << to_string(checked.error());
  }
}

TEST(SequenceRows, RequiresOneCellPerToken) {
  const SequenceRows kv = learned(kFullAlone);
  const WrittenBytes written = WrittenSequence(memories_of(kFullAlone, 20)).bytes();
  for (const std::int32_t tokens : {19, 21}) {
    KvBuffers buffers;
    const auto rows =
        kv.rows(pieces_of(written), TokenCount(0), TokenCount(19), after(tokens), buffers);
    ASSERT_FALSE(rows.has_value());
    EXPECT_EQ(rows.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(rows.error().message.find("20 cells for " + std::to_string(tokens)),
              std::string::npos);
  }
}

TEST(SequenceRows, CapturesTheLastWindowRowsInAnyCellOrder) {
  const SequenceRows kv = learned(kSlidingAlone);
  for (const std::int32_t tokens : {1, 4, 5, 6, 20}) {
    WrittenMemory memory = memories_of(kSlidingAlone, tokens).front();
    const std::int32_t count = std::min(tokens, kWindow);
    for (const std::int32_t more : {0, 3}) {      // the library may keep more cells than the window
      for (const std::int32_t turned : {0, 2}) {  // and as a ring buffer
        const std::int32_t first = std::max(tokens - count - more, 0);
        memory.positions = positions_from(first, tokens - first);
        std::ranges::rotate(memory.positions,
                            memory.positions.begin() + std::min(turned, tokens - first - 1));
        KvBuffers buffers;
        const WrittenBytes part = WrittenSequence({memory}, true).bytes();
        const auto snapshot =
            kv.snapshot(pieces_of(part), TokenCount(static_cast<std::uint32_t>(tokens)),
                        after(tokens), buffers);
        ASSERT_TRUE(snapshot.has_value()) << to_string(snapshot.error());
        EXPECT_EQ(snapshot->at.value(), static_cast<std::uint32_t>(tokens));
        EXPECT_EQ(bytes_of(snapshot->groups[0]), rows_of(memory, tokens - count, tokens)) << tokens;
      }
    }
  }
}

TEST(SequenceRows, RejectsAWindowWithAMissingCell) {
  const SequenceRows kv = learned(kSlidingAlone);
  constexpr std::int32_t kTokens = 20;
  const struct {
    const char* name;
    std::vector<std::int32_t> positions;
  } kCases[] = {{"too few", {16, 17, 18, 19}},       {"nothing", {}},
                {"a gap", {13, 14, 16, 17, 18, 19}}, {"one twice", {16, 17, 17, 18, 19}},
                {"one ahead", {16, 17, 18, 19, 20}}, {"one behind", {14, 15, 16, 17, 18}},
                {"below zero", {-5, 16, 17, 18, 19}}};
  for (const auto& c : kCases) {
    WrittenMemory memory = memories_of(kSlidingAlone, kTokens).front();
    memory.positions = c.positions;
    KvBuffers buffers;
    const WrittenBytes part = WrittenSequence({memory}, true).bytes();
    const auto snapshot =
        kv.snapshot(pieces_of(part), TokenCount(kTokens), after(kTokens), buffers);
    ASSERT_FALSE(snapshot.has_value()) << c.name;
    EXPECT_EQ(snapshot.error().code, ErrorCode::kUnsupported) << c.name;
  }
}

TEST(SequenceRows, AWindowIsRestoredBehindZeroedCells) {
  for (const auto& [tokens, period] : {std::pair{3, 100},
                                       {kWindow, 100},
                                       {kWindow + 1, 100},
                                       {30, 100},
                                       {30, 8},
                                       {29, 8},
                                       {30, 1}}) {
    const auto memories = memories_of(kFullAndSliding, tokens);
    const SequenceRows kv =
        learned(kFullAndSliding, TokenCount(static_cast<std::uint32_t>(period)));
    const Captured captured(kv, memories, tokens);
    const std::int32_t unseen = std::max(0, tokens - kWindow);
    // Cells of sliding layers begin with this token: the first is in its own cell, modulo the period.
    const std::int32_t first = unseen - unseen % period;
    const StateFormat format =
        StateFormat::learn(WrittenSequence(memories_of(kFullAndSliding, 3)).bytes(), TokenCount(3),
                           kinds_of(memories))
            .value();
    const WrittenBytes written = restored(kv, captured.slice);
    const auto read = read_state(format, written, false);
    ASSERT_TRUE(read.has_value()) << to_string(read.error());
    for (std::size_t i = 0; i < 2; ++i) {
      const StateSection& section = format.sections[i];
      const std::int32_t begin = i == 1 ? first : 0;
      ASSERT_EQ((*read)[i].cells, static_cast<std::uint32_t>(tokens - begin));
      WrittenBytes row(section.row_bytes());
      for (std::int32_t token = begin; token < tokens; ++token) {
        const auto cell = static_cast<std::uint32_t>(token - begin);
        (*read)[i].copy_rows(section, cell, cell + 1, row, row.size());
        WrittenBytes expected = memories[i].row(token);
        if (i == 1 && token < unseen) {
          std::fill(expected.begin() + 4, expected.end(), std::byte{0});
        }
        EXPECT_EQ(row, expected) << "group " << i << ", token " << token << " of " << tokens;
      }
    }
  }
}

// After logits that are not numbers; the library would refuse more cells than there are.
TEST(SequenceRows, ZerosFillTheCellsThatALayerHas) {
  const SequenceRows kv = learned(kFullAndSliding);
  const StateOutline outline = kv.zeros(TokenCount(3 * kCells));
  EXPECT_EQ(outline.sections[0].empty, 3 * kCells);
  EXPECT_EQ(outline.sections[1].empty, kCells);
  EXPECT_EQ(kv.zeros(TokenCount(3)).sections[1].empty, 3U);
}

TEST(SequenceRows, RestoresRowsFromAnyPieces) {
  constexpr std::int32_t kTokens = 12;
  const auto memories = memories_of(kEverything, kTokens);
  const SequenceRows kv = learned(kEverything);
  Captured captured(kv, memories, kTokens);
  for (std::size_t i = 0; i < memories.size(); ++i) {
    std::vector<KvRows>& pieces = captured.pieces(kv.layout(), i);
    const KvRows all = pieces.front();
    if (memories[i].kind == KvKind::kRecurrent) continue;
    pieces.clear();
    for (std::uint32_t row = 0; row < all.count.value(); ++row) {
      const TokenCount at = all.first + TokenCount(row);
      pieces.push_back({.first = at, .count = {}, .bytes = {}});  // empty pieces, too
      pieces.push_back(rows_between({&all, 1}, at, at + TokenCount(1)).front());
    }
  }
  EXPECT_TRUE(check_slice(captured.slice, kv.layout()).has_value());
  EXPECT_EQ(restored(kv, captured.slice), WrittenSequence(memories).bytes());
  EXPECT_EQ(kv.positions(captured.slice).value(), after(kTokens));
}

TEST(SequenceRows, ReadsThePositionAfterEachTokenWithRows) {
  constexpr std::int32_t kTokens = 9;
  const struct {
    std::size_t model;
    std::size_t known;
  } kCases[] = {{kFullAlone, kTokens},
                {kSlidingAlone, kWindow},
                {kRecurrentAlone, 1},
                {kFullAndSliding, kTokens},
                {kEverything, kTokens}};
  for (const auto& c : kCases) {
    const SequenceRows kv = learned(c.model);
    const Captured captured(kv, memories_of(c.model, kTokens), kTokens);
    std::vector<std::int32_t> expected = after(kTokens);
    const auto first_known = expected.end() - static_cast<std::ptrdiff_t>(c.known);
    std::fill(expected.begin(), first_known, kTokens);
    EXPECT_EQ(kv.positions(captured.slice).value(), expected) << c.model;
  }
}

// M-RoPE: an image of six tokens takes three positions, and all of its cells have the first one.
TEST(SequenceRows, PositionsAreNotTokenCountsWithMRope) {
  constexpr std::size_t kPictures = 2;
  constexpr std::size_t kPicturesAndState = 10;
  for (const std::size_t model : {kPictures, kPicturesAndState}) {
    auto memories = memories_of(model, 10);
    memories[0].positions = {0, 1, 2, 2, 2, 2, 2, 2, 5, 6};
    const std::vector<std::int32_t> behind = {1, 2, 5, 5, 5, 5, 5, 5, 6, 7};
    if (memories.size() > 1) memories[1].positions = {6};
    const SequenceRows kv = learned(model);
    const WrittenBytes written = WrittenSequence(memories).bytes();
    const Captured captured(kv, written, WrittenSequence(memories, true).bytes(), behind);
    WrittenBytes expected;
    for (std::size_t i = 0; i < behind.size(); ++i) {
      const WrittenBytes row = row_of(memories[0], memories[0].positions[i], behind[i]);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    EXPECT_EQ(bytes_of(captured.slice.rows[0]), expected);
    EXPECT_EQ(kv.positions(captured.slice).value(), behind);
    EXPECT_EQ(restored(kv, captured.slice), written);
  }
}

// The library accepts a cell at the maximum position and can never remove it.
TEST(SequenceRows, RejectsARowWithAnImpossiblePosition) {
  constexpr std::int32_t kTokens = 12;
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto memories = memories_of(kEverything, kTokens);
  const SequenceRows kv = learned(kEverything);
  Captured captured(kv, memories, kTokens);
  for (std::size_t group = 0; group < memories.size(); ++group) {
    KvRows& piece = captured.pieces(kv.layout(), group).front();
    const KvRows good = piece;
    const std::size_t row_bytes = row_size(kv.layout().groups[group]).value();
    const bool recurrent = memories[group].kind == KvKind::kRecurrent;
    for (std::uint32_t i = 0; i < good.count.value(); ++i) {
      for (const auto& [behind, own] :
           {std::pair{0, 0}, {1, 1}, {1, 2}, {-1, -2}, {kMost, 0}, {kMost, kMost - 1}, {5, -1}}) {
        WrittenBytes changed(good.bytes.begin(), good.bytes.end());
        std::byte* const row = changed.data() + i * row_bytes;
        std::memcpy(row, &behind, sizeof behind);
        std::memcpy(row + (recurrent ? 8 : 4), &own, sizeof own);
        piece.bytes = changed;
        const auto positions = kv.positions(captured.slice);
        ASSERT_FALSE(positions.has_value()) << group << ": " << behind << " behind " << own;
        EXPECT_EQ(positions.error().code, ErrorCode::kCorruption);
      }
    }
    piece = good;
  }
}

TEST(SequenceRows, ARecurrentStateCarriesThePositionAfterIt) {
  constexpr std::int32_t kTokens = 7;
  const SequenceRows kv = learned(kRecurrentAlone);
  const auto memories = memories_of(kRecurrentAlone, kTokens);
  const WrittenBytes part = WrittenSequence(memories, true).bytes();
  const std::vector<std::int32_t> behind = {1, 2, 3, 4, 9, 9, 10};
  KvBuffers buffers;
  const KvSnapshot snapshot =
      kv.snapshot(pieces_of(part), TokenCount(kTokens), behind, buffers).value();
  WrittenBytes expected;
  append_number(std::int32_t{10}, expected);
  expected.insert(expected.end(), part.begin() + 8, part.end());
  ASSERT_EQ(snapshot.groups[0].size(), 1U);
  EXPECT_EQ(snapshot.groups[0][0].count, TokenCount(1));
  EXPECT_EQ(bytes_of(snapshot.groups[0]), expected);
}

TEST(SequenceRows, RejectsBytesOfAnotherFormat) {
  const SequenceRows kv = learned(kFullAlone);
  WrittenBytes written = WrittenSequence(memories_of(kFullAlone, 8)).bytes();
  written.pop_back();
  KvBuffers buffers;
  const auto rows = kv.rows(pieces_of(written), TokenCount(0), TokenCount(8), after(8), buffers);
  ASSERT_FALSE(rows.has_value());
  EXPECT_EQ(rows.error().code, ErrorCode::kCorruption);
  const SequenceRows sliding = learned(kSlidingAlone);
  const auto snapshot = sliding.snapshot(pieces_of(written), TokenCount(8), after(8), buffers);
  ASSERT_FALSE(snapshot.has_value());
  EXPECT_EQ(snapshot.error().code, ErrorCode::kCorruption);
}

}  // namespace
}  // namespace afterimage
