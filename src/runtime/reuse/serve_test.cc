// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/serve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "afterimage/reuse_stats.h"
#include "afterimage/tier.h"
#include "engines/reference/reference_engine.h"
#include "foundation/platform/random.h"
#include "foundation/platform/testing/manual_wall_clock.h"
#include "runtime/reuse/plan.h"
#include "testing/forwarding_engine.h"
#include "testing/media_files.h"
#include "testing/tiny_engine.h"
#include "testing/tokenizing_engine.h"

namespace afterimage {
namespace {

Message says(Role role, std::string text) { return {.role = role, .parts = {std::move(text)}}; }

struct Fixture {
  SystemClock clock;
  std::unique_ptr<ReferenceEngine> engine = testing::tiny_engine(clock);
  std::unique_ptr<Reuse> reuse = over(nullptr);
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
  /// As a new process with the same secret begins.
  [[nodiscard]] std::unique_ptr<Reuse> over(Tier* tier, Bytes budget = 4_GiB) const {
    return Reuse::create({.budget = budget, .tier = tier, .weigh_loads = false}, Secret{}, clock)
        .value();
  }
  [[nodiscard]] Served ask(const Request& request) const {
    auto served = serve(request, *engine, *reuse, options);
    EXPECT_TRUE(served.has_value());
    const Served cold = serve_without_reuse(request, *engine, clock, options).value();
    EXPECT_EQ(served->completion.tokens, cold.completion.tokens);
    EXPECT_EQ(served->completion.logits, cold.completion.logits) << "reuse changed the answer";
    return *std::move(served);
  }
};

// Seed 004 B16: the state was kept after the answer, which the next turn's prompt renders
// otherwise.
TEST(Serve, TheNextTurnResumesAtTheEndOfTheLastPrompt) {
  const Fixture f;
  const Served first = f.ask(f.conversation(1, 0));
  EXPECT_EQ(first.completion.resumed_from, TokenCount(0));
  const Served second = f.ask(f.conversation(1, 1));
  EXPECT_EQ(second.completion.resumed_from, first.completion.prefilled - TokenCount(1));
  EXPECT_EQ(second.encoder_calls, 0U);
  EXPECT_EQ(second.sources, (std::vector{MediaSource::kCovered}));
}

// A picture that stands before the text lies in the KV that others resume from: it had one agent, the
// first, and no use.
TEST(Serve, APictureThatKvCoversIsAUseOfItsAgent) {
  const Fixture f;
  for (const char* const agent : {"auditor", "analyst", "designer", "analyst"}) {
    Request request = f.conversation(1, 1);
    request.hints.agent = agent;
    const Served served = f.ask(request);
    const bool is_first = request.hints.agent == "auditor";
    EXPECT_EQ(served.sources.front(), is_first ? MediaSource::kEncoded : MediaSource::kCovered);
  }
  const std::vector<EncoderEntryInfo> entries = f.reuse->encoder().cache().most_shared(9);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries.front().agents, 3U);
  EXPECT_EQ(entries.front().access_count, 3U);
  const EncoderCacheStats stats = f.reuse->stats().encoder;
  EXPECT_EQ(stats.covered, 3U);
  EXPECT_EQ(stats.hits, 0U);
}

/// With a context of 77 tokens; counts what is encoded.
class ShortEngine final : public testing::ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;
  const Tokenizer* tokenizer() const override { return &tokenizer_; }
  Result<EncoderOutput> encode(const MediaItem& item) const override {
    ++encoded;
    return ForwardingEngine::encode(item);
  }
  [[nodiscard]] Result<std::shared_ptr<const SplitMedia>> split(
      const MediaItem& item) const override {
    ++encoded;
    return ForwardingEngine::split(item);
  }
  mutable std::atomic<int> encoded = 0;

 private:
  testing::ByteTokenizer tokenizer_;
};

