// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// KV of media at other positions: where theory says that moving is exact, it is; elsewhere it is
// what recomputing the first layers would give.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "engines/reference/decoder.h"
#include "engines/reference/kernel.h"
#include "engines/reference/kv_packing.h"
#include "engines/reference/reference_engine.h"
#include "engines/reference/testing/tiny_options.h"
#include "engines/reference/tokenizer.h"
#include "runtime/engine_api/key_rotation.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using testing::make_picture;
using testing::make_png;
using testing::media_item;

ReferenceOptions with_layers(std::size_t layers, bool mrope) {
  ReferenceOptions options = testing::tiny_full();
  options.decoder.layers.assign(layers, FullAttention{});
  return mrope ? options.with_mrope() : options;
}

std::unique_ptr<ReferenceEngine> engine_of(ReferenceOptions options) {
  return ReferenceEngine::create(std::move(options)).value();
}

MediaItem picture(std::uint32_t seed) {
  return media_item(Modality::kImage, make_png(make_picture(40, 24, seed)));
}

struct Prompt {
  Sequence sequence;
  std::vector<EncoderOutput> outputs;
  std::vector<TensorViews> views;
};

/// A text, then each picture, then the question.
Prompt prompt_of(const Engine& engine, const std::string& before,
                 const std::vector<std::uint32_t>& pictures) {
  Request request;
  request.messages = {{.role = Role::kUser, .parts = {before}}};
  std::vector<ContentDigest> contents(pictures.size());
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    request.messages[0].parts.emplace_back(picture(pictures[i]));
    contents[i].bytes[0] = static_cast<std::byte>(pictures[i]);
  }
  request.messages[0].parts.emplace_back(std::string("Which one?"));
  Prompt prompt{.sequence = engine.prepare(request, contents).value(), .outputs = {}, .views = {}};
  for (const MediaItem* item : media_of(request)) {
    prompt.outputs.push_back(engine.encode(*item).value());
  }
  for (const EncoderOutput& output : prompt.outputs) {
    prompt.views.push_back(views_of(output).value());
  }
  return prompt;
}

Generation run(const Engine& engine, const Prompt& prompt, const KvUse& use) {
  GenerateOptions options;
  options.max_tokens = TokenCount(4);
  options.top_logprobs = static_cast<std::uint32_t>(kVocabulary);
  auto made = engine.generate_from(prompt.sequence, prompt.views, options, use);
  EXPECT_TRUE(made.has_value()) << to_string(made.error());
  return *std::move(made);
}

/// All KV of a prompt.
Generation captured(const Engine& engine, const Prompt& prompt) {
  KvUse use;
  use.wanted.rows_to = TokenCount(static_cast<std::uint32_t>(prompt.sequence.tokens.size()));
  return run(engine, prompt, use);
}

std::vector<MovedMedia> taken_from(const Engine& engine, const Prompt& donor, const KvSlice& kv,
                                   const Prompt& prompt, TokenCount recomputed) {
  std::vector<MovedMedia> moved;
  for (std::size_t i = 0; i < prompt.sequence.spans.size(); ++i) {
    for (const MediaSpan& span : donor.sequence.spans) {
      if (span.content != prompt.sequence.spans[i].content) continue;
      moved.push_back({.span = i,
                       .recomputed = recomputed,
                       .from = engine.place_of(donor.sequence, span.offset),
                       .rows = rows_of(span, kv)});
    }
  }
  return moved;
}

/// The largest difference of a probability's logarithm at the first token.
double difference(const Completion& a, const Completion& b) {
  std::map<TokenId, float> known;
  for (const TokenLogprob& one : a.logprobs.front().top) known[one.token] = one.logprob;
  double worst = 0;
  for (const TokenLogprob& one : b.logprobs.front().top) {
    worst = std::max<double>(worst, std::abs(one.logprob - known.at(one.token)));
  }
  return worst;
}

class MovedMediaTest : public ::testing::TestWithParam<bool> {};  // M-RoPE

// The keys and values of the first layer depend on the token and its place alone.
TEST_P(MovedMediaTest, OfOneLayerIsWhatRecomputingGives) {
  const auto engine = engine_of(with_layers(1, GetParam()));
  const Prompt donor = prompt_of(*engine, "Hi. ", {1, 2, 3});
  const Prompt prompt = prompt_of(*engine, "Another and longer beginning: ", {3, 1});
  const Generation there = captured(*engine, donor);
  const Generation cold = captured(*engine, prompt);
  for (const std::uint32_t recomputed : {0U, 1U, 3U}) {
    const auto moved = taken_from(*engine, donor, there.kv, prompt, TokenCount(recomputed));
    ASSERT_EQ(moved.size(), 2U);
    KvUse use;
    use.moved = moved;
    const Generation made = run(*engine, prompt, use);
    EXPECT_LT(difference(made.completion, cold.completion), 1e-4);
    EXPECT_EQ(made.completion.tokens, cold.completion.tokens);
    const std::uint32_t length = prompt.sequence.spans[0].length.value();
    EXPECT_EQ(made.completion.moved, TokenCount(2 * (length - recomputed)));
    EXPECT_EQ((made.completion.moved + made.completion.prefilled).value(),
              prompt.sequence.tokens.size());
  }
}

