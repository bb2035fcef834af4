// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/answer_once.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "caches/answers/testing/questions.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::answer;
using testing::scope;

constexpr const char* kAsked = "What is the best way to see the dog?";
constexpr const char* kTyped = "what's the best way to see the dog";
constexpr const char* kWorded = "What is best way to see dogs?";
constexpr const char* kOther = "What is the best way to see the cat?";
constexpr LookupRules kAll{};
constexpr LookupRules kExactly{.serve = MatchLevel::kExact};

struct Fixture {
  explicit Fixture(Bytes capacity = 1_MiB)
      : budget(capacity),
        cache(AnswerCache::create({}, budget, clock).value()),
        front(*cache, clock) {}

  AnswerOnce::Claim claim(const std::string& text, const LookupRules& rules = {}) {
    Question question(scope(1), text);
    return front.claim(question, rules);
  }

  MemoryBudget budget;
  ManualClock clock;
  std::unique_ptr<AnswerCache> cache;
  AnswerOnce front;
};

template <typename T>
T take(AnswerOnce::Claim claim) {
  EXPECT_TRUE(std::holds_alternative<T>(claim));
  return std::get<T>(std::move(claim));
}

Result<AnswerOnce::Generated> generated(const std::string& text) {
  return AnswerOnce::Generated{.answer = answer(text), .facts = {}};
}

TEST(AnswerOnce, TheFirstRequestAsksAndTheNextHits) {
  Fixture f;
  int asked = 0;
  const auto generate = [&] {
    ++asked;
    f.clock.advance(300ms);
    return generated("so");
  };
  for (const char* text : {kAsked, kAsked, kTyped, kWorded}) {
    Question question(scope(1), text);
    const auto got = f.front.get_or_answer(question, kAll, generate);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->answer->text, "so");
  }
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(f.cache->stats().answer_time_saved, 900ms) << "measured, not guessed";
  EXPECT_EQ(f.front.stats().led, 1U);
}

TEST(AnswerOnce, AConcurrentEqualRequestWaitsAndIsServed) {
  for (const char* text : {kAsked, kTyped, kWorded}) {
    Fixture f;
    AnswerLeader leader = take<AnswerLeader>(f.claim(kAsked));
    AnswerWaiter waiter = take<AnswerWaiter>(f.claim(text));
    EXPECT_TRUE(std::move(leader).publish(answer("so"), {.cost = 2s}).value());
    auto waited = std::move(waiter).wait();
    ASSERT_TRUE(waited.has_value());
    const auto& joined = std::get<AnswerLookup>(*waited);
    EXPECT_EQ(joined.answer->text, "so");
    EXPECT_EQ(joined.saved, 2s);
    EXPECT_EQ(joined.steps.back().verdict, Verdict::kJoined);
    EXPECT_EQ(joined.steps.back().candidate, kAsked);
    EXPECT_TRUE(joined.avoided_work());
    EXPECT_EQ(f.front.stats().joined, 1U);
    EXPECT_EQ(f.cache->stats().levels[0].served, 0U) << "not counted twice";
  }
}

TEST(AnswerOnce, DoesNotWaitAcrossQuestionsScopesOrDisallowedLevels) {
  Fixture f;
  AnswerLeader leader = take<AnswerLeader>(f.claim(kAsked));
  AnswerLeader other = take<AnswerLeader>(f.claim(kOther));
  Question elsewhere(scope(2), kAsked);
  AnswerLeader in_another = take<AnswerLeader>(f.front.claim(elsewhere));
  AnswerLeader exactly = take<AnswerLeader>(f.claim(kTyped, kExactly));
}

TEST(AnswerOnce, ADroppedLeaderPassesTheLeadToAWaiter) {
  Fixture f;
  auto leader = std::make_unique<AnswerLeader>(take<AnswerLeader>(f.claim(kAsked)));
  AnswerWaiter first = take<AnswerWaiter>(f.claim(kAsked));
  AnswerWaiter second = take<AnswerWaiter>(f.claim(kAsked));
  leader.reset();
  auto taken = std::move(first).wait();
  AnswerLeader successor = std::get<AnswerLeader>(*std::move(taken));
  EXPECT_TRUE(std::move(successor).publish(answer("so"), {}).value());
  auto waited = std::move(second).wait();
  EXPECT_EQ(std::get<AnswerLookup>(*waited).answer->text, "so");
  EXPECT_EQ(f.front.stats().taken_over, 1U);
}

TEST(AnswerOnce, AFlightWithoutWaitersEndsWithItsLeader) {
  Fixture f;
  {
    AnswerLeader leader = take<AnswerLeader>(f.claim(kAsked));
  }
  {
    AnswerLeader leader = take<AnswerLeader>(f.claim(kAsked));
    {
      AnswerWaiter waiter = take<AnswerWaiter>(f.claim(kAsked));
    }
  }
  {
    auto leader = std::make_unique<AnswerLeader>(take<AnswerLeader>(f.claim(kAsked)));
    AnswerWaiter waiter = take<AnswerWaiter>(f.claim(kAsked));
    leader.reset();
  }
  AnswerLeader leader = take<AnswerLeader>(f.claim(kAsked));
}