TEST(Serve, APromptThatDoesNotFitIsRefusedBeforeItsPicturesAreEncoded) {
  const Fixture f;
  const ShortEngine engine(*f.engine);
  const Request request = f.conversation(1, 9);
  const auto served = serve(request, engine, *f.reuse, f.options);
  ASSERT_FALSE(served.has_value());
  EXPECT_EQ(served.error().code, ErrorCode::kLimitExceeded) << served.error().message;
  const auto cold = serve_without_reuse(request, engine, f.clock, f.options);
  ASSERT_FALSE(cold.has_value());
  EXPECT_EQ(cold.error().code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(engine.encoded, 0);
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

struct Below {
  MemoryBudget budget{256_MiB};
  HostTier tier{budget};
};

TEST(Serve, AnotherProcessOverTheSameTierEncodesNothingAndPrefillsOnlyWhatIsNew) {
  Below below;
  Fixture f;
  f.reuse = f.over(&below.tier);
  const Served first = f.ask(f.conversation(1, 2));
  const auto prompt_tokens = first.completion.prefilled;
  f.reuse = f.over(&below.tier);
  const Served again = f.ask(f.conversation(1, 2));
  EXPECT_EQ(again.encoder_calls, 0U);
  EXPECT_EQ(again.completion.prefilled, TokenCount(1));
  EXPECT_EQ(again.completion.resumed_from, prompt_tokens - TokenCount(1));
  f.reuse = f.over(&below.tier);
  const Served longer = f.ask(f.conversation(1, 3));
  EXPECT_EQ(longer.encoder_calls, 0U);
  EXPECT_EQ(longer.completion.resumed_from, prompt_tokens - TokenCount(1));
  EXPECT_EQ(longer.sources, (std::vector{MediaSource::kCovered}));
  f.reuse = f.over(&below.tier);
  const Served changed = f.ask(f.conversation(2, 2));
  EXPECT_EQ(changed.encoder_calls, 1U) << "another picture";
  EXPECT_EQ(f.reuse->stats().prefix_archive.failed, 0U);
}

TEST(Serve, LoadsEvictedKvFromTheTier) {
  Below below;
  Fixture f;
  f.reuse = f.over(nullptr);
  for (std::uint32_t picture = 1; picture <= 6; ++picture) {
    static_cast<void>(f.ask(f.conversation(picture, 30)));
  }
  const std::uint64_t all = f.reuse->stats().used.value();
  f.reuse = f.over(&below.tier, Bytes(all * 3 / 4));
  for (std::uint32_t picture = 1; picture <= 6; ++picture) {
    static_cast<void>(f.ask(f.conversation(picture, 30)));
  }
  std::uint64_t encoder_calls = 0;
  for (std::uint32_t picture = 1; picture <= 6; ++picture) {
    encoder_calls += f.ask(f.conversation(picture, 30)).encoder_calls;
  }
  const ReuseStats stats = f.reuse->stats();
  EXPECT_GT(stats.prefix.evictions + stats.encoder.evictions, 0U) << all;
  EXPECT_GT(stats.prefix_archive.promoted, 0U);
  EXPECT_EQ(stats.prefix_archive.failed, 0U);
  EXPECT_EQ(encoder_calls, 0U);
  EXPECT_LE(stats.peak, stats.budget);
}

TEST(Serve, ThreadsOverOneTierGetTheAnswersOfASingleThread) {
  Below below;
  Fixture f;
  std::vector<Served> alone;
  for (std::uint32_t picture = 1; picture <= 3; ++picture) {
    const Request request = f.conversation(picture, 1);
    alone.push_back(serve_without_reuse(request, *f.engine, f.clock, f.options).value());
  }
  for (int process = 0; process < 3; ++process) {
    f.reuse = f.over(&below.tier, process == 1 ? 192_KiB : 64_MiB);
    std::atomic<int> wrong{0};
    std::vector<std::jthread> threads;
    for (std::uint32_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::uint32_t i = 0; i < 6; ++i) {
          const std::uint32_t picture = 1 + (thread + i) % 3;
          const auto served = serve(f.conversation(picture, 1), *f.engine, *f.reuse, f.options);
          const Served& expected = alone[picture - 1];
          if (!served.has_value() || served->completion.logits != expected.completion.logits ||
              served->completion.tokens != expected.completion.tokens) {
            ++wrong;
          }
        }
      });
    }
    threads.clear();
    EXPECT_EQ(wrong, 0);
  }
}