// In deeper layers the item's KV still holds its old context, and that shows.
TEST_P(MovedMediaTest, OfSeveralLayersIsAnApproximation) {
  const auto engine = engine_of(with_layers(3, GetParam()));
  const Prompt donor = prompt_of(*engine, "Hi. ", {1, 2, 3});
  const Prompt prompt = prompt_of(*engine, "Another and longer beginning: ", {3, 1});
  const Generation there = captured(*engine, donor);
  const Generation cold = captured(*engine, prompt);
  const auto moved = taken_from(*engine, donor, there.kv, prompt, TokenCount(1));
  KvUse use;
  use.moved = moved;
  EXPECT_GT(difference(run(*engine, prompt, use).completion, cold.completion), 1e-4);
}

// The same place and the same context: the rows are those that would be computed, bit for bit.
TEST_P(MovedMediaTest, ToWhereItWasIsExact) {
  const auto engine = engine_of(with_layers(3, GetParam()));
  const Prompt prompt = prompt_of(*engine, "Hi. ", {1, 2});
  const Generation cold = captured(*engine, prompt);
  const auto moved = taken_from(*engine, prompt, cold.kv, prompt, TokenCount(2));
  KvUse use;
  use.moved = moved;
  EXPECT_EQ(run(*engine, prompt, use).completion.logits, cold.completion.logits);
}

// Without the rotation, or with one that is off, the first layer alone gives it away.
TEST_P(MovedMediaTest, AWrongRotationShows) {
  const auto engine = engine_of(with_layers(1, GetParam()));
  const Prompt donor = prompt_of(*engine, "Hi. ", {1, 2, 3});
  const Prompt prompt = prompt_of(*engine, "Another and longer beginning: ", {3, 1});
  const Generation there = captured(*engine, donor);
  const Generation cold = captured(*engine, prompt);
  for (const std::int32_t off : {-1, 1, 20}) {
    auto moved = taken_from(*engine, donor, there.kv, prompt, TokenCount(0));
    for (MovedMedia& item : moved) {
      for (std::int32_t& axis : item.from) axis += off;
    }
    KvUse use;
    use.moved = moved;
    EXPECT_GT(difference(run(*engine, prompt, use).completion, cold.completion), 1e-3) << off;
  }
}

TEST_P(MovedMediaTest, FollowsARestoredPrefix) {
  const auto engine = engine_of(with_layers(1, GetParam()));
  const Prompt donor = prompt_of(*engine, "Hi. ", {1, 2, 3});
  const Prompt prompt = prompt_of(*engine, "Another and longer beginning: ", {3, 1});
  const Generation there = captured(*engine, donor);
  Generation cold = captured(*engine, prompt);
  KvSlice prefix = cold.kv;
  prefix.end = TokenCount(20);
  prefix.rows[0] = rows_between(prefix.rows[0], TokenCount(0), TokenCount(20));
  const auto moved = taken_from(*engine, donor, there.kv, prompt, TokenCount(1));
  KvUse use;
  use.resume_from = &prefix;
  use.moved = moved;
  use.wanted = {
      .rows_from = TokenCount(20), .rows_to = first_moved(prompt.sequence, moved), .snapshots = {}};
  const Generation made = run(*engine, prompt, use);
  EXPECT_EQ(made.completion.tokens, cold.completion.tokens);
  // What precedes the moved rows was computed exactly.
  const auto exact = rows_between(cold.kv.rows[0], made.kv.begin, made.kv.end);
  ASSERT_EQ(made.kv.rows[0].size(), 1U);
  EXPECT_TRUE(std::ranges::equal(made.kv.rows[0][0].bytes, exact[0].bytes));
}

TEST_P(MovedMediaTest, NeedsNoEmbeddingsIfNoneOfItsTokensIsComputed) {
  const auto engine = engine_of(with_layers(1, GetParam()));
  const Prompt donor = prompt_of(*engine, "Hi. ", {1, 2});
  Prompt prompt = prompt_of(*engine, "Hello. ", {2});
  const Generation there = captured(*engine, donor);
  const Generation cold = captured(*engine, prompt);
  const auto moved = taken_from(*engine, donor, there.kv, prompt, TokenCount(0));
  KvUse use;
  use.moved = moved;
  prompt.views[0].clear();
  EXPECT_EQ(run(*engine, prompt, use).completion.tokens, cold.completion.tokens);
}

