// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/reference_engine.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "engines/reference/kernel.h"
#include "engines/reference/tokenizer.h"
#include "testing/media_files.h"
#include "testing/seeds.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

using testing::folder_item;
using testing::for_each_seed;
using testing::make_picture;
using testing::make_png;
using testing::make_wav;
using testing::media_item;
using testing::tiny_with;

std::unique_ptr<ReferenceEngine> engine_of(ReferenceOptions options = ReferenceOptions::tiny()) {
  auto engine = ReferenceEngine::create(std::move(options));
  EXPECT_TRUE(engine.has_value()) << to_string(engine.error());
  return std::move(engine).value();
}

MediaItem picture(std::uint32_t seed, std::uint32_t width = 40, std::uint32_t height = 24) {
  return media_item(Modality::kImage, make_png(make_picture(width, height, seed)));
}

MediaItem clip(std::size_t samples) {
  std::vector<float> wave(samples);
  for (std::size_t i = 0; i < samples; ++i) wave[i] = static_cast<float>(i % 40) / 80.0F;
  return media_item(Modality::kAudio, make_wav(wave, 16'000));
}

MediaItem film(std::size_t frames) {
  std::vector<testing::FileContent> files;
  for (std::uint32_t i = 0; i < frames; ++i) files.push_back(make_png(make_picture(16, 16, i + 1)));
  return folder_item(std::move(files), 1'000);
}

Request asking(std::vector<ContentPart> parts) {
  Request request;
  request.messages = {{.role = Role::kSystem, .parts = {"You see and hear."}},
                      {.role = Role::kUser, .parts = std::move(parts)}};
  return request;
}

// A prepared request with the embeddings it needs.
struct Prepared {
  Sequence prompt;
  std::vector<EncoderOutput> outputs;
  std::vector<TensorViews> views;
};

Prepared prepared(const Engine& engine, const Request& request) {
  Prepared result;
  std::vector<ContentDigest> contents(media_of(request).size());
  for (std::size_t i = 0; i < contents.size(); ++i) contents[i].bytes[0] = std::byte(i);
  result.prompt = engine.prepare(request, contents).value();
  for (const MediaItem* item : media_of(request)) {
    result.outputs.push_back(engine.encode(*item).value());
  }
  for (const EncoderOutput& output : result.outputs) {
    result.views.push_back(views_of(output).value());
  }
  return result;
}

Completion answer(const Engine& engine, const Request& request, std::uint32_t max_tokens = 8) {
  const Prepared ready = prepared(engine, request);
  auto completion =
      engine.generate(ready.prompt, ready.views, {.max_tokens = TokenCount(max_tokens)});
  EXPECT_TRUE(completion.has_value()) << to_string(completion.error());
  return std::move(completion).value();
}

Request everything() {
  return asking({"Compare ", picture(1), " with ", picture(2, 24, 40), clip(5000), film(6), "!"});
}

TEST(ReferenceEngine, ASpanIsAsLongAsItsEncoderOutput) {
  const auto engine = engine_of();
  const Prepared ready = prepared(*engine, everything());
  const std::uint64_t expected[] = {4 * 2, 2 * 4, 4, 2 * 4};
  ASSERT_EQ(ready.prompt.spans.size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(ready.prompt.spans[i].length.value(), expected[i]) << i;
    EXPECT_EQ(ready.prompt.spans[i].content.bytes[0], std::byte(i));
    EXPECT_TRUE(ready.prompt.spans[i].splittable);
    ASSERT_EQ(ready.outputs[i].size(), 1U);
    EXPECT_EQ(ready.outputs[i][0].shape, (Shape{expected[i], 32})) << i;
  }
}

TEST(ReferenceEngineProperty, SpanLengthMatchesTheEncoderForAnyImage) {
  const auto engine = engine_of();
  for_each_seed(25, [&engine](Rng& rng) {
    const auto side = [&rng] { return static_cast<std::uint32_t>(1 + rng.below(70)); };
    const Prepared ready = prepared(*engine, asking({picture(1, side(), side())}));
    ASSERT_EQ(ready.outputs[0][0].shape[0], ready.prompt.spans[0].length.value());
  });
}

TEST(ReferenceEngine, TheSameQuestionGetsTheSameAnswerBitForBit) {
  const auto engine = engine_of();
  const Completion first = answer(*engine, everything());
  const Completion second = answer(*engine_of(), everything());
  EXPECT_EQ(first.logits, second.logits);
  EXPECT_EQ(first.tokens, second.tokens);
  EXPECT_EQ(first.text, second.text);
  EXPECT_GE(first.tokens.size(), 1U);
  EXPECT_EQ(first.prefilled.value(), prepared(*engine, everything()).prompt.tokens.size());
}

// Golden digests from another machine. If they change, the model computes something else: increment
// the revision in identity.cc, or old caches would be used.
TEST(ReferenceEngine, ComputesTheSameOnEveryMachine) {
  for (const Kernels* kernels : supported_kernels()) {
    const auto engine = engine_of(tiny_with([&](auto& o) { o.kernels = kernels->name; }));
    const Completion completion = answer(*engine, everything());
    EXPECT_EQ(completion.logits.hex(),
              kernels->fused ? "a986b6ae08ce4d8a9f35446ac6146e05e116aad53cb828d373dbf6303f5fd69c"
                             : "c6fe9a46a86c12398ae5f154ddffb4566d0da1f4a5de5c0d97be596eeae69691")
        << kernels->name;
  }
}

TEST(ReferenceEngine, ExecutionOptionsChangeNoBit) {
  const ManualClock clock;
  const auto engine = engine_of();
  const Completion expected = answer(*engine, everything());
  const std::function<void(ReferenceOptions&)> kChanges[] = {
      [](auto& o) { o.prefill_chunk = TokenCount(1); },
      [](auto& o) { o.prefill_chunk = TokenCount(7); },
      [](auto& o) { o.prefill_chunk = TokenCount(1000); },
      [](auto& o) { o.max_context = TokenCount(200); },
      [](auto& o) { o.limits.max_side = 1000; },
      [&clock](auto& o) { o.clock = &clock; },
  };
  for (const auto& change : kChanges) {
    const auto other = engine_of(tiny_with(change));
    EXPECT_EQ(answer(*other, everything()).logits, expected.logits);
  }
}

TEST(ReferenceEngine, PrefillPiecesChangeNoHiddenState) {
  const auto state = [](TokenCount chunk) {
    const auto engine = engine_of(tiny_with([chunk](auto& o) { o.prefill_chunk = chunk; }));
    const Request request{.messages = {{.parts = {"a prompt that is longer than seven tokens"}}}};
    return engine->hidden_state(engine->prepare(request, {}).value(), {}).value();
  };
  const std::vector<float> whole = state(TokenCount(1000));
  EXPECT_EQ(state(TokenCount(1)), whole);
  EXPECT_EQ(state(TokenCount(7)), whole);
}

TEST(ReferenceEngine, AnotherImageGetsOtherLogits) {
  const auto engine = engine_of();
  const auto logits = [&engine](std::uint32_t seed) {
    return answer(*engine, asking({picture(seed), "what is it?"}), 1).logits;
  };
  EXPECT_NE(logits(1), logits(2));
}

TEST(ReferenceEngine, DeepstackPlanesAreReturnedAndMatter) {
  const auto engine = engine_of(tiny_with([](auto& o) { o.vision.deepstack_planes = 1; }));
  const Request request = asking({picture(1), film(2), clip(3000)});
  Prepared ready = prepared(*engine, request);
  EXPECT_EQ(ready.outputs[0].size(), 2U);
  EXPECT_EQ(ready.outputs[1].size(), 2U);
  EXPECT_EQ(ready.outputs[2].size(), 1U) << "audio has no planes";
  EXPECT_EQ(ready.outputs[0][1].shape, ready.outputs[0][0].shape);
  const GenerateOptions options{.max_tokens = TokenCount(2)};
  const auto whole = engine->generate(ready.prompt, ready.views, options);
  std::swap(ready.views[0][0], ready.views[0][1]);
  EXPECT_NE(engine->generate(ready.prompt, ready.views, options)->logits, whole->logits);
}

TEST(ReferenceEngine, RejectsAnEmptyPromptOrForeignEmbeddings) {
  const auto engine = engine_of();
  EXPECT_EQ(engine->generate({}, {}, {}).error().code, ErrorCode::kInvalidArgument);
  const Prepared ready = prepared(*engine, asking({picture(1)}));
  EXPECT_EQ(engine->generate(ready.prompt, {}, {}).error().code, ErrorCode::kInvalidArgument);
  const auto wider = engine_of(tiny_with([](auto& o) { o.decoder.hidden = 64; }));
  const auto refused = wider->generate(ready.prompt, ready.views, {});
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("span 0"), std::string::npos);
}

TEST(ReferenceEngine, RejectsAPromptThatDoesNotFitTheContext) {
  const auto engine = engine_of(tiny_with([](auto& o) { o.max_context = TokenCount(60); }));
  const Request request = asking({"x"});
  const auto length = static_cast<std::uint32_t>(prepared(*engine, request).prompt.tokens.size());
  EXPECT_LE(answer(*engine, request, 4'000'000'000U).tokens.size(), 60 - length);
  Prepared ready = prepared(*engine, request);
  ready.prompt.tokens.resize(60, ready.prompt.tokens.front());
  const auto refused = engine->generate(ready.prompt, {}, {.max_tokens = TokenCount(1)});
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
}

TEST(ReferenceEngine, ZeroMaxTokensPrefillsOnly) {
  const auto engine = engine_of();
  const Completion completion = answer(*engine, asking({"x"}), 0);
  EXPECT_TRUE(completion.tokens.empty());
  EXPECT_EQ(completion.text, "");
  EXPECT_GT(completion.prefilled.value(), 0U);
}

TEST(ReferenceEngine, AShorterAnswerIsTheBeginningOfALongerOne) {
  const auto engine = engine_of();
  const Completion longer = answer(*engine, asking({"count"}), 40);
  const Completion shorter = answer(*engine, asking({"count"}), 3);
  ASSERT_LE(shorter.tokens.size(), longer.tokens.size());
  EXPECT_TRUE(std::equal(shorter.tokens.begin(), shorter.tokens.end(), longer.tokens.begin()));
  EXPECT_NE(shorter.logits, longer.logits);
}

// Every reading is one millisecond later than the previous one.
class TickingClock final : public Clock {
 public:
  [[nodiscard]] Duration now() const override {
    inner_.advance(std::chrono::milliseconds(1));
    return inner_.now();
  }

 private:
  mutable ManualClock inner_;
};

TEST(ReferenceEngine, TheFirstTokenIsTimedFromTheStartOfTheCall) {
  const TickingClock clock;
  const auto engine = engine_of(tiny_with([&clock](auto& o) { o.clock = &clock; }));
  const Duration once = answer(*engine, asking({"x"}), 5).first_token_after;
  EXPECT_GT(once, Duration(0));
  EXPECT_EQ(answer(*engine, asking({"x"}), 5).first_token_after, once);
}

TEST(ReferenceEngine, BadMediaAreErrorsThatNameTheItem) {
  const auto engine = engine_of();
  MediaItem broken = picture(1);
  auto bytes = *broken.files[0];
  bytes.resize(bytes.size() / 2);
  broken = media_item(Modality::kImage, bytes, "half.png");
  const ContentDigest digest;
  EXPECT_TRUE(engine->prepare(asking({broken}), {&digest, 1}).has_value()) << "headers only";
  const auto encoded = engine->encode(broken);
  ASSERT_FALSE(encoded.has_value());
  EXPECT_EQ(encoded.error().code, ErrorCode::kCorruption);
  EXPECT_NE(encoded.error().message.find("half.png"), std::string::npos);

  const MediaItem text = media_item(Modality::kImage, testing::FileContent(20), "notes.txt");
  EXPECT_EQ(engine->prepare(asking({text}), {&digest, 1}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine->prepare(asking({text}), {}).error().code, ErrorCode::kInvalidArgument);
}

TEST(ReferenceEngine, AnAnimationGivenAsAnImageIsEncodedAsItsFirstFrame) {
  const auto engine = engine_of();
  const std::vector<Image> film = {testing::make_picture(9, 7, 1), testing::make_picture(9, 7, 2)};
  const auto rows = [&](testing::FileContent file) {
    return engine->encode(media_item(Modality::kImage, std::move(file))).value().front().bytes;
  };
  const auto expected = rows(testing::make_png(film[0]));
  EXPECT_EQ(rows(testing::make_gif(film, 10)), expected);
  EXPECT_EQ(rows(testing::make_webp_animation(film, 40)), expected);
  EXPECT_NE(rows(testing::make_png(film[1])), expected);
}

TEST(ReferenceEngine, LimitsHoldBeforeAnythingIsDecoded) {
  const auto engine = engine_of(tiny_with([](auto& o) { o.limits.max_side = 30; }));
  EXPECT_EQ(engine->encode(picture(1)).error().code, ErrorCode::kLimitExceeded);
  EXPECT_TRUE(engine->encode(picture(1, 30, 30)).has_value());
}

TEST(ReferenceEngine, AnswersFromManyThreadsAtOnce) {
  const auto engine = engine_of();
  const Request request = asking({picture(1), "hello"});
  const LogitsDigest expected = answer(*engine, request).logits;
  std::vector<LogitsDigest> found(3);
  std::vector<std::thread> threads;
  for (LogitsDigest& digest : found) {
    threads.emplace_back([&] { digest = answer(*engine, request).logits; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const LogitsDigest& digest : found) EXPECT_EQ(digest, expected);
}

TEST(ReferenceEngine, RejectsInvalidOptions) {
  const auto create = [](const std::function<void(ReferenceOptions&)>& change) {
    return ReferenceEngine::create(tiny_with(change));
  };
  EXPECT_EQ(create([](auto& o) { o.decoder.hidden = 5; }).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(create([](auto& o) { o.kernels = "abacus"; }).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace afterimage