// Seed 004 B5: another picture rejected the whole candidate, the shared text before it included.
// The second request marks where it parted; the third resumes there.
TEST(Serve, ReusesThePrefixBeforeADifferentPicture) {
  const Fixture f;
  static_cast<void>(f.ask(f.conversation(1, 0)));
  const Served second = f.ask(f.conversation(2, 0));
  EXPECT_EQ(second.sources, (std::vector{MediaSource::kEncoded}));
  const Served third = f.ask(f.conversation(3, 0));
  EXPECT_GT(third.completion.resumed_from, TokenCount(0));
  EXPECT_EQ(third.sources, (std::vector{MediaSource::kEncoded}));
}

// Also where the library is asked without a gateway.
TEST(Serve, ADateInPromptsIsPartOfTheQuestion) {
  class DatedEngine final : public testing::ForwardingEngine {
   public:
    using ForwardingEngine::ForwardingEngine;
    [[nodiscard]] std::string clock_in_prompts(WallTime now) const override { return rfc3339(now); }
  };
  const Fixture f;
  const DatedEngine engine(*f.engine);
  const auto question_at = [&](const WallClock* wall) {
    return identify(f.conversation(1, 0), engine, Secret{}, f.options, wall).value().question;
  };
  testing::ManualWallClock wall(WallTime(std::chrono::hours(48)));
  const ScopeKey first = question_at(&wall)->scope().key;
  EXPECT_EQ(question_at(&wall)->scope().key, first);
  wall.set(WallTime(std::chrono::hours(72)));
  EXPECT_NE(question_at(&wall)->scope().key, first);
  EXPECT_FALSE(question_at(nullptr).has_value()) << "nobody knows which day it is";
}

// A question's scope has texts and media: nothing else of a request may change its answer.
TEST(Serve, OnlyPlainReproducibleRequestsHaveAQuestion) {
  const Fixture f;
  const auto has_question = [&](const Request& request, const GenerateOptions& options) {
    return identify(request, *f.engine, Secret{}, options).value().question.has_value();
  };
  const Request plain = f.conversation(1, 1);
  EXPECT_TRUE(has_question(plain, f.options));
  GenerateOptions options = f.options;
  options.sampling.temperature = 0.7F;
  EXPECT_FALSE(has_question(plain, options)) << "another answer each time";
  options.sampling.seed = 7;
  EXPECT_TRUE(has_question(plain, options));
  options.top_logprobs = 2;
  EXPECT_FALSE(has_question(plain, options));
  const std::function<void(Request&)> kChanges[] = {
      [](Request& r) { r.messages[2].tool_calls = {{.id = "1", .name = "f", .arguments = "{}"}}; },
      [](Request& r) { r.messages[2].reasoning = "so"; },
      [](Request& r) { r.messages[2].tool_call_id = "1"; },
      [](Request& r) { r.messages[2].name = "f"; },
      [](Request& r) { r.rules.response_format = R"({"type":"json_object"})"; }};
  for (const auto& change : kChanges) {
    Request request = plain;
    change(request);
    EXPECT_FALSE(has_question(request, f.options));
  }
}

TEST(Serve, TheLastMessageDecidesTheTurnKind) {
  Request request;
  EXPECT_EQ(turn_kind(request), TurnKind::kUnknown);
  const std::pair<Role, TurnKind> kCases[] = {{Role::kSystem, TurnKind::kUnknown},
                                              {Role::kUser, TurnKind::kHuman},
                                              {Role::kAssistant, TurnKind::kUnknown},
                                              {Role::kTool, TurnKind::kToolResult}};
  for (const auto& [role, kind] : kCases) {
    request.messages.push_back(says(role, "x"));
    EXPECT_EQ(turn_kind(request), kind) << to_string(role);
  }
}

/// A prefill takes a second.
class SecondsEngine final : public testing::ForwardingEngine {
 public:
  SecondsEngine(const Engine& good, ManualClock& clock) : ForwardingEngine(good), clock_(clock) {}

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    clock_.advance(std::chrono::seconds(1));
    return ForwardingEngine::run(prompt, embeddings, options, use);
  }

 private:
  ManualClock& clock_;
};

