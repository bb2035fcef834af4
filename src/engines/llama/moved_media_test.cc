// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// KV of images at other positions. An image that stays where it was gives the same bits; elsewhere its
// cells and its first layer are what the model computes there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conformance/resume_check.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/llama_run.h"
#include "engines/llama/rotation.h"
#include "engines/llama/testing/model_rows.h"
#include "runtime/engine_api/key_rotation.h"
#include "testing/demo_models.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using testing::demo_options;
using testing::difference;
using testing::make_picture;
using testing::make_png;
using testing::media_item;
using testing::ModelRows;

/// One lane, so that each run finds what the one before left.
const LlamaEngine& dense() {
  static const auto engine = [] {
    LlamaOptions options = demo_options("dense");
    options.lanes = 1;
    return LlamaEngine::create(std::move(options)).value();
  }();
  return *engine;
}

struct Prompt {
  Sequence sequence;
  std::vector<EncoderOutput> outputs;
  std::vector<TensorViews> views;
};

/// A text, then each picture, then the question.
Prompt prompt_of(const std::string& before, const std::vector<std::uint32_t>& pictures) {
  Request request;
  request.messages = {{.role = Role::kUser, .parts = {before}}};
  std::vector<ContentDigest> contents(pictures.size());
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const std::uint32_t seed = pictures[i];
    request.messages[0].parts.emplace_back(
        media_item(Modality::kImage, make_png(make_picture(96 + 32 * seed, 96, seed))));
    contents[i].bytes[0] = static_cast<std::byte>(seed);
  }
  request.messages[0].parts.emplace_back(std::string("which one is red?"));
  Prompt prompt{.sequence = dense().prepare(request, contents).value(), .outputs = {}, .views = {}};
  for (const MediaItem* item : media_of(request)) {
    prompt.outputs.push_back(dense().encode(*item).value());
  }
  for (const EncoderOutput& output : prompt.outputs) {
    prompt.views.push_back(views_of(output).value());
  }
  return prompt;
}

TokenCount size_of(const Prompt& prompt) {
  return TokenCount(static_cast<std::uint32_t>(prompt.sequence.tokens.size()));
}

Result<Generation> run(const Prompt& prompt, const KvUse& use = {}) {
  return dense().generate_from(prompt.sequence, prompt.views, {.max_tokens = TokenCount(4)}, use);
}

/// All KV of a prompt.
Generation captured(const Prompt& prompt) {
  KvUse use;
  use.wanted.rows_to = size_of(prompt);
  return run(prompt, use).value();
}

std::vector<MovedMedia> taken_from(const Prompt& donor, const KvSlice& kv, const Prompt& prompt,
                                   std::uint32_t recomputed) {
  std::vector<MovedMedia> moved;
  for (std::size_t i = 0; i < prompt.sequence.spans.size(); ++i) {
    const auto span = std::ranges::find(donor.sequence.spans, prompt.sequence.spans[i].content,
                                        &MediaSpan::content);
    if (span == donor.sequence.spans.end()) continue;
    moved.push_back({.span = i,
                     .recomputed = TokenCount(recomputed),
                     .from = dense().place_of(donor.sequence, span->offset),
                     .rows = rows_of(*span, kv)});
  }
  return moved;
}

// Nothing turns, so every bit must be as if the images had been computed: what is restored, where,
// and what is computed of an image's beginning.
TEST(LlamaMovedMedia, AnImageThatStaysInPlaceGivesTheSameBits) {
  const Prompt prompt = prompt_of("look at these:", {1, 2, 3});
  const Generation cold = captured(prompt);
  for (const std::uint32_t recomputed : {0U, 1U, 5U, 11U}) {
    const auto moved = taken_from(prompt, cold.kv, prompt, recomputed);
    ASSERT_EQ(moved.size(), 3U);
    KvUse use;
    use.moved = moved;
    const auto made = run(prompt, use);
    ASSERT_TRUE(made.has_value()) << to_string(made.error());
    EXPECT_EQ(difference(made->completion, cold.completion), "") << recomputed;
    TokenCount tokens{};
    for (const MediaSpan& span : prompt.sequence.spans) tokens += span.length;
    EXPECT_EQ(made->completion.moved, tokens - TokenCount(3 * recomputed));
    EXPECT_EQ(made->completion.prefilled, size_of(prompt) - made->completion.moved);
  }
}