TEST(AnswerOnce, ANewRequestTakesOverAnOrphanedFlight) {
  Fixture f;
  auto leader = std::make_unique<AnswerLeader>(take<AnswerLeader>(f.claim(kAsked)));
  AnswerWaiter waiter = take<AnswerWaiter>(f.claim(kAsked));
  leader.reset();
  AnswerLeader newcomer = take<AnswerLeader>(f.claim(kAsked));
  EXPECT_TRUE(std::move(newcomer).publish(answer("so"), {}).value());
  auto waited = std::move(waiter).wait();
  EXPECT_EQ(std::get<AnswerLookup>(*waited).answer->text, "so");
}

// The request that took over has a near wording; a waiter that allows only exact matches is not
// served.
TEST(AnswerOnce, AnAnswerToAnotherWordingServesOnlyWaitersThatAllowIt) {
  Fixture f;
  auto leader = std::make_unique<AnswerLeader>(take<AnswerLeader>(f.claim(kAsked)));
  AnswerWaiter strict = take<AnswerWaiter>(f.claim(kAsked, kExactly));
  AnswerWaiter loose = take<AnswerWaiter>(f.claim(kAsked));
  AnswerWaiter near = take<AnswerWaiter>(f.claim(kWorded));
  leader.reset();
  auto taken = std::move(near).wait();
  EXPECT_TRUE(std::get<AnswerLeader>(*std::move(taken)).publish(answer("so"), {}).value());
  EXPECT_FALSE(std::get<AnswerLookup>(*std::move(strict).wait()).answer.has_value());
  const auto served = std::get<AnswerLookup>(*std::move(loose).wait());
  EXPECT_EQ(served.answer->text, "so");
  EXPECT_EQ(served.steps.back().level, MatchLevel::kNear);
  EXPECT_EQ(served.steps.back().candidate, kWorded);
}

TEST(AnswerOnce, PermanentErrorsFailAllWaiters) {
  Fixture f;
  const struct {
    ErrorCode code;
    bool everybodys;
  } kCases[] = {{ErrorCode::kInvalidArgument, true},
                {ErrorCode::kUnsupported, true},
                {ErrorCode::kUnavailable, false},
                {ErrorCode::kCancelled, false},
                {ErrorCode::kNoSpace, false}};
  for (const auto& c : kCases) {
    AnswerLeader leader = take<AnswerLeader>(f.claim(kAsked));
    AnswerWaiter waiter = take<AnswerWaiter>(f.claim(kAsked));
    std::move(leader).fail({.code = c.code, .message = "no"});
    auto waited = std::move(waiter).wait();
    EXPECT_EQ(waited.has_value(), !c.everybodys) << to_string(c.code);
    if (!waited.has_value()) {
      EXPECT_EQ(waited.error().code, c.code);
    }
  }
}

TEST(AnswerOnce, ACancelledRequestStopsWaiting) {
  Fixture f;
  AnswerLeader leader = take<AnswerLeader>(f.claim(kAsked));
  AnswerWaiter waiter = take<AnswerWaiter>(f.claim(kAsked));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(std::move(waiter).wait(stop.get_token()).error().code, ErrorCode::kCancelled);
}

TEST(AnswerOnce, SharesAnAnswerThatDoesNotFitTheCache) {
  Fixture f(256_B);
  AnswerLeader leader = take<AnswerLeader>(f.claim(kAsked));
  AnswerWaiter waiter = take<AnswerWaiter>(f.claim(kAsked));
  const std::string large(1000, 'x');
  EXPECT_FALSE(std::move(leader).publish(answer(large), {}).value());
  EXPECT_EQ(std::get<AnswerLookup>(*std::move(waiter).wait()).answer->text, large);
  EXPECT_EQ(f.front.stats().not_cached, 1U);
  AnswerLeader again = take<AnswerLeader>(f.claim(kAsked));
}

TEST(AnswerOnce, AnInsertThatRejectsTheAnswerPassesTheLeadToAWaiter) {
  Fixture f;
  AnswerLeader leader = take<AnswerLeader>(f.claim(kAsked));
  AnswerWaiter waiter = take<AnswerWaiter>(f.claim(kAsked));
  const auto reject = [](Question& question) -> Result<void> {
    return fail(ErrorCode::kCancelled, "invalidated meanwhile: " + question.text());
  };
  const auto published = std::move(leader).publish(answer("so"), {}, reject);
  ASSERT_FALSE(published.has_value());
  EXPECT_EQ(published.error().message, std::string("invalidated meanwhile: ") + kAsked);
  auto waited = std::move(waiter).wait();
  EXPECT_TRUE(std::holds_alternative<AnswerLeader>(*waited));
  EXPECT_EQ(f.cache->stats().insertions, 0U);
}