// How much a tenant's hints are worth is learned, so the caches must hear of them.
TEST(Serve, ConversationHintsDecideWhichKvIsEvictedFirst) {
  for (const bool honest : {true, false}) {
    const Fixture f;
    ManualClock clock;
    const SecondsEngine engine(*f.engine, clock);
    const auto reuse = Reuse::create({}, Secret{}, clock).value();
    const auto resumed = [&](const std::string& asked, ContinuationHint hint) {
      Request request{.tenant = TenantId("tenant"), .hints = {.conversation = hint}};
      request.messages.push_back(says(Role::kUser, asked));
      const GenerateOptions one{.max_tokens = TokenCount(1)};
      return serve(request, engine, *reuse, one).value().completion.resumed_from;
    };
    const auto goes_on = honest ? ContinuationHint::kGoesOn : ContinuationHint::kEnds;
    const auto ends = honest ? ContinuationHint::kEnds : ContinuationHint::kGoesOn;
    for (int round = 0; round < 100; ++round) {
      static_cast<void>(resumed("one", goes_on));
      static_cast<void>(resumed("other", ends));
      clock.advance(std::chrono::seconds(10));
      static_cast<void>(resumed("one", ContinuationHint::kNone));
      clock.advance(std::chrono::seconds(300));
      reuse->prefix()->cache().clear();
    }
    ASSERT_EQ(resumed("goes on", ContinuationHint::kGoesOn), TokenCount(0));
    ASSERT_EQ(resumed("ends", ContinuationHint::kEnds), TokenCount(0));
    ASSERT_GT(reuse->prefix()->cache().evict_bytes(1_B), 0_B);
    const TokenCount of_goes_on = resumed("goes on", ContinuationHint::kNone);
    const TokenCount of_ends = resumed("ends", ContinuationHint::kNone);
    EXPECT_EQ(of_goes_on > of_ends, honest) << of_goes_on.value() << " " << of_ends.value();
    EXPECT_NE(of_goes_on, of_ends);
  }
}

TEST(Serve, TenantsNeverResumeEachOthersKv) {
  const Fixture f;
  static_cast<void>(f.ask(f.conversation(1, 1, "one")));
  EXPECT_EQ(f.ask(f.conversation(1, 1, "two")).completion.resumed_from, TokenCount(0));
}

TEST(Serve, ServesWithABudgetThatHoldsNothing) {
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
TEST(Serve, RestartsFromTheBeginningAfterAFailedRestore) {
  const Fixture f;
  const ForgetfulEngine forgetful(*f.engine);
  const Request request = f.conversation(1, 1);
  const Served first = serve(request, forgetful, *f.reuse, f.options).value();
  const Served again = serve(request, forgetful, *f.reuse, f.options).value();
  EXPECT_TRUE(again.restore_failed);
  EXPECT_EQ(again.completion.resumed_from, TokenCount(0));
  EXPECT_EQ(again.completion.logits, first.completion.logits);
}

/// Until `ready` says so; a test that never gets there ends by its time limit.
template <typename Ready>
void wait_until(const Ready& ready) {
  while (!ready()) std::this_thread::yield();
}

/// Tells the test of every run that starts cold, before it begins.
class WatchedEngine final : public testing::ForwardingEngine {
 public:
  WatchedEngine(const Engine& good, std::function<Result<void>()> on_cold_run)
      : ForwardingEngine(good), on_cold_run_(std::move(on_cold_run)) {}

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    if (use.resume_from == nullptr) AFI_TRY_VOID(on_cold_run_());
    return ForwardingEngine::run(prompt, embeddings, options, use);
  }

 private:
  std::function<Result<void>()> on_cold_run_;
};

/// `count` threads that ask the same at the same time. What they got.
std::vector<Result<Served>> at_once(unsigned count, const Fixture& f, const Engine& engine,
                                    const Request& request) {
  std::vector<Result<Served>> served(count, fail(ErrorCode::kUnavailable, "not asked"));
  std::vector<std::jthread> callers;
  for (unsigned t = 0; t < count; ++t) {
    callers.emplace_back([&, t] { served[t] = serve(request, engine, *f.reuse, f.options); });
  }
  callers.clear();
  return served;
}

