// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Processes that share a tier: what one prefills, the others wait for.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "afterimage/serve.h"
#include "afterimage/tier.h"
#include "caches/prefix/prefix_archive.h"
#include "engines/reference/reference_engine.h"
#include "testing/forwarding_engine.h"
#include "testing/leases_in_memory.h"
#include "testing/media_files.h"
#include "testing/remembering_tier.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

using testing::LeasesInMemory;

/// Tells when it prefills, before and after, and what it prefilled.
class Watched final : public testing::ForwardingEngine {
 public:
  explicit Watched(const Engine& good) : ForwardingEngine(good) {}

  std::function<Result<void>()> before = [] { return Result<void>(); };
  std::function<void()> after = [] {};

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    AFI_TRY_VOID(before());
    KvUse watched = use;
    watched.on_captured = [&](KvSlice kv) {
      use.on_captured(std::move(kv));
      after();
    };
    return ForwardingEngine::run(prompt, embeddings, options, watched);
  }
};

class SharedServe : public ::testing::Test {
 public:
  struct Process {
    explicit Process(SharedServe& its_world, bool weigh_loads = false)
        : world(its_world),
          engine(*its_world.engine),
          tier(its_world.tier),
          reuse(Reuse::create({.tier = &tier, .weigh_loads = weigh_loads, .leases = &world.turns},
                              Secret{}, world.clock)
                    .value()) {}
    [[nodiscard]] Result<Served> serve(const Request& request, std::stop_token stop = {}) const {
      return afterimage::serve(request, engine, *reuse, world.options, stop);
    }
    /// The same, and nothing but that, whatever was reused.
    [[nodiscard]] Served ask(const Request& request) const {
      auto served = serve(request);
      EXPECT_TRUE(served.has_value());
      const Served cold =
          serve_without_reuse(request, *world.engine, world.clock, world.options).value();
      EXPECT_EQ(served->completion.logits, cold.completion.logits);
      return *std::move(served);
    }
    SharedServe& world;
    Watched engine;
    testing::RememberingTier tier;
    std::unique_ptr<Reuse> reuse;
  };

  /// A long document, a picture, and a question.
  static Request about(const std::string& question, std::size_t words = 60) {
    std::string document;
    for (std::size_t i = 0; i < words; ++i) document += "word" + std::to_string(i) + " ";
    Request request{.id = RequestId("r"), .tenant = TenantId("")};
    request.messages.push_back({.role = Role::kSystem, .parts = {document}});
    request.messages.push_back(
        {.role = Role::kUser,
         .parts = {testing::media_item(Modality::kImage,
                                       testing::make_png(testing::make_picture(40, 30, 1))),
                   question}});
    return request;
  }

  SystemClock clock;
  std::unique_ptr<ReferenceEngine> engine = testing::tiny_engine(clock);
  GenerateOptions options{.max_tokens = TokenCount(3)};
  MemoryBudget budget{256_MiB};
  HostTier tier{budget};
  LeasesInMemory turns;
  Process one{*this};
  Process other{*this};
};

/// A request that has the turn, and prefills until the test ends that; 20 s at most.
class Prefilling {
 public:
  Prefilling(SharedServe::Process& process, Request request) {
    process.engine.before = [this] {
      began_ = true;  // and has encoded what there was
      wait_until([this] { return ends_.load(); });
      return outcome_;
    };
    thread_ = std::jthread(
        [this, &process, request = std::move(request)] { served_ = process.serve(request); });
    wait_until([this] { return began_.load(); });
  }
  ~Prefilling() { ends_ = true; }
  Prefilling(const Prefilling&) = delete;
  Prefilling& operator=(const Prefilling&) = delete;

  /// Returns when it has served, so that another process finds all of its KV or none. The first time
  /// counts.
  void end(Result<void> outcome = {}) {
    if (ends_) return;
    outcome_ = std::move(outcome);
    ends_ = true;
    thread_.join();
  }
  Result<Served> served() {
    end();
    return served_;
  }

 private:
  static void wait_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 20'000 && !condition(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::atomic<bool> began_ = false;
  std::atomic<bool> ends_ = false;
  Result<void> outcome_;
  Result<Served> served_ = fail(ErrorCode::kUnavailable, "not asked");
  std::jthread thread_;
};

TEST_F(SharedServe, WaitsForAnotherProcessAndLoadsItsKv) {
  Prefilling first(one, about("What is it?"));
  turns.meanwhile = [&](std::uint32_t attempt) {
    if (attempt == 3) first.end();
  };
  const Served second = other.ask(about("What is it?"));
  EXPECT_EQ(second.completion.prefilled, TokenCount(1));
  EXPECT_EQ(second.encoder_calls, 0U);
  EXPECT_GT(turns.waits, 3);
  EXPECT_EQ(turns.held(), 0U);
}

