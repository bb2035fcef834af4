// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/engine/serve.h"

#include <gtest/gtest.h>

#include "afterimage/engine/reference/reference_engine.h"
#include "afterimage/testing/forwarding_engine.h"
#include "afterimage/testing/media_files.h"

namespace afterimage {
namespace {

Message says(Role role, std::string text) { return {.role = role, .parts = {std::move(text)}}; }

struct Fixture {
  SystemClock clock;
  std::unique_ptr<ReferenceEngine> engine = [this] {
    ReferenceOptions tiny = ReferenceOptions::tiny();
    tiny.clock = &clock;
    return ReferenceEngine::create(std::move(tiny)).value();
  }();
  std::unique_ptr<Reuse> reuse = Reuse::create({}, Secret{}, clock).value();
  GenerateOptions options{.max_tokens = TokenCount(3)};

  static MediaItem picture(std::uint32_t seed) {
    return testing::media_item(Modality::kImage,
                               testing::make_png(testing::make_picture(40, 30, seed)));
  }
  /// One user turn about a picture, and as many short turns after it as asked for.
  static Request conversation(std::uint32_t seed, int more_turns, const std::string& tenant = "") {
    Request request{.id = RequestId("r"), .tenant = TenantId(tenant)};
    request.messages.push_back(says(Role::kSystem, "You look at pictures."));
    request.messages.push_back(
        {.role = Role::kUser, .parts = {picture(seed), std::string("What is it?")}});
    for (int turn = 0; turn < more_turns; ++turn) {
      request.messages.push_back(says(Role::kAssistant, "A picture."));
      request.messages.push_back(says(Role::kUser, "And more closely?"));
    }
    return request;
  }
  [[nodiscard]] Served ask(const Request& request) const {
    auto served = serve(request, *engine, *reuse, clock, options);
    EXPECT_TRUE(served.has_value());
    const Served cold = serve_without_reuse(request, *engine, clock, options).value();
    EXPECT_EQ(served->completion.tokens, cold.completion.tokens);
    EXPECT_EQ(served->completion.logits, cold.completion.logits) << "reuse changed the answer";
    return *std::move(served);
  }
};

// Seed 004 B16: the state was kept after the answer, which the next turn's prompt renders
// otherwise.
TEST(Serve, TheNextTurnResumesWhereTheLastPromptEnded) {
  const Fixture f;
  const Served first = f.ask(f.conversation(1, 0));
  EXPECT_EQ(first.completion.resumed_from, TokenCount(0));
  const Served second = f.ask(f.conversation(1, 1));
  EXPECT_EQ(second.completion.resumed_from, first.completion.prefilled - TokenCount(1));
  EXPECT_EQ(second.encoder_calls, 0U);
  EXPECT_EQ(second.sources, (std::vector{MediaSource::kCovered}));
}

// Seed 004 B6: the same question again was a miss. B14: the only state stood past the last place
// where it could be resumed.
TEST(Serve, AnExactRepeatComputesOneToken) {
  const Fixture f;
  const Served first = f.ask(f.conversation(1, 1));
  const Served again = f.ask(f.conversation(1, 1));
  EXPECT_EQ(again.completion.prefilled, TokenCount(1));
  EXPECT_EQ(again.completion.resumed_from, first.completion.prefilled - TokenCount(1));
}

// Seed 004 B5: another picture rejected the whole candidate, the shared text before it included.
// The second request marks where it parted; the third resumes there.
TEST(Serve, WhatStandsBeforeAnotherPictureIsReused) {
  const Fixture f;
  static_cast<void>(f.ask(f.conversation(1, 0)));
  const Served second = f.ask(f.conversation(2, 0));
  EXPECT_EQ(second.sources, (std::vector{MediaSource::kEncoded}));
  const Served third = f.ask(f.conversation(3, 0));
  EXPECT_GT(third.completion.resumed_from, TokenCount(0));
  EXPECT_EQ(third.sources, (std::vector{MediaSource::kEncoded}));
}

TEST(Serve, TenantsResumeNothingOfEachOther) {
  const Fixture f;
  static_cast<void>(f.ask(f.conversation(1, 1, "one")));
  EXPECT_EQ(f.ask(f.conversation(1, 1, "two")).completion.resumed_from, TokenCount(0));
}

TEST(Serve, ABudgetThatHoldsNothingServesEverythingComputed) {
  Fixture f;
  f.reuse = Reuse::create({.budget = 64_B}, Secret{}, f.clock).value();
  for (int i = 0; i < 2; ++i) {
    const Served served = f.ask(f.conversation(1, 1));
    EXPECT_EQ(served.completion.resumed_from, TokenCount(0));
    EXPECT_EQ(served.sources, (std::vector{MediaSource::kUncached}));
  }
}

/// Refuses every state that it is given, as an engine does whose context was made anew.
class ForgetfulEngine final : public testing::ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    if (use.resume_from != nullptr) return fail(ErrorCode::kUnavailable, "no such context");
    return ForwardingEngine::run(prompt, embeddings, options, use);
  }
};

// Seed 004 B15: a restore that failed was logged, and the hit was used all the same.
TEST(Serve, ARestoreThatFailsIsComputedFromTheStart) {
  const Fixture f;
  const ForgetfulEngine forgetful(*f.engine);
  const Request request = f.conversation(1, 1);
  const Served first = serve(request, forgetful, *f.reuse, f.clock, f.options).value();
  const Served again = serve(request, forgetful, *f.reuse, f.clock, f.options).value();
  EXPECT_TRUE(again.restore_failed);
  EXPECT_EQ(again.completion.resumed_from, TokenCount(0));
  EXPECT_EQ(again.completion.logits, first.completion.logits);
}

}  // namespace
}  // namespace afterimage
