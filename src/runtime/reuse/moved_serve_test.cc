// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Requests that use KV of media at other positions. What such a request computes must never be
// found by a request that wants exact results: not as KV, not as an answer, in memory or below.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/reuse.h"
#include "afterimage/reuse_stats.h"
#include "afterimage/serve.h"
#include "afterimage/tier.h"
#include "engines/reference/reference_engine.h"
#include "engines/reference/testing/tiny_options.h"
#include "testing/forwarding_engine.h"
#include "testing/media_files.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::for_each_seed;

class MovedServe : public ::testing::Test {
 protected:
  MovedServe() { open(); }

  static std::unique_ptr<ReferenceEngine> make_engine(bool mrope = true) {
    const ReferenceOptions options = testing::tiny_full();
    return ReferenceEngine::create(mrope ? options.with_mrope() : options).value();
  }
  [[nodiscard]] MovedMediaOptions moving() const {
    return {.certified = kv_origin(engine->identity(), *engine->kv_layout()),
            .recomputed = TokenCount(1),
            .max_loss = 1,
            .sample_every = 1'000'000,
            .capacity = 1_MiB};
  }
  /// As a new process with the same secret, over the same tier.
  void open(std::optional<MovedMediaOptions> moved = std::nullopt, bool answers = false) {
    reuse.reset();
    ReuseOptions all{.tier = tier.get(), .weigh_loads = false, .moved = std::move(moved)};
    if (answers) all.answers = AnswerReuse();
    reuse = Reuse::create(all, Secret{}, clock).value();
  }
  void forget() {
    reuse.reset();
    tier = std::make_unique<HostTier>(budget);
  }
  static MediaItem picture(std::uint32_t seed) {
    return testing::media_item(Modality::kImage,
                               testing::make_png(testing::make_picture(40, 32, seed)));
  }
  static Request about(const std::vector<std::uint32_t>& pictures, const std::string& words,
                       int turns = 0) {
    Request request{.id = RequestId("r"), .tenant = TenantId("t")};
    request.messages = {{.role = Role::kSystem, .parts = {std::string("You see.")}},
                        {.role = Role::kUser, .parts = {}}};
    for (const std::uint32_t one : pictures) request.messages[1].parts.emplace_back(picture(one));
    request.messages[1].parts.emplace_back(words);
    for (int i = 0; i < turns; ++i) {
      request.messages.push_back({.role = Role::kAssistant, .parts = {std::string("It is.")}});
      request.messages.push_back({.role = Role::kUser, .parts = {std::string("Sure?")}});
    }
    return request;
  }
  Served ask(const Request& request) {
    auto served = serve(request, *engine, *reuse, options);
    EXPECT_TRUE(served.has_value()) << to_string(served.error());
    return *std::move(served);
  }
  [[nodiscard]] Served cold(const Request& request) const {
    return serve_without_reuse(request, *engine, clock, options).value();
  }
  /// Exact, bit for bit.
  void expect_exact(const Request& request, const std::string& what) {
    const Served served = ask(request);
    const Served expected = cold(request);
    EXPECT_FALSE(served.bounded) << what;
    EXPECT_EQ(served.completion.text, expected.completion.text) << what;
    if (served.answered) return;
    EXPECT_EQ(served.completion.logits, expected.completion.logits) << what;
  }

  SystemClock clock;
  MemoryBudget budget{256_MiB};
  std::unique_ptr<HostTier> tier = std::make_unique<HostTier>(budget);
  std::unique_ptr<ReferenceEngine> engine = make_engine();
  std::unique_ptr<Reuse> reuse;
  GenerateOptions options{.max_tokens = TokenCount(4)};
};

TEST_F(MovedServe, UsesAnImagesKvAfterAnotherContext) {
  open(moving());
  EXPECT_FALSE(ask(about({1, 2, 3}, "Which?")).bounded);
  EXPECT_EQ(reuse->stats().moved->entries, 3U);
  const Served moved = ask(about({3, 1}, "And now?"));
  EXPECT_TRUE(moved.bounded);
  const TokenCount length =
      engine->prepare(about({1}, ""), std::vector<ContentDigest>(1)).value().spans[0].length;
  EXPECT_EQ(moved.completion.moved, TokenCount(2 * (length.value() - 1)));
  EXPECT_NE(moved.completion.logits, cold(about({3, 1}, "And now?")).completion.logits)
      << "an approximation that happens to be exact tests nothing";
  EXPECT_EQ(reuse->stats().moved->answers, 1U);
  EXPECT_EQ(reuse->stats().moved->tokens, moved.completion.moved.value());
}