TEST_F(SharedServe, PromptsWithACommonPrefixShareOneLease) {
  Prefilling first(one, about("What is it?"));
  turns.meanwhile = [&](std::uint32_t) { first.end(); };
  std::size_t held = 1;
  other.engine.before = [&] {
    // The first request releases its lease shortly after its KV can be found.
    for (int i = 0; i < 5'000 && turns.held() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    held = turns.held();
    return Result<void>();
  };
  const Served second = other.ask(about("How many are there, and of which colour?"));
  EXPECT_EQ(held, 0U) << "nobody waits for what it computes by itself";
  EXPECT_GE(second.completion.resumed_from, PrefixArchive::kBlock);
  EXPECT_EQ(second.encoder_calls, 0U) << "the picture stands before where they part";
  EXPECT_LT(second.completion.prefilled.value(),
            first.served().value().completion.prefilled.value() / 4);
}

TEST_F(SharedServe, ReleasesTheLeaseBeforeTheAnswerEnds) {
  std::size_t while_prefilling = 0;
  std::size_t while_decoding = 1;
  one.engine.before = [&] {
    while_prefilling = turns.held();
    return Result<void>();
  };
  one.engine.after = [&] { while_decoding = turns.held(); };
  static_cast<void>(one.ask(about("What is it?")));
  EXPECT_EQ(while_prefilling, 1U);
  EXPECT_EQ(while_decoding, 0U);
}

// What is put last is what others wait for: all of it can be found by then.
TEST_F(SharedServe, TheWholePromptIsStoredBeforeTheLeaseIsReleased) {
  bool found = false;
  turns.before_giving_back = [&](const TierKey& last) { found = tier.may_contain(last); };
  static_cast<void>(one.ask(about("What is it?")));
  EXPECT_TRUE(found);
}

TEST_F(SharedServe, TakesOverFromAProcessThatDied) {
  Prefilling first(one, about("What is it?"));
  turns.meanwhile = [&](std::uint32_t attempt) {
    if (attempt == 2) turns.expire();
  };
  EXPECT_EQ(other.ask(about("What is it?")).completion.resumed_from, TokenCount(0));
  EXPECT_TRUE(first.served().has_value()) << "and who comes back late does no harm";
}

TEST_F(SharedServe, AFailedProcessHandsThePrefillOn) {
  Prefilling first(one, about("What is it?"));
  turns.meanwhile = [&](std::uint32_t) {
    first.end(fail(ErrorCode::kUnavailable, "the device went away"));
  };
  EXPECT_EQ(other.ask(about("What is it?")).completion.resumed_from, TokenCount(0));
  EXPECT_EQ(turns.held(), 0U);
}

TEST_F(SharedServe, DoesNotWaitWithoutALeaseService) {
  turns.lost = true;
  EXPECT_EQ(one.ask(about("What is it?")).completion.resumed_from, TokenCount(0));
  EXPECT_EQ(turns.waits, 0);
  EXPECT_EQ(one.tier.forgotten(), 0U) << "nor is anything looked for again";
}

TEST_F(SharedServe, PrefillsItselfAfterTheLongestWait) {
  const Prefilling first(one, about("What is it?"));
  turns.timeout = 5;
  EXPECT_EQ(other.ask(about("What is it?")).completion.resumed_from, TokenCount(0));
  EXPECT_EQ(turns.waits, 6);
}

TEST_F(SharedServe, NeverWaitsMuchLongerThanComputingTakes) {
  const Process third(*this, true);
  Request long_one = about("What is it?");
  long_one.messages.front().parts = {"Another document. " + std::string(600, 'x')};
  static_cast<void>(third.ask(about("What is it?")));  // teaches how long that is
  turns.waits = 0;
  turns.timeout = 1'000'000'000;
  const Prefilling first(one, long_one);
  EXPECT_EQ(third.ask(long_one).completion.resumed_from, TokenCount(0));
  EXPECT_GT(turns.waits, 0);
}

TEST_F(SharedServe, ACancelledRequestStopsWaiting) {
  Request words_alone = about("What is it?");
  words_alone.messages.pop_back();
  const Prefilling first(one, words_alone);
  std::stop_source stop;
  turns.meanwhile = [&](std::uint32_t) { stop.request_stop(); };
  const auto served = other.serve(words_alone, stop.get_token());
  ASSERT_FALSE(served.has_value());
  EXPECT_EQ(served.error().code, ErrorCode::kCancelled);
}

TEST_F(SharedServe, AShortPrefillTakesNoLease) {
  static_cast<void>(one.ask(about("What?", 1)));
  EXPECT_EQ(turns.claims, 1) << "of the picture: there is no whole block that could name a turn";
  static_cast<void>(one.ask(about("What is it?")));
  const int claims = turns.claims;
  static_cast<void>(one.ask(about("What is it?")));
  EXPECT_EQ(turns.claims, claims) << "one token";
}

TEST_F(SharedServe, FindsWhatWasStoredBetweenLookUpAndClaim) {
  std::atomic<bool> asked = false;
  turns.before_claim = [&] {
    if (!asked.exchange(true)) static_cast<void>(one.ask(about("What is it?")));
  };
  EXPECT_EQ(other.ask(about("What is it?")).completion.prefilled, TokenCount(1));
  EXPECT_EQ(turns.held(), 0U) << "and the turn is nobody's";
}

TEST_F(SharedServe, ManyProcessesThatNeedEachOthersPrefixesAllEnd) {
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<Served> alone;
  const std::array<Request, 3> requests = {about("One?"), about("Two, and what else?"),
                                           about("Three?", 90)};
  for (const Request& request : requests) {
    alone.push_back(serve_without_reuse(request, *engine, clock, options).value());
  }
  for (int i = 0; i < 3; ++i) processes.push_back(std::make_unique<Process>(*this));
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (std::size_t p = 0; p < processes.size(); ++p) {
    for (std::size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, p, t] {
        for (std::size_t i = 0; i < requests.size(); ++i) {
          const std::size_t n = (p + t + i) % requests.size();
          const auto served = processes[p]->serve(requests[n]);
          wrong +=
              served.has_value() && served->completion.logits == alone[n].completion.logits ? 0 : 1;
        }
      });
    }
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(turns.held(), 0U);
}

}  // namespace
}  // namespace afterimage