// Seed 004 B18: prompts that came at the same time were all prefilled.
TEST(Serve, ConcurrentIdenticalRequestsPrefillOnce) {
  constexpr unsigned kCallers = 6;
  const Fixture f;
  const Request request = f.conversation(1, 2);
  std::atomic<int> cold_runs{0};
  const WatchedEngine engine(*f.engine, [&]() -> Result<void> {
    ++cold_runs;
    wait_until([&] { return cold_runs > 1 || f.reuse->stats().prefills.followed == kCallers - 1; });
    return {};
  });
  const auto answers = at_once(kCallers, f, engine, request);
  const Served cold = serve_without_reuse(request, *f.engine, f.clock, f.options).value();
  std::uint64_t computed = 0;
  for (const auto& served : answers) {
    ASSERT_TRUE(served.has_value()) << to_string(served.error());
    EXPECT_EQ(served->completion.logits, cold.completion.logits);
    computed += served->completion.prefilled.value();
  }
  EXPECT_EQ(cold_runs, 1);
  EXPECT_EQ(computed, cold.completion.prefilled.value() + kCallers - 1) << "one token each";
  EXPECT_EQ(f.reuse->stats().encodes.led, 1U);
}

TEST(Serve, AFailedPrefillDoesNotFailItsWaiters) {
  constexpr unsigned kCallers = 4;
  const Fixture f;
  std::atomic<int> cold_runs{0};
  const WatchedEngine engine(*f.engine, [&]() -> Result<void> {
    if (++cold_runs > 1) return {};
    wait_until([&] { return f.reuse->stats().prefills.followed == kCallers - 1; });
    return fail(ErrorCode::kUnavailable, "the device went away");
  });
  const auto answers = at_once(kCallers, f, engine, f.conversation(1, 1));
  EXPECT_EQ(std::ranges::count_if(answers, [](const auto& a) { return a.has_value(); }),
            kCallers - 1);
}

TEST(Serve, AnEngineThatAlwaysFailsHangsNoRequest) {
  const Fixture f;
  const WatchedEngine engine(*f.engine, []() -> Result<void> {
    return fail(ErrorCode::kUnavailable, "the device went away");
  });
  for (const auto& served : at_once(4, f, engine, f.conversation(1, 1))) {
    ASSERT_FALSE(served.has_value());
    EXPECT_EQ(served.error().code, ErrorCode::kUnavailable);
  }
  EXPECT_EQ(f.reuse->stats().prefix.tokens, 0U);
}

// What others wait for is the prompt, not a long answer to it.
TEST(Serve, SharesAPrefixWhileItsAnswerIsStillGenerated) {
  class Slow final : public testing::ForwardingEngine {
   public:
    Slow(const Engine& good, std::function<void()> while_decoding)
        : ForwardingEngine(good), while_decoding_(std::move(while_decoding)) {}

   protected:
    Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                           const GenerateOptions& options, const KvUse& use) const override {
      KvUse watched = use;
      watched.on_captured = [&](KvSlice kv) {
        use.on_captured(std::move(kv));
        while_decoding_();
      };
      return ForwardingEngine::run(prompt, embeddings, options, watched);
    }

   private:
    std::function<void()> while_decoding_;
  };
  const Fixture f;
  const Request request = f.conversation(1, 1);
  TokenCount resumed{};
  const Slow slow(*f.engine, [&] { resumed = f.ask(request).completion.resumed_from; });
  const Served first = serve(request, slow, *f.reuse, f.options).value();
  EXPECT_EQ(resumed, first.completion.prefilled - TokenCount(1));
}

TEST(Serve, PinnedKvSurvivesEvictionBeforeTheRestore) {
  class Evicting final : public testing::ForwardingEngine {
   public:
    Evicting(const Engine& good, Reuse& reuse) : ForwardingEngine(good), reuse_(reuse) {}

   protected:
    Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                           const GenerateOptions& options, const KvUse& use) const override {
      reuse_.prefix()->cache().evict_bytes(4_GiB);
      reuse_.prefix()->cache().clear();
      return ForwardingEngine::run(prompt, embeddings, options, use);
    }

   private:
    Reuse& reuse_;
  };
  const Fixture f;
  const Request request = f.conversation(1, 1);
  const Served first = f.ask(request);
  const Served again = serve(request, Evicting(*f.engine, *f.reuse), *f.reuse, f.options).value();
  EXPECT_GT(again.completion.resumed_from, TokenCount(0));
  EXPECT_FALSE(again.restore_failed);
  EXPECT_EQ(again.completion.logits, first.completion.logits);
  EXPECT_EQ(f.ask(request).completion.resumed_from, TokenCount(0)) << "now it is gone";
}