TEST_F(MovedServe, IsOffWithoutTheOptionAndForAnotherEnginesCertificate) {
  const auto both = [&](const std::string& what) {
    static_cast<void>(ask(about({1, 2, 3}, "Which?")));
    expect_exact(about({3, 1}, "And now?"), what);
  };
  both("off");
  auto other = moving();
  other.certified = kv_origin(make_engine(false)->identity(), *engine->kv_layout());
  forget();
  open(other);
  both("another engine's");
}

TEST_F(MovedServe, AnExactPrefixComesFirst) {
  open(moving());
  static_cast<void>(ask(about({1, 2, 3}, "Which?")));
  expect_exact(about({1, 2, 3}, "Which one?"), "its pictures are where they were");
  const Served mixed = ask(about({1, 3}, "Which?"));
  EXPECT_TRUE(mixed.bounded);
  EXPECT_GT(mixed.completion.resumed_from, TokenCount(0)) << "picture 1 is restored";
}

TEST_F(MovedServe, ARepeatResumesInsideTheFirstImageAndIsBoundedAgain) {
  open(moving());
  static_cast<void>(ask(about({1, 2, 3}, "Which?")));
  EXPECT_TRUE(ask(about({2, 1}, "And now?")).compared) << "the first one is a sample";
  const Served first = ask(about({3, 1}, "And now?"));
  const Served again = ask(about({3, 1}, "And now?"));
  EXPECT_TRUE(again.bounded);
  EXPECT_EQ(again.completion.moved, first.completion.moved);
  EXPECT_EQ(again.completion.logits, first.completion.logits);
  EXPECT_LT(again.completion.prefilled, first.completion.prefilled);
}

TEST_F(MovedServe, NothingBoundedIsFoundByAnExactRequest) {
  open(moving(), /*answers=*/true);
  static_cast<void>(ask(about({1, 2, 3}, "Which?")));
  const std::vector<Request> requests{about({3, 1}, "And now?"), about({2, 1, 3}, "Which?", 2),
                                      about({2}, "What?")};
  for (const Request& request : requests) {
    const Served bounded = ask(request);
    EXPECT_TRUE(bounded.bounded);
    EXPECT_NE(bounded.completion.logits, cold(request).completion.logits);
    EXPECT_FALSE(ask(request).answered) << "a bounded answer was stored";
  }
  // The same caches, once the mode is off: a process over the same tier, and the same process.
  open(std::nullopt, /*answers=*/true);
  for (const Request& request : requests) expect_exact(request, "over the tier");
}

TEST_F(MovedServe, TheSameProcessIsExactOnceTheModeIsOff) {
  std::string why;
  MovedMediaOptions strict = moving();
  strict.max_loss = 0;
  strict.sample_every = 4;
  strict.on_disabled = [&](const std::string& text) { why = text; };
  options.max_tokens = TokenCount(64);  // long enough that approximations end differently
  open(strict, /*answers=*/true);
  static_cast<void>(ask(about({1, 2, 3}, "Which?")));
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < 40 && reuse->stats().moved->on; ++i) {
    requests.push_back(about({3, 1 + i % 2, 2}, "Number " + std::to_string(i)));
    EXPECT_TRUE(ask(requests.back()).bounded);
  }
  ASSERT_FALSE(reuse->stats().moved->on) << "no sample differed";
  EXPECT_NE(why.find("differed"), std::string::npos);
  EXPECT_EQ(reuse->stats().moved->entries, 0U);
  for (const Request& request : requests) expect_exact(request, "in the same process");
}

TEST_F(MovedServe, ASampleIsComputedAgainAndMakesExactKv) {
  MovedMediaOptions each = moving();
  each.sample_every = 1;
  open(each);
  static_cast<void>(ask(about({1, 2, 3}, "Which?")));
  int texts = 0;
  options.on_text = [&](std::string_view) { return ++texts > 0; };
  const Served bounded = ask(about({3, 1}, "And now?"));
  EXPECT_TRUE(bounded.bounded);
  EXPECT_TRUE(bounded.compared);
  EXPECT_LE(texts, 4) << "the second run is silent";
  options.on_text = {};
  const MovedMediaStats stats = *reuse->stats().moved;
  EXPECT_EQ(stats.samples, 1U);
  EXPECT_GT(stats.same + stats.other, 0U);
  expect_exact(about({3, 1}, "And now?"), "resumes from what the sample computed");
}

TEST_F(MovedServe, SaysThatItIsBoundedBeforeTheFirstText) {
  open(moving());
  std::string events;
  options.on_bounded = [&] { events += 'b'; };
  options.on_text = [&](std::string_view) {
    if (!events.ends_with('t')) events += 't';
    return true;
  };
  static_cast<void>(ask(about({1, 2, 3}, "Which?")));
  EXPECT_EQ(events, "t");
  static_cast<void>(ask(about({3, 1}, "And now?")));
  EXPECT_EQ(events, "tbt");
}