TEST(AnswerOnce, NeitherCachesNorSharesAnIncompleteAnswer) {
  Fixture f;
  Answer cut = answer("half an");
  cut.finish_reason = "length";
  AnswerLeader leader = take<AnswerLeader>(f.claim(kAsked));
  AnswerWaiter waiter = take<AnswerWaiter>(f.claim(kAsked));
  EXPECT_EQ(std::move(leader).publish(cut, {}).error().code, ErrorCode::kInvalidArgument);
  auto waited = std::move(waiter).wait();
  EXPECT_TRUE(std::holds_alternative<AnswerLeader>(*waited));
  EXPECT_EQ(f.cache->stats().insertions, 0U);
}

TEST(AnswerOnce, APartialAnswerIsSharedWithItsOwnWordsOnly) {
  Fixture f;
  Answer cut = answer("half an");
  cut.finish_reason = "length";
  AnswerLeader lead = take<AnswerLeader>(f.claim(kAsked));
  AnswerWaiter same = take<AnswerWaiter>(f.claim(kAsked));
  AnswerWaiter alike = take<AnswerWaiter>(f.claim(kTyped));
  EXPECT_TRUE(std::move(lead).publish(cut, {.keep_partial = true}).value());
  EXPECT_EQ(std::get<AnswerLookup>(*std::move(same).wait()).answer, cut);
  EXPECT_FALSE(std::get<AnswerLookup>(*std::move(alike).wait()).answer.has_value());
}

TEST(AnswerOnce, ReturnsAnIncompleteAnswerToItsOwnCaller) {
  Fixture f;
  Question question(scope(1), kAsked);
  const auto got = f.front.get_or_answer(question, kAll, [] {
    auto cut = generated("half an");
    cut->answer.finish_reason = "length";
    return cut;
  });
  EXPECT_EQ(got->answer->text, "half an");
  EXPECT_FALSE(got->avoided_work());
  AnswerLeader again = take<AnswerLeader>(f.claim(kAsked));
}

/// A clock that runs a callback at its n-th reading.
class EventfulClock final : public Clock {
 public:
  [[nodiscard]] Duration now() const override {
    if (countdown_ > 0 && --countdown_ == 0) event_();
    return Duration(0);
  }
  void arm(int reading, std::function<void()> event) {
    event_ = std::move(event);
    countdown_ = reading;
  }

 private:
  mutable int countdown_ = 0;
  std::function<void()> event_;
};

TEST(AnswerOnce, FindsAnAnswerCachedBetweenLookUpAndLock) {
  MemoryBudget budget(1_MiB);
  EventfulClock clock;
  const auto cache = AnswerCache::create({}, budget, clock).value();
  AnswerOnce front(*cache, clock);
  Question question(scope(1), kAsked);
  AnswerLeader leader = take<AnswerLeader>(front.claim(question));
  // Each match level reads the clock three times; after the ninth reading the cache is not looked up
  // again.
  clock.arm(9, [&] { EXPECT_TRUE(std::move(leader).publish(answer("so"), {}).value()); });
  EXPECT_EQ(take<AnswerLookup>(front.claim(question)).answer->text, "so");
  EXPECT_EQ(front.stats().led, 1U);
}

TEST(AnswerOnce, DoesNotWaitForNearMatchesAboutMedia) {
  Fixture f;
  ScopeId pictured = scope(1);
  pictured.loosest = MatchLevel::kCanonical;
  Question asked(pictured, kAsked);
  Question typed(pictured, kTyped);
  Question worded(pictured, kWorded);
  const AnswerLeader leader = take<AnswerLeader>(f.front.claim(asked, kAll));
  const AnswerWaiter waits = take<AnswerWaiter>(f.front.claim(typed, kAll));
  const AnswerLeader asks_too = take<AnswerLeader>(f.front.claim(worded, kAll));
}

TEST(AnswerOnce, ManyThreadsAskOnce) {
  Fixture f;
  std::atomic<int> asked = 0;
  std::atomic<int> served = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        Question question(scope(1), t % 2 == 0 ? kAsked : kTyped);
        const auto got = f.front.get_or_answer(question, kAll, [&] {
          ++asked;
          while (f.front.stats().followed < 7) std::this_thread::yield();
          return generated("so");
        });
        if (got.has_value() && got->answer->text == "so") ++served;
      });
    }
  }
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(served, 8);
}

TEST(AnswerOnce, ManyThreadsRetryUntilOneSucceeds) {
  Fixture f;
  std::atomic<int> asked = 0;
  std::atomic<int> served = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        Question question(scope(1), kAsked);
        const auto got =
            f.front.get_or_answer(question, kAll, [&]() -> Result<AnswerOnce::Generated> {
              if (++asked <= 3) return fail(ErrorCode::kUnavailable, "again");
              return generated("so");
            });
        if (got.has_value()) ++served;
      });
    }
  }
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(served, 5);
}

}  // namespace
}  // namespace afterimage