// Requests wait for prefixes and encoder outputs in one order, so none waits for ever, whichever of
// them fail or are cancelled.
TEST(Serve, ConcurrentRequestsThatShareMediaAndPrefixesNeverDeadlock) {
  const Fixture f;
  std::vector<Request> requests;
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    for (int turns = 0; turns < 3; ++turns) {
      requests.push_back(f.conversation(seed, turns));
      requests.back().messages.push_back(
          {.role = Role::kUser, .parts = {f.picture(seed % 3 + 1), std::string("And this?")}});
    }
  }
  std::vector<LogitsDigest> expected;
  for (const Request& request : requests) {
    expected.push_back(
        serve_without_reuse(request, *f.engine, f.clock, f.options)->completion.logits);
  }
  std::atomic<std::uint64_t> runs{0};
  const WatchedEngine engine(*f.engine, [&]() -> Result<void> {
    if (++runs % 5 == 0) return fail(ErrorCode::kUnavailable, "a passing failure");
    return {};
  });
  std::atomic<int> wrong{0};
  std::vector<std::jthread> callers;
  for (std::uint64_t t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      Rng rng(t);
      for (int i = 0; i < 12; ++i) {
        const std::size_t n = rng.below(requests.size());
        std::stop_source stop;
        if (rng.chance(0.1)) stop.request_stop();
        if (rng.chance(0.2)) f.reuse->prefix()->cache().evict_bytes(1_MiB);
        const auto served = serve(requests[n], engine, *f.reuse, f.options, stop.get_token());
        if (served.has_value() && served->completion.logits != expected[n]) ++wrong;
      }
    });
  }
  callers.clear();
  EXPECT_EQ(wrong, 0);
  f.reuse->prefix()->cache().check_invariants();
}

/// An engine that says all it has to say, and counts what it is asked.
class Talker final : public testing::ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;
  mutable std::atomic<int> asked = 0;
  std::atomic<bool> cut_short = false;

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    ++asked;
    auto made = ForwardingEngine::run(prompt, embeddings, options, use);
    if (made.has_value()) made->completion.ended = !cut_short;
    return made;
  }
};

struct AnswerFixture : Fixture {
  AnswerFixture() {
    reuse = Reuse::create({.budget = 4_GiB, .answers = AnswerReuse{}}, Secret{}, clock).value();
  }
  Served get(const Request& request) { return serve(request, talker, *reuse, options).value(); }
  static Request about(std::uint32_t picture, std::string words) {
    Request request = conversation(picture, 0);
    request.messages.back().parts.back() = std::move(words);
    return request;
  }
  Talker talker{*engine};
};

TEST(Serve, AnswersARepeatedQuestionFromCache) {
  AnswerFixture f;
  const Served first = f.get(f.about(1, "What is in the middle?"));
  EXPECT_FALSE(first.answered);
  ASSERT_EQ(first.match_steps.size(), 3U) << "looked for on every match level";
  for (const char* words : {"What is in the middle?", "what is  in the middle"}) {
    const Served again = f.get(f.about(1, words));
    EXPECT_TRUE(again.answered) << words;
    EXPECT_EQ(again.completion.text, first.completion.text);
    EXPECT_EQ(again.encoder_calls, 0U);
    EXPECT_EQ(again.match_steps.back().verdict, Verdict::kServed);
    EXPECT_EQ(again.match_steps.back().candidate, "What is in the middle?");
    EXPECT_EQ(again.prints.contents.size(), 1U);
  }
  EXPECT_EQ(f.talker.asked, 1);
  EXPECT_EQ(f.reuse->stats().answers.levels[0].served, 1U);
  EXPECT_EQ(f.reuse->stats().answers.levels[1].served, 1U);
}