TEST_F(MovedServe, RequestsThatSampleAreExact) {
  open(moving());
  static_cast<void>(ask(about({1, 2, 3}, "Which?")));
  options.sampling.temperature = 1;
  EXPECT_FALSE(ask(about({3, 1}, "And now?")).bounded) << "nothing could compare its answer";
  options.sampling.seed = 3;
  EXPECT_TRUE(ask(about({2, 1}, "And now?")).bounded);
}

/// Refuses moved KV, as an engine that is asked for too much does.
class Refusing final : public testing::ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    if (!use.moved.empty()) return fail(ErrorCode::kUnavailable, "no");
    return ForwardingEngine::run(prompt, embeddings, options, use);
  }
};

TEST_F(MovedServe, IsExactIfMovingFails) {
  open(moving());
  static_cast<void>(ask(about({1, 2, 3}, "Which?")));
  const Refusing refusing(*engine);
  const Request request = about({3, 1}, "And now?");
  const Served served = serve(request, refusing, *reuse, options).value();
  EXPECT_FALSE(served.bounded);
  EXPECT_EQ(served.completion.logits, cold(request).completion.logits);
  EXPECT_EQ(reuse->stats().moved->answers, 0U);
}

TEST_F(MovedServe, ErasedItemsAreNotMoved) {
  open(moving());
  const Served first = ask(about({1, 2, 3}, "Which?"));
  const EraseReport erased = reuse->erase({.media = first.prints.contents[0]}).value();
  EXPECT_EQ(erased.moved, EntryCount(3)) << "KV of the others was computed after it";
  EXPECT_FALSE(ask(about({3}, "And now?")).bounded);
  EXPECT_EQ(reuse->erase({.tenant = "t"}).value().moved, EntryCount(1));
  EXPECT_FALSE(ask(about({2}, "And now?")).bounded);
}

TEST_F(MovedServe, TenantsDoNotShareItems) {
  open(moving());
  static_cast<void>(ask(about({1, 2, 3}, "Which?")));
  Request other = about({3, 1}, "And now?");
  other.tenant = TenantId("u");
  expect_exact(other, "another tenant");
}

// An answer that is not bounded is exact, in any order of requests and turns, in memory and below.
TEST_F(MovedServe, WhatIsNotBoundedIsExactWhateverCameBefore) {
  for_each_seed(6, [&](Rng& rng) {
    forget();
    std::map<std::string, Served> known;
    std::uint64_t bounded = 0;
    for (int i = 0; i < 40; ++i) {
      if (i % 10 == 0) {
        MovedMediaOptions some = moving();
        some.sample_every = 3;
        open(i % 20 == 0 ? std::optional(some) : std::nullopt, rng.chance(0.5));
      }
      std::vector<std::uint32_t> pictures;
      std::string name;
      for (std::uint64_t k = 1 + rng.below(3); k > 0; --k) {
        pictures.push_back(static_cast<std::uint32_t>(1 + rng.below(4)));
        name += std::to_string(pictures.back());
      }
      const auto turns = static_cast<int>(rng.below(3));
      const Request request = about(pictures, "Which?", turns);
      name += " " + std::to_string(turns);
      if (!known.contains(name)) known.emplace(name, cold(request));
      const Served served = ask(request);
      bounded += served.bounded ? 1 : 0;
      if (served.bounded) continue;
      EXPECT_EQ(served.completion.text, known.at(name).completion.text) << name;
      if (!served.answered) {
        EXPECT_EQ(served.completion.logits, known.at(name).completion.logits) << name;
      }
    }
    EXPECT_GT(bounded, 0U);
  });
}

TEST_F(MovedServe, ThreadsGetExactOrBoundedAnswersAndNothingElse) {
  MovedMediaOptions some = moving();
  some.sample_every = 2;
  open(some, /*answers=*/true);
  std::vector<Request> requests;
  std::vector<Served> alone;
  for (std::uint32_t i = 0; i < 6; ++i) {
    requests.push_back(about({1 + i % 3, 1 + (i + 1) % 3}, i % 2 == 0 ? "Which?" : "What?"));
    alone.push_back(cold(requests.back()));
  }
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 12; ++i) {
        const std::size_t which = (i * 5 + t) % requests.size();
        const Served served = ask(requests[which]);
        if (served.bounded) continue;
        EXPECT_EQ(served.completion.text, alone[which].completion.text);
        if (!served.answered) {
          EXPECT_EQ(served.completion.logits, alone[which].completion.logits);
        }
      }
    });
  }
}

}  // namespace
}  // namespace afterimage