/// Runs of a model without the engine's guards, so that rows after moved ones can be looked at.
class Captures {
 public:
  Captures()
      : of_(ModelRows::load(demo_options("dense"))),
        rotation_(rotation_of(of_.model->facts().rotary, of_.rows).value()) {}

  Generation run(const Prompt& prompt, std::span<const MovedMedia> moved) const {
    KvUse use;
    use.moved = moved;
    use.wanted.rows_to = size_of(prompt);
    const SystemClock clock;
    Lanes lanes(1);
    const Lanes::Lane lane = lanes.borrow();
    auto made = LlamaRun(*of_.model, &of_.rows, &rotation_, TokenCount(1'024), clock, lane,
                         prompt.sequence, prompt.views, use)
                    .generate({.max_tokens = TokenCount(2)});
    of_.model->clear(lane.sequence());  // the lane, which knows what it holds, goes
    EXPECT_TRUE(made.has_value()) << to_string(made.error());
    return *std::move(made);
  }
  [[nodiscard]] const KeyRotation& rotation() const { return rotation_; }
  [[nodiscard]] std::size_t row_bytes() const {
    return of_.rows.layout().groups[0].row_bytes.value();
  }

 private:
  ModelRows of_;
  KeyRotation rotation_;
};

std::int32_t number_in(std::span<const std::byte> row, std::size_t index) {
  std::int32_t number = 0;
  std::memcpy(&number, row.data() + index * sizeof number, sizeof number);
  return number;
}

// The first layer depends on the token and its place alone. Cells decide who attends to whom.
TEST(LlamaMovedMedia, CellsAndTheFirstLayerAreWhatTheModelComputesThere) {
  const Captures model;
  const Prompt donor = prompt_of("hello", {1, 2, 3});
  const Prompt prompt = prompt_of("this is a longer beginning, is it not:", {3, 1});
  const Generation there = model.run(donor, {});
  const auto cold = testing::bytes_of(model.run(prompt, {}).kv.rows[0]);
  for (const std::uint32_t recomputed : {0U, 4U}) {
    const auto moved = taken_from(donor, there.kv, prompt, recomputed);
    ASSERT_EQ(moved.size(), 2U);
    const auto found = testing::bytes_of(model.run(prompt, moved).kv.rows[0]);
    ASSERT_EQ(found.size(), cold.size());
    const std::size_t row = model.row_bytes();
    for (std::size_t i = 0; i < size_of(prompt).value(); ++i) {
      const auto own = std::span(found).subspan(i * row, row);
      const auto other = std::span(cold).subspan(i * row, row);
      for (std::size_t number = 0; number < 5; ++number) {
        ASSERT_EQ(number_in(own, number), number_in(other, number))
            << "token " << i << ": after, position, column, row, token: number " << number;
      }
      EXPECT_LT(key_difference(model.rotation(), 0, own, other), 2e-3) << i;
    }
  }
}

// Where the engine says that a token is, the library has it.
TEST(LlamaMovedMedia, PlacesAreThoseOfTheLibrary) {
  const Captures model;
  const Prompt prompt = prompt_of("hello", {2, 1});
  const auto rows = testing::bytes_of(model.run(prompt, {}).kv.rows[0]);
  for (std::uint32_t i = 0; i < size_of(prompt).value(); ++i) {
    const auto row = std::span(rows).subspan(i * model.row_bytes(), model.row_bytes());
    const TokenPlace library{number_in(row, 1), number_in(row, 3), number_in(row, 2)};
    EXPECT_EQ(dense().place_of(prompt.sequence, TokenCount(i)), library) << i;
  }
}

TEST(LlamaMovedMedia, NeedsNoEmbeddingsIfNoneOfItsTokensIsComputed) {
  Prompt prompt = prompt_of("hello", {1, 2});
  const Generation cold = captured(prompt);
  KvUse use;
  const auto none = taken_from(prompt, cold.kv, prompt, 0);
  use.moved = none;
  for (TensorViews& views : prompt.views) views.clear();
  const auto made = run(prompt, use);
  ASSERT_TRUE(made.has_value()) << to_string(made.error());
  EXPECT_EQ(difference(made->completion, cold.completion), "");
  const auto some = taken_from(prompt, cold.kv, prompt, 1);
  use.moved = some;
  EXPECT_EQ(run(prompt, use).error().code, ErrorCode::kInvalidArgument);
}

TEST(LlamaMovedMedia, ResumesBeforeTheFirstMovedImageAndCapturesUpToIt) {
  const Prompt prompt = prompt_of("hello there, look:", {1, 2});
  const Generation cold = captured(prompt);
  const std::vector<KvRows> all = cold.kv.rows[0];
  for (const std::size_t kept : {0U, 1U}) {  // images that are restored at their place
    const MediaSpan& span = prompt.sequence.spans[kept];
    KvSlice prefix = cold.kv;
    prefix.end = span.offset - TokenCount(1);
    prefix.rows[0] = rows_between(all, TokenCount(0), prefix.end);
    auto moved = taken_from(prompt, cold.kv, prompt, 2);
    moved.erase(moved.begin(), moved.begin() + static_cast<std::ptrdiff_t>(kept));
    KvUse use;
    use.resume_from = &prefix;
    use.moved = moved;
    use.wanted = {.rows_from = prefix.end, .rows_to = span.offset, .snapshots = {}};
    const auto made = run(prompt, use);
    ASSERT_TRUE(made.has_value()) << to_string(made.error());
    EXPECT_EQ(difference(made->completion, cold.completion), "");
    EXPECT_EQ(testing::bytes_of(made->kv.rows[0]),
              testing::bytes_of(rows_between(all, prefix.end, span.offset)));
  }
}

// Rows that are not exact would otherwise be taken for those of the next request's prefix.
TEST(LlamaMovedMedia, ALaneDoesNotKeepMovedRows) {
  const Prompt donor = prompt_of("hello", {3, 2, 1});
  const Prompt prompt = prompt_of("look:", {1, 2});
  const Generation there = captured(donor);
  const Generation cold = captured(prompt);
  KvUse use;
  const auto moved = taken_from(donor, there.kv, prompt, 0);
  use.moved = moved;
  const auto bounded = run(prompt, use);
  ASSERT_TRUE(bounded.has_value()) << to_string(bounded.error());
  EXPECT_NE(difference(bounded->completion, cold.completion), "")
      << "with random weights moved KV changes the logits; else this test shows nothing";
  KvSlice prefix = cold.kv;
  prefix.end = prompt.sequence.spans[1].end();
  prefix.rows[0] = rows_between(cold.kv.rows[0], TokenCount(0), prefix.end);
  KvUse resume;
  resume.resume_from = &prefix;
  EXPECT_EQ(difference(run(prompt, resume)->completion, cold.completion), "");
  EXPECT_EQ(difference(run(prompt)->completion, cold.completion), "");
}

// Damage that no checksum found costs this request, not the next one.
TEST(LlamaMovedMedia, DamagedPlacesAreRefusedAndTheNextAnswerIsRight) {
  const Prompt prompt = prompt_of("look:", {1, 2});
  const Generation cold = captured(prompt);
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const std::size_t number : {0U, 1U}) {  // the position after a row, and its own
    for (const std::int32_t wrong : {-1, kMost - 1, kMost}) {
      auto moved = taken_from(prompt, cold.kv, prompt, 0);
      const auto good = moved[1].rows[0].front().bytes;
      std::vector<std::byte> bytes(good.begin(), good.end());
      const std::size_t row = dense().kv_layout()->groups[0].row_bytes.value();
      std::memcpy(bytes.data() + 2 * row + number * sizeof wrong, &wrong, sizeof wrong);
      moved[1].rows[0].front().bytes = bytes;
      KvUse use;
      use.moved = moved;
      const auto made = run(prompt, use);
      ASSERT_FALSE(made.has_value()) << number << ": " << wrong;
      EXPECT_EQ(made.error().code, ErrorCode::kCorruption) << to_string(made.error());
      EXPECT_EQ(difference(run(prompt)->completion, cold.completion), "");
    }
  }
}

TEST(LlamaMovedMedia, NothingAfterAMovedRowLeavesTheEngine) {
  const Prompt prompt = prompt_of("look:", {1, 2});
  const Generation cold = captured(prompt);
  const auto moved = taken_from(prompt, cold.kv, prompt, 1);
  const TokenCount exact = first_moved(prompt.sequence, moved);
  for (const TokenCount end : {exact + TokenCount(1), size_of(prompt), kEndOfRun}) {
    KvUse use;
    use.moved = moved;
    use.wanted.rows_to = end;
    bool left = false;
    use.on_captured = [&](const KvSlice&) { left = true; };
    const auto made = run(prompt, use);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(left);
  }
}

}  // namespace
}  // namespace afterimage