// Capturing rows after a moved one is an error, so that no caller gets KV that looks exact.
TEST_P(MovedMediaTest, NothingAfterAMovedRowLeavesTheEngine) {
  const auto engine = engine_of(with_layers(2, GetParam()));
  const Prompt donor = prompt_of(*engine, "Hi. ", {1, 2});
  const Prompt prompt = prompt_of(*engine, "Hello. ", {2});
  const Generation there = captured(*engine, donor);
  const auto moved = taken_from(*engine, donor, there.kv, prompt, TokenCount(1));
  const TokenCount exact = first_moved(prompt.sequence, moved);
  const auto refused = [&](const std::function<void(KvUse&)>& change) {
    KvUse use;
    use.moved = moved;
    use.wanted.rows_to = exact;
    change(use);
    int captures = 0;
    use.on_captured = [&](const KvSlice&) { ++captures; };
    const auto made = engine->generate_from(prompt.sequence, prompt.views, {}, use);
    EXPECT_EQ(captures, made.has_value() ? 1 : 0);
    return !made.has_value() && made.error().code == ErrorCode::kInvalidArgument;
  };
  EXPECT_FALSE(refused([](KvUse&) {}));
  EXPECT_TRUE(refused([&](KvUse& use) { use.wanted.rows_to = exact + TokenCount(1); }));
  EXPECT_TRUE(refused([](KvUse& use) { use.wanted.rows_to = kEndOfRun; }));
  EXPECT_TRUE(refused([](KvUse& use) { use.wanted.snapshots = {kEndOfRun}; }));
  EXPECT_TRUE(refused([](KvUse& use) {
    use.on_end = [](const KvSlice&, std::span<const TokenId>) {};
    use.end_from = TokenCount(0);
  }));
}

INSTANTIATE_TEST_SUITE_P(Rotary, MovedMediaTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "MRoPE" : "RoPE"; });

TEST(MovedMediaEngine, RefusesWindowsAndRecurrentStates) {
  EXPECT_EQ(engine_of(ReferenceOptions::tiny())->key_rotation(), nullptr);
  EXPECT_EQ(engine_of(ReferenceOptions::small())->key_rotation(), nullptr);
  const auto full = engine_of(testing::tiny_full());
  ASSERT_NE(full->key_rotation(), nullptr);
  const auto tiny = engine_of(ReferenceOptions::tiny());
  const Prompt prompt = prompt_of(*tiny, "Hi. ", {1});
  const MovedMedia nothing;
  KvUse use;
  use.moved = {&nothing, 1};
  const auto made = tiny->generate_from(prompt.sequence, prompt.views, {}, use);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
}

// Nothing before the item: every layer's keys are the same but for the rotation, and its values are
// the same.
TEST(MovedMediaEngine, AnItemWithNothingBeforeItMovesExactlyThroughEveryLayer) {
  DecoderOptions options = with_layers(3, true).decoder;
  const Decoder decoder(options, kVocabulary, *supported_kernels().front(), Rng(7));
  const KvPacking packing(options);
  const KeyRotation rotation{.head_size = options.head_dim,
                             .radians = decoder.frequencies(),
                             .axes = decoder.axes(),
                             .keys = packing.keys()};
  const std::size_t count = 6;
  const TokenPlace shift{40, 17, 9};  // also a move that is not the same along all axes
  const auto rows_at = [&](const TokenPlace& by, KvBuffers& buffers) {
    std::vector<TokenPlace> places;
    std::vector<InputRow> inputs;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(count); ++i) {
      places.push_back({by[0], by[1] + i / 3, by[2] + i % 3});
    }
    for (std::size_t i = 0; i < count; ++i) {
      inputs.push_back({.token = TokenId(static_cast<std::int32_t>(i)), .place = &places[i]});
    }
    DecoderState state = decoder.start();
    static_cast<void>(decoder.forward(state, inputs));
    return packing.rows(state, 0, count, buffers);
  };
  KvBuffers buffers;
  const auto here = rows_at({0, 0, 0}, buffers);
  const auto there = rows_at(shift, buffers);
  const std::size_t row = packing.layout().groups[0].row_bytes.value();
  std::vector<std::byte> turned(here[0][0].bytes.begin(), here[0][0].bytes.end());
  for (std::size_t i = 0; i < count; ++i) {
    rotate_keys(rotation, 0, shift, std::span(turned).subspan(i * row, row));
  }
  std::vector<float> expected(turned.size() / sizeof(float));
  std::vector<float> found(expected.size());
  std::memcpy(expected.data(), there[0][0].bytes.data(), turned.size());
  std::memcpy(found.data(), turned.data(), turned.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-4) << i;
}

}  // namespace
}  // namespace afterimage