TEST(Serve, AnythingThatChangesTheAnswerMisses) {
  AnswerFixture f;
  const Request asked = f.about(1, "What is in the middle?");
  static_cast<void>(f.get(asked));
  std::vector<Request> others(4, asked);
  others[0].messages.back().parts.front() = f.picture(2);
  others[1].messages.front().parts = {std::string("You look at paintings.")};
  others[2].tenant = TenantId("somebody else");
  others[3].messages.back().parts.back() = std::string("What is not in the middle?");
  for (const Request& other : others) EXPECT_FALSE(f.get(other).answered);
  f.options.max_tokens = TokenCount(2);
  EXPECT_FALSE(f.get(asked).answered) << "another length";
  EXPECT_EQ(f.talker.asked, 6);
}

TEST(Serve, ATruncatedAnswerIsReusedForTheSameWordsAndLimitOnly) {
  AnswerFixture f;
  f.talker.cut_short = true;
  const Served first = f.get(f.about(1, "What is in the middle?"));
  EXPECT_FALSE(first.answered);
  const Served again = f.get(f.about(1, "What is in the middle?"));
  EXPECT_TRUE(again.answered);
  EXPECT_FALSE(again.completion.ended);
  EXPECT_EQ(again.completion.text, first.completion.text);
  EXPECT_FALSE(f.get(f.about(1, "what is  in the middle")).answered) << "other words";
  f.options.max_tokens = TokenCount(2);
  EXPECT_FALSE(f.get(f.about(1, "What is in the middle?")).answered) << "another limit";
}

TEST(Serve, ARequestWithoutAQuestionIsComputed) {
  AnswerFixture f;
  Request request = f.conversation(1, 0);
  request.messages.push_back(says(Role::kAssistant, "It is"));
  for (int i = 0; i < 2; ++i) {
    const Served served = f.get(request);
    EXPECT_FALSE(served.answered);
    EXPECT_TRUE(served.match_steps.empty());
  }
}

// A caller that has looked the answer up already, as the gateway has, passes on an identity without a question.
TEST(Serve, AnIdentityWithoutAQuestionIsComputedEachTime) {
  AnswerFixture f;
  const Request request = f.about(1, "What is in the middle?");
  const Namespace space = f.reuse->space(f.talker.identity(), request.tenant).value();
  const RequestIdentity identity = identify_inputs(request, f.talker, space).value();
  for (int i = 0; i < 2; ++i) {
    const Served served = serve(identity, f.talker, *f.reuse, f.options).value();
    EXPECT_FALSE(served.answered);
    EXPECT_TRUE(served.match_steps.empty());
    EXPECT_EQ(served.sources.front(), i == 0 ? MediaSource::kEncoded : MediaSource::kCovered);
  }
  EXPECT_EQ(f.reuse->stats().answers.entries, EntryCount(0));
}

TEST(Serve, ConcurrentIdenticalQuestionsShareOneAnswer) {
  AnswerFixture f;
  std::vector<Served> got(6);
  {
    std::vector<std::jthread> threads;
    for (Served& one : got) {
      threads.emplace_back([&] { one = f.get(f.about(1, "What is in the middle?")); });
    }
  }
  EXPECT_EQ(f.talker.asked, 1);
  for (const Served& one : got) EXPECT_EQ(one.completion.text, got[0].completion.text);
  EXPECT_EQ(std::ranges::count(got, true, &Served::answered), 5);
}

TEST(Serve, PressureEvictsAnswersToo) {
  AnswerFixture f;
  static_cast<void>(f.get(f.about(1, "What is in the middle?")));
  ASSERT_EQ(f.reuse->stats().answers.entries, EntryCount(1));
  f.reuse = Reuse::create({.budget = 1_KiB, .answers = AnswerReuse{}}, Secret{}, f.clock).value();
  for (int i = 0; i < 40; ++i) {
    static_cast<void>(f.get(f.about(1, "What is at number " + std::to_string(i) + "?")));
  }
  EXPECT_LE(f.reuse->stats().peak, 1_KiB);
  EXPECT_GT(f.reuse->stats().answers.evictions, 0U);
}

}  // namespace
}  // namespace afterimage
