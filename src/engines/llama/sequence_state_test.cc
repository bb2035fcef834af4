// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/sequence_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "testing/restored_state.h"
#include "testing/written_sequence.h"

namespace afterimage {
namespace {

using testing::kinds_of;
using testing::positions_from;
using testing::restored_state;
using testing::written_models;
using testing::WrittenBytes;
using testing::WrittenMemory;
using testing::WrittenSequence;

using Memories = std::vector<WrittenMemory>;

constexpr std::int32_t kShown = 3;    // tokens from which a format is learned
constexpr std::int32_t kTokens = 21;  // more than one transposition block
constexpr std::int32_t kWindow = 5;

Memories shown(std::size_t model) { return written_models(kShown, kWindow)[model].second; }

Result<StateFormat> learned(const Memories& memories, std::span<const std::byte> written) {
  return StateFormat::learn(written, TokenCount(kShown), kinds_of(memories));
}
StateFormat format_of(std::size_t model) {
  const Memories memories = shown(model);
  return learned(memories, WrittenSequence(memories).bytes()).value();
}

/// All rows of a parsed section, in order of cells.
WrittenBytes rows_of(const StateSection& section, const SectionContent& content,
                     std::size_t before = 0) {
  const std::size_t stride = section.row_bytes() + before;
  WrittenBytes rows(content.cells * stride, std::byte{0xEE});
  content.copy_rows(section, 0, content.cells, std::span(rows).subspan(before), stride);
  return rows;
}

TEST(SequenceState, LearnsTheFormatThatWasWritten) {
  for (std::size_t model = 0; model < written_models(kShown, kWindow).size(); ++model) {
    const Memories memories = shown(model);
    const StateFormat format = format_of(model);
    EXPECT_EQ(format.magic, WrittenSequence::kMagic);
    ASSERT_EQ(format.sections.size(), memories.size());
    for (std::size_t i = 0; i < memories.size(); ++i) {
      const StateSection& section = format.sections[i];
      ASSERT_EQ(section.kind, memories[i].kind);
      if (section.kind == KvKind::kRecurrent) {
        EXPECT_EQ(section.state_bytes, memories[i].state_bytes + 12);
        continue;
      }
      EXPECT_EQ(section.streams, memories[i].streams);
      EXPECT_EQ(section.cell_meta_bytes, memories[i].pictures ? 16U : 4U);
      EXPECT_EQ(section.transposed, memories[i].transposed);
      EXPECT_EQ(section.key_rows, memories[i].key_rows);
      EXPECT_EQ(section.value_rows, memories[i].value_rows);
      EXPECT_EQ(section.row_bytes(), memories[i].row(0).size());
    }
  }
}

TEST(SequenceState, RowsRoundTrip) {
  for (const std::int32_t tokens : {1, 2, kWindow, 16, 17, kTokens}) {
    const auto models = written_models(tokens, kWindow);
    for (std::size_t model = 0; model < models.size(); ++model) {
      SCOPED_TRACE(models[model].first + (", " + std::to_string(tokens)));
      const Memories& memories = models[model].second;
      const WrittenSequence written(memories);
      const StateFormat format = format_of(model);
      const auto contents = read_state(format, written.bytes(), false);
      ASSERT_TRUE(contents.has_value()) << to_string(contents.error());
      std::vector<SectionRows> sections;
      std::vector<WrittenBytes> kept;
      for (std::size_t i = 0; i < memories.size(); ++i) {
        const SectionContent& content = (*contents)[i];
        if (memories[i].kind == KvKind::kRecurrent) {
          sections.push_back({.cells = 1, .pieces = content.pieces});
          continue;
        }
        WrittenBytes expected;
        for (const std::int32_t position : memories[i].positions) {
          const WrittenBytes row = memories[i].row(position);
          expected.insert(expected.end(), row.begin(), row.end());
        }
        kept.push_back(rows_of(format.sections[i], content));
        EXPECT_EQ(kept.back(), expected);
        ASSERT_EQ(content.cells, memories[i].positions.size());
        EXPECT_EQ(content.position(format.sections[i], 0), memories[i].positions[0]);
        sections.push_back({.cells = content.cells, .stride = memories[i].row(0).size()});
      }
      for (std::size_t i = 0, next = 0; i < sections.size(); ++i) {
        if (sections[i].pieces.empty()) sections[i].pieces = {kept[next++]};
      }
      EXPECT_EQ(restored_state(format, sections), written.bytes());
    }
  }
}

TEST(SequenceState, WritesRowsFromAnyTwoPieces) {
  const auto models = written_models(kTokens, kWindow);
  for (std::size_t model = 0; model < models.size(); ++model) {
    const WrittenMemory& memory = models[model].second.front();
    if (models[model].second.size() > 1 || memory.kind != KvKind::kFull) continue;
    SCOPED_TRACE(models[model].first);
    const WrittenSequence written({memory});
    const StateFormat format = format_of(model);
    const StateSection& section = format.sections.front();
    const auto content = read_state(format, written.bytes(), false).value().front();
    constexpr std::size_t kBefore = 4;  // bytes that precede the library's
    const std::size_t stride = section.row_bytes() + kBefore;
    for (std::uint32_t cut = 1; cut < kTokens; ++cut) {
      WrittenBytes front(cut * stride);
      WrittenBytes back((kTokens - cut) * stride);
      content.copy_rows(section, 0, cut, std::span(front).subspan(kBefore), stride);
      content.copy_rows(section, cut, kTokens, std::span(back).subspan(kBefore), stride);
      for (std::uint32_t i = cut; i < kTokens; ++i) {
        const auto row = std::span(back).subspan((i - cut) * stride + kBefore, section.row_bytes());
        ASSERT_TRUE(std::ranges::equal(row, memory.row(static_cast<std::int32_t>(i)))) << i;
      }
      const SectionRows rows{
          .cells = kTokens, .pieces = {front, back}, .stride = stride, .skip = kBefore};
      ASSERT_EQ(restored_state(format, {rows}), written.bytes()) << cut;
    }
  }
}

/// `whole` cut where its rows begin and end and, in each of its columns, after `cut` of `cells`.
std::vector<std::span<const std::byte>> cut_into_runs(std::span<const std::byte> whole,
                                                      const SectionContent& content,
                                                      std::size_t cut) {
  std::vector<std::span<const std::byte>> pieces;
  const std::byte* at = whole.data();
  const auto until = [&](const std::byte* end) {
    if (at != end) pieces.emplace_back(at, end);
    at = end;
  };
  for (const auto piece : content.pieces) {
    until(piece.data());
    until(piece.data() + piece.size() / content.cells * cut);
    until(piece.data() + piece.size());
  }
  until(whole.data() + whole.size());
  return pieces;
}

// The library finds a sequence's cells, and free ones for a restore, wherever they are.
TEST(SequenceState, CellsMayLieInTwoRuns) {
  const auto models = written_models(kTokens, kWindow);
  for (std::size_t model = 0; model < models.size(); ++model) {
    const WrittenMemory& memory = models[model].second.front();
    if (models[model].second.size() > 1 || memory.kind != KvKind::kFull) continue;
    SCOPED_TRACE(models[model].first);
    const WrittenBytes written = WrittenSequence({memory}).bytes();
    const StateFormat format = format_of(model);
    const StateSection& section = format.sections.front();
    const SectionContent whole = read_state(format, written, false).value().front();
    for (const std::uint32_t cut : {1U, 7U, 16U, 20U}) {
      const auto pieces = cut_into_runs(written, whole, cut);
      const auto read = read_state(format, StatePieces(pieces), false);
      ASSERT_TRUE(read.has_value()) << cut;
      EXPECT_EQ(read->front().runs, (std::vector<std::uint32_t>{cut, kTokens - cut}));
      EXPECT_EQ(rows_of(section, read->front()), rows_of(section, whole));
      WrittenBytes some(4 * section.row_bytes());
      read->front().copy_rows(section, 5, 9, some, section.row_bytes());
      for (std::int32_t i = 5; i < 9; ++i) {
        const auto row =
            std::span(some).subspan((static_cast<std::size_t>(i) - 5) * section.row_bytes());
        EXPECT_TRUE(std::ranges::equal(row.first(section.row_bytes()), memory.row(i))) << i;
      }
      WrittenBytes target = written;
      const auto targets =
          cut_into_runs(target, read_state(format, target, false).value().front(), cut);
      std::vector<std::span<std::byte>> places;
      const auto placed = read_state(format, StatePieces(targets), false).value();
      for (const auto piece : placed.front().pieces) {
        places.emplace_back(target.data() + (piece.data() - target.data()), piece.size());
        std::ranges::fill(places.back(), std::byte{0xEE});
      }
      const WrittenBytes rows = rows_of(section, whole);
      const SectionRows source{.cells = kTokens, .pieces = {rows}, .stride = section.row_bytes()};
      ASSERT_TRUE(fill_rows(format, {&source, 1}, places).has_value());
      EXPECT_EQ(target, written) << cut;
    }
  }
}

TEST(SequenceState, RejectsPlacesOfOtherSizes) {
  constexpr std::size_t kTransposed = 1;
  const StateFormat format = format_of(kTransposed);
  const StateSection& section = format.sections.front();
  const WrittenBytes rows(2 * section.row_bytes());
  const SectionRows source{.cells = 2, .pieces = {rows}, .stride = section.row_bytes()};
  const std::size_t all = 2 * (section.row_bytes() - section.cell_meta_bytes);
  for (const std::size_t size : {std::size_t{0}, all - 1, all, all + 1}) {
    WrittenBytes target(size);
    const std::span<std::byte> place = target;
    EXPECT_EQ(fill_rows(format, {&source, 1}, {&place, 1}).has_value(), size == all) << size;
  }
}

TEST(SequenceState, WritesZeroedCellsBeforeTheRows) {
  constexpr std::size_t kSliding = 7;
  const StateFormat format = format_of(kSliding);
  const WrittenMemory memory = written_models(kTokens, kWindow)[kSliding].second.front();
  WrittenBytes rows;
  for (const std::int32_t position : memory.positions) {
    const WrittenBytes row = memory.row(position);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  const SectionRows section{.cells = kWindow,
                            .pieces = {rows},
                            .stride = memory.row(0).size(),
                            .empty = kTokens - kWindow};
  const WrittenBytes written = restored_state(format, {section});
  const auto read = read_state(format, written, false);
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  ASSERT_EQ(read->front().cells, static_cast<std::uint32_t>(kTokens));
  const WrittenBytes all = rows_of(format.sections.front(), read->front());
  const std::size_t size = memory.row(0).size();
  for (std::int32_t i = 0; i < kTokens; ++i) {
    EXPECT_EQ(read->front().position(format.sections.front(), static_cast<std::uint32_t>(i)), i);
    const auto row = std::span(all).subspan(static_cast<std::size_t>(i) * size, size);
    if (i >= kTokens - kWindow) {
      EXPECT_TRUE(std::ranges::equal(row, memory.row(i))) << i;
    } else {
      EXPECT_EQ(std::ranges::count(row.subspan(4), std::byte{0}),
                static_cast<std::ptrdiff_t>(size - 4));
    }
  }
}

TEST(SequenceState, PartialStateOmitsFullAttention) {
  const auto models = written_models(kTokens, kWindow);
  for (std::size_t model = 0; model < models.size(); ++model) {
    const Memories& memories = models[model].second;
    const WrittenSequence part(memories, true);
    const StateFormat format = format_of(model);
    const auto contents = read_state(format, part.bytes(), true);
    ASSERT_TRUE(contents.has_value()) << models[model].first;
    for (std::size_t i = 0; i < memories.size(); ++i) {
      const bool full = memories[i].kind == KvKind::kFull;
      EXPECT_EQ((*contents)[i].cells == 0, full) << models[model].first;
    }
    const bool has_full = memories.front().kind == KvKind::kFull;
    EXPECT_EQ(read_state(format, part.bytes(), false).has_value(), !has_full);
    EXPECT_EQ(read_state(format, WrittenSequence(memories).bytes(), true).has_value(), !has_full);
  }
}

TEST(SequenceState, ReadsASequenceOfAnyStream) {
  constexpr std::size_t kStreams = 6;
  const StateFormat format = format_of(kStreams);
  WrittenMemory memory = written_models(kTokens, kWindow)[kStreams].second.front();
  const WrittenBytes first = WrittenSequence({memory}).bytes();
  const auto expected = read_state(format, first, false).value();
  for (std::uint32_t stream = 1; stream < memory.streams; ++stream) {
    memory.own_stream = stream;
    const WrittenSequence written({memory});
    const auto contents = read_state(format, written.bytes(), false);
    ASSERT_TRUE(contents.has_value()) << stream;
    EXPECT_EQ(rows_of(format.sections[0], contents->front()),
              rows_of(format.sections[0], expected.front()));
    Memories few = shown(kStreams);
    few.front().own_stream = stream;
    EXPECT_EQ(learned(few, WrittenSequence(few).bytes()), format);
  }
}

TEST(SequenceState, ReadsNothingFromAnEmptySequence) {
  const auto models = written_models(kTokens, kWindow);
  for (std::size_t model = 0; model < models.size(); ++model) {
    Memories memories = models[model].second;
    // A recurrent section always has a state.
    if (memories.back().kind == KvKind::kRecurrent) continue;
    for (WrittenMemory& memory : memories) memory.positions.clear();
    const WrittenSequence written(memories);
    const auto contents = read_state(format_of(model), written.bytes(), false);
    ASSERT_TRUE(contents.has_value()) << models[model].first;
    for (const SectionContent& content : *contents) EXPECT_EQ(content.cells, 0U);
    EXPECT_FALSE(
        StateFormat::learn(written.bytes(), TokenCount(0), kinds_of(memories)).has_value());
  }
}

// Without tokens, sizes could be claimed that no bytes back.
TEST(SequenceState, LearnsNothingFromHeadersWithoutRows) {
  WrittenBytes written;
  for (const std::uint32_t number : {1U, 2U, 1U, 0U, 0U, 1U}) {
    testing::append_number(number, written);
  }
  for (int head = 0; head < 2; ++head) {
    testing::append_number(std::int32_t{1}, written);
    testing::append_number(std::uint64_t{UINT32_MAX}, written);
  }
  const KvKind full = KvKind::kFull;
  EXPECT_EQ(StateFormat::learn(written, TokenCount(0), {&full, 1}).error().code,
            ErrorCode::kUnsupported);
}

// Attention sections have explicit sizes: one byte less and the sequence must be rejected.
TEST(SequenceState, DetectsEveryTruncation) {
  const auto models = written_models(kTokens, kWindow);
  for (std::size_t model = 0; model < models.size(); ++model) {
    const Memories few = shown(model);
    const WrittenBytes short_one = WrittenSequence(few).bytes();
    for (std::size_t size = 0; size < short_one.size(); ++size) {
      const WrittenBytes cut(short_one.begin(),
                             short_one.begin() + static_cast<std::ptrdiff_t>(size));
      const auto format = learned(few, cut);
      // The size of a recurrent state is not written: a shorter one looks like another model's.
      if (few.back().kind == KvKind::kRecurrent && format.has_value()) {
        EXPECT_LT(format->sections.back().state_bytes,
                  format_of(model).sections.back().state_bytes);
        continue;
      }
      ASSERT_FALSE(format.has_value()) << models[model].first << " at " << size;
      EXPECT_EQ(format.error().code, ErrorCode::kUnsupported);
    }
    const StateFormat format = format_of(model);
    for (const bool partial : {false, true}) {
      WrittenBytes whole = WrittenSequence(models[model].second, partial).bytes();
      for (std::size_t size = 0; size < whole.size(); ++size) {
        const WrittenBytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        const auto read = read_state(format, cut, partial);
        ASSERT_FALSE(read.has_value()) << models[model].first << " at " << size;
        EXPECT_EQ(read.error().code, ErrorCode::kCorruption);
      }
      whole.push_back(std::byte{0});
      EXPECT_FALSE(read_state(format, whole, partial).has_value()) << models[model].first;
    }
  }
}

TEST(SequenceState, DetectsEveryChangedMetadataByte) {
  const auto models = written_models(6, kWindow);
  for (std::size_t model = 0; model < models.size(); ++model) {
    const StateFormat format = format_of(model);
    for (const bool partial : {false, true}) {
      const WrittenSequence written(models[model].second, partial);
      WrittenBytes changed = written.bytes();
      for (std::size_t at = 0; at < changed.size(); ++at) {
        for (const int flip : {0x01, 0x02, 0x80, 0xFF}) {
          changed[at] ^= std::byte(flip);
          const auto read = read_state(format, changed, partial);
          ASSERT_EQ(read.has_value(), !written.is_fixed(at))
              << models[model].first << ": byte " << at << " of " << changed.size();
          for (std::size_t i = 0; read.has_value() && i < read->size(); ++i) {
            if (format.sections[i].kind == KvKind::kRecurrent) continue;
            static_cast<void>(rows_of(format.sections[i], (*read)[i]));
          }
          changed[at] ^= std::byte(flip);
        }
      }
    }
  }
}

// Changed bytes give another format or none; never the same one, never out-of-bounds reads.
TEST(SequenceState, AFormatLearnedFromChangedBytesDescribesThoseBytes) {
  for (std::size_t model = 0; model < written_models(kShown, kWindow).size(); ++model) {
    const Memories memories = shown(model);
    const StateFormat format = format_of(model);
    const WrittenSequence written(memories);
    WrittenBytes changed = written.bytes();
    for (std::size_t at = 0; at < changed.size(); ++at) {
      for (const int flip : {0x01, 0x02, 0x80, 0xFF}) {
        changed[at] ^= std::byte(flip);
        const auto other = learned(memories, changed);
        if (other.has_value()) {
          EXPECT_EQ(*other == format, !written.is_fixed(at)) << at;
          EXPECT_TRUE(read_state(*other, changed, false).has_value()) << at;
        } else {
          EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
        }
        changed[at] ^= std::byte(flip);
      }
    }
  }
}

TEST(SequenceState, LearnsNoFormatForTheWrongMemories) {
  const auto models = written_models(kShown, kWindow);
  for (std::size_t written = 0; written < models.size(); ++written) {
    const WrittenBytes bytes = WrittenSequence(models[written].second).bytes();
    for (std::size_t claimed = 0; claimed < models.size(); ++claimed) {
      const auto kinds = kinds_of(models[claimed].second);
      if (kinds.size() == kinds_of(models[written].second).size()) continue;
      EXPECT_FALSE(StateFormat::learn(bytes, TokenCount(kShown), kinds).has_value())
          << models[written].first << " as " << models[claimed].first;
    }
    EXPECT_FALSE(StateFormat::learn(bytes, TokenCount(kShown + 1), kinds_of(models[written].second))
                     .has_value());
  }
}

}  // namespace
}  // namespace afterimage
