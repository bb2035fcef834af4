// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/prefill_once.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "caches/prefix/testing/kv_world.h"
#include "foundation/platform/random.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace testing;  // NOLINT: the fixtures of these tests

const KvLayout kWithState{{full(), recurrent()}};

TEST(PrefillOnce, ADamagedHitIsAMissAndIsRemoved) {
  CacheFixture f;
  PrefillOnce front(*f.cache);
  const Sequence prompt = text_of(300);
  const Capture capture(space(1), kWithState, prompt, 300, 0, {100, 299});
  ASSERT_TRUE(front.cache().insert(space(1), kWithState, prompt, capture.kv).has_value());
  {
    const PrefixMatch match = front.match(space(1), prompt).value();
    ASSERT_EQ(match.resume(), TokenCount(299));
    const auto state = front.cache().kv(match).snapshots[0].groups[1][0].bytes;
    const_cast<std::byte&>(state[0]) ^= std::byte{1};  // NOLINT: simulates a stray write
  }
  EXPECT_FALSE(front.match(space(1), prompt)->holds());
  EXPECT_EQ(front.cache().stats().damaged, 1U);
  EXPECT_EQ(f.budget.used(), 0_B);
  front.cache().check_invariants();
}

TEST(PrefillOnce, ThreadsSeeOnlyCompleteCorrectKvWhileOthersInsertAndEvict) {
  CacheFixture f(40_KiB);
  {
    PrefillOnce front(*f.cache);
    std::atomic<int> wrong{0};
    std::atomic<int> hits{0};
    const auto work = [&](std::uint64_t seed) {
      Rng rng(seed);
      for (int i = 0; i < 300; ++i) {
        const auto shared_part = static_cast<std::uint32_t>(1 + rng.below(600));
        const Sequence prompt =
            text_of(shared_part) + text({static_cast<int>(rng.below(3)), 7, 8, 9});
        const auto match = front.match(space(1), prompt);
        if (!match.has_value()) ++wrong;
        if (match.has_value() && match->holds()) {
          ++hits;
          if (!is_kv_of(front.cache().kv(*match), space(1), kWithState, prompt)) ++wrong;
        }
        const std::uint32_t size = shared_part + 3;
        const Capture capture(space(1), kWithState, prompt, size, 0, {shared_part, size});
        const auto stored = front.cache().insert(space(1), kWithState, prompt, capture.kv);
        if (!stored.has_value() && stored.error().code != ErrorCode::kNoSpace) ++wrong;
        if (i % 50 == 49) front.cache().evict_bytes(4_KiB);
      }
    };
    std::jthread one(work, 1);
    std::jthread two(work, 2);
    one.join();
    two.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(hits, 0);
    front.cache().check_invariants();
    front.cache().clear();
  }
  EXPECT_EQ(f.budget.used(), 0_B);
}

/// Spins until `ready`; a test that hangs here is ended by its timeout.
template <typename Ready>
void wait_until(const Ready& ready) {
  while (!ready()) std::this_thread::yield();
}

template <typename T>
T take(Result<PrefillOnce::Claim> claim) {
  EXPECT_TRUE(claim.has_value());
  EXPECT_TRUE(std::holds_alternative<T>(*claim));
  return std::get<T>(*std::move(claim));
}

/// The longest prefix that splits no media item.
Sequence start_of(const Sequence& prompt, std::size_t length) {
  Sequence start;
  for (const MediaSpan& span : prompt.spans) {
    if (span.end().value() <= length) {
      start.spans.push_back(span);
    } else if (span.offset.value() < length) {
      length = span.offset.value();
    }
  }
  start.tokens.assign(prompt.tokens.begin(), prompt.tokens.begin() + std::ptrdiff_t(length));
  return start;
}

/// Requests whose KV is a function of the prompt.
struct FlightFixture : CacheFixture {
  explicit FlightFixture(Bytes capacity = 1_MiB, KvLayout of = KvLayout{{full()}})
      : CacheFixture(capacity), layout(std::move(of)) {}

  [[nodiscard]] PrefillRequest ask(const Sequence& prompt, unsigned tenant = 1) const {
    return {.space = space(tenant), .layout = &layout, .prompt = &prompt};
  }
  /// Commits what an engine would compute for `leader`.
  Result<PrefixInsertion> commit(PrefillLeader& leader, const Sequence& prompt) const {
    std::vector<std::uint32_t> snapshots;
    for (const TokenCount at : leader.snapshots()) snapshots.push_back(at.value());
    const auto size = static_cast<std::uint32_t>(prompt.tokens.size());
    const Capture capture(space(1), layout, prompt, size, leader.match().resume().value(),
                          snapshots);
    return leader.commit(capture.kv);
  }

  KvLayout layout;
  PrefillOnce front{*cache};
};

TEST(PrefillOnce, AWaiterFindsThePromisedPrefix) {
  FlightFixture f;
  const Sequence prompt = text_of(300);
  const Sequence longer = prompt + text({1, 2, 3});
  PrefillLeader leader = take<PrefillLeader>(f.front.claim(f.ask(prompt)));
  PrefillWaiter waiter = take<PrefillWaiter>(f.front.claim(f.ask(longer)));
  EXPECT_EQ(waiter.promised(), TokenCount(300));
  ASSERT_TRUE(f.commit(leader, prompt).has_value());
  EXPECT_FALSE(std::move(waiter).wait().value()) << "committed: lead";
  const PrefillLeader next = f.front.lead(f.ask(longer)).value();
  EXPECT_EQ(next.match().resume(), TokenCount(300));
  EXPECT_EQ(f.front.cache().stats().misses, 1U) << "a waiter is counted once";
}

TEST(PrefillOnce, WaitsOnlyForLongEnoughPrefixes) {
  FlightFixture f;
  const Sequence prompt = text_of(100);
  const PrefillLeader leader = take<PrefillLeader>(f.front.claim(f.ask(prompt)));
  const struct {
    const char* name;
    Sequence asked;
    bool waits;
  } kCases[] = {
      {"the same", prompt, true},
      {"exactly the minimum", text_of(33), true},
      {"one less", text_of(32), false},
      {"half of it", prompt + text_of(100, 5), true},
      {"less than half of it", prompt + text_of(101, 5), false},
      {"nothing", text_of(100, 5), false},
  };
  for (const auto& c : kCases) {
    const auto claim = f.front.claim(f.ask(c.asked));
    EXPECT_EQ(std::holds_alternative<PrefillWaiter>(*claim), c.waits) << c.name;
  }
}

TEST(PrefillOnce, DoesNotWaitForCachedTokens) {
  FlightFixture f;
  const Sequence prompt = text_of(300);
  const Sequence longer = prompt + text_of(50, 5);
  {
    PrefillLeader first = f.front.lead(f.ask(prompt)).value();
    ASSERT_TRUE(f.commit(first, prompt).has_value());
  }
  const PrefillLeader leader = take<PrefillLeader>(f.front.claim(f.ask(longer)));
  EXPECT_EQ(leader.match().resume(), TokenCount(300));
  const PrefillLeader other = take<PrefillLeader>(f.front.claim(f.ask(prompt)));
  EXPECT_EQ(other.match().resume(), TokenCount(299));
  const Sequence a_little_more = start_of(longer, 312);
  const PrefillLeader computes = take<PrefillLeader>(f.front.claim(f.ask(a_little_more)));
  EXPECT_EQ(computes.match().resume(), TokenCount(300)) << "eleven tokens are too few to wait for";
  const PrefillWaiter same = take<PrefillWaiter>(f.front.claim(f.ask(longer)));
  EXPECT_EQ(same.promised(), TokenCount(349));
}

TEST(PrefillOnce, TenantsNeverWaitForEachOther) {
  FlightFixture f;
  const Sequence prompt = text_of(300);
  const PrefillLeader one = take<PrefillLeader>(f.front.claim(f.ask(prompt, 1)));
  const PrefillLeader two = take<PrefillLeader>(f.front.claim(f.ask(prompt, 2)));
  EXPECT_EQ(f.front.stats().followed, 0U);
}

TEST(PrefillOnce, DoesNotWaitForOtherMedia) {
  FlightFixture f;
  const Sequence prompt = with_media(text({1, 2}), picture(1), 100) + text_of(10);
  const PrefillLeader leader = take<PrefillLeader>(f.front.claim(f.ask(prompt)));
  const Sequence other = with_media(text({1, 2}), picture(2), 100) + text_of(10);
  const PrefillLeader free = take<PrefillLeader>(f.front.claim(f.ask(other)));
  const Sequence placeholders{.tokens = prompt.tokens, .spans = {}};
  const PrefillLeader also = take<PrefillLeader>(f.front.claim(f.ask(placeholders)));
  const PrefillWaiter same = take<PrefillWaiter>(f.front.claim(f.ask(prompt)));
}

TEST(PrefillOnce, OneWaiterTakesOverWhenTheLeaderIsDropped) {
  constexpr unsigned kCallers = 5;
  FlightFixture f;
  const Sequence prompt = text_of(300);
  auto leader = std::make_optional(take<PrefillLeader>(f.front.claim(f.ask(prompt))));
  std::atomic<unsigned> prefilled{0};
  std::vector<std::jthread> callers;
  for (unsigned t = 0; t < kCallers; ++t) {
    callers.emplace_back([&] {
      auto led = f.front.wait_and_lead(f.ask(prompt));
      ASSERT_TRUE(led.has_value());
      if (led->match().resume() > TokenCount(0)) return;
      ++prefilled;
      wait_until([&] { return f.front.stats().followed == 2 * kCallers - 1; });
      EXPECT_TRUE(f.commit(*led, prompt).has_value());
    });
  }
  wait_until([&] { return f.front.stats().followed == kCallers; });
  leader.reset();  // cancelled: neither committed nor failed
  callers.clear();
  EXPECT_EQ(prefilled, 1U);
  EXPECT_EQ(f.front.stats().left, 1U);
}

// A series of requests that each fail after ten seconds must not make the last wait for minutes.
TEST(PrefillOnce, NoWaiterWaitsAgainAfterTheLeaderFails) {
  constexpr unsigned kCallers = 4;
  FlightFixture f;
  const Sequence prompt = text_of(300);
  PrefillLeader leader = take<PrefillLeader>(f.front.claim(f.ask(prompt)));
  std::atomic<unsigned> at_once{0};
  std::vector<std::jthread> callers;
  for (unsigned t = 0; t < kCallers; ++t) {
    callers.emplace_back([&] {
      auto led = f.front.wait_and_lead(f.ask(prompt));
      ASSERT_TRUE(led.has_value());
      ++at_once;
      wait_until([&] { return at_once == kCallers; });
      led->fail();
    });
  }
  wait_until([&] { return f.front.stats().followed == kCallers; });
  leader.fail();
  callers.clear();
  EXPECT_EQ(f.front.stats().followed, kCallers);
}

TEST(PrefillOnce, WaitsOnceForKvThatDoesNotFit) {
  FlightFixture f(64_B);
  const Sequence prompt = text_of(300);
  PrefillLeader leader = take<PrefillLeader>(f.front.claim(f.ask(prompt)));
  PrefillWaiter waiter = take<PrefillWaiter>(f.front.claim(f.ask(prompt)));
  EXPECT_EQ(f.commit(leader, prompt).error().code, ErrorCode::kNoSpace);
  EXPECT_FALSE(std::move(waiter).wait().value());
  EXPECT_EQ(f.front.lead(f.ask(prompt))->match().resume(), TokenCount(0));
}

TEST(PrefillOnce, WaitingEndsWhenTheRequestIsCancelled) {
  FlightFixture f;
  const Sequence prompt = text_of(300);
  const PrefillLeader leader = take<PrefillLeader>(f.front.claim(f.ask(prompt)));
  std::stop_source stop;
  std::jthread waiting([&] {
    const auto led = f.front.wait_and_lead(f.ask(prompt), stop.get_token());
    ASSERT_FALSE(led.has_value());
    EXPECT_EQ(led.error().code, ErrorCode::kCancelled);
  });
  wait_until([&] { return f.front.stats().followed == 1; });
  stop.request_stop();
  waiting.join();
}

// Nothing marks the end of a system prompt. The first prompt that diverges from one in flight takes
// a snapshot there, and later requests wait for that.
TEST(PrefillOnce, TakesASnapshotWhereAPromptDivergesFromOneInFlight) {
  FlightFixture f(1_MiB, kWithState);
  const Sequence system = text_of(300);
  const Sequence a = system + text_of(40, 5);
  const Sequence b = system + text_of(40, 6);
  const Sequence c = system + text_of(40, 7);
  PrefillLeader first = take<PrefillLeader>(f.front.claim(f.ask(a)));
  EXPECT_EQ(first.snapshots(), (std::vector{TokenCount(339)}));
  PrefillLeader second = take<PrefillLeader>(f.front.claim(f.ask(b)));
  EXPECT_EQ(second.snapshots(), (std::vector{TokenCount(300), TokenCount(339)}));
  PrefillWaiter third = take<PrefillWaiter>(f.front.claim(f.ask(c)));
  EXPECT_EQ(third.promised(), TokenCount(300));
  ASSERT_TRUE(f.commit(second, b).has_value());
  EXPECT_FALSE(std::move(third).wait().value());
  EXPECT_EQ(f.front.lead(f.ask(c))->match().resume(), TokenCount(300));
}

TEST(PrefillOnce, ALeaderThatStartsOverKeepsItsPromise) {
  FlightFixture f(1_MiB, kWithState);
  const Sequence start = with_media(text_of(50), picture(1), 10) + text_of(40, 2);
  const Sequence prompt = start + text_of(100, 5);
  {
    PrefillLeader first = f.front.lead(f.ask(start)).value();
    ASSERT_TRUE(f.commit(first, start).has_value());
  }
  PrefillLeader leader = take<PrefillLeader>(f.front.claim(f.ask(prompt)));
  ASSERT_EQ(leader.match().resume(), TokenCount(99));
  EXPECT_EQ(leader.snapshots(), (std::vector{TokenCount(100), TokenCount(199)}));
  const PrefillWaiter waiter = take<PrefillWaiter>(f.front.claim(f.ask(prompt)));
  leader.start_over();
  EXPECT_EQ(leader.match().resume(), TokenCount(0));
  EXPECT_EQ(leader.snapshots(), (std::vector{TokenCount(60), TokenCount(100), TokenCount(199)}));
  ASSERT_TRUE(f.commit(leader, prompt).has_value());
  EXPECT_GE(f.front.lead(f.ask(prompt))->match().resume(), waiter.promised());
}

Sequence random_prompt(Rng& rng) {
  Sequence prompt;
  for (std::uint64_t parts = 1 + rng.below(4); parts > 0; --parts) {
    if (rng.chance(0.5)) {
      prompt = with_media(std::move(prompt), picture(static_cast<unsigned>(rng.below(2))),
                          static_cast<std::uint32_t>(1 + rng.below(6)), rng.chance(0.5));
    } else {
      prompt = prompt + text_of(static_cast<std::uint32_t>(1 + rng.below(5)),
                                static_cast<int>(1 + rng.below(2)));
    }
  }
  return prompt;
}

// The oracle is the cache itself: what it finds once the leader has committed.
TEST(PrefillOnceProperty, ThePromisedPrefixIsCachedOnceTheLeaderCommits) {
  const std::vector<KvLayout> layouts = {{{full()}},
                                         {{full()}, TokenCount(4)},
                                         kWithState,
                                         {{full(), sliding(3)}},
                                         {{sliding(2), recurrent()}, TokenCount(2)}};
  std::uint64_t waited = 0;
  for_each_seed(100, [&](Rng& rng) {
    CacheFixture f;
    PrefillOnce front(*f.cache, {.worth_waiting = TokenCount(1)});
    for (unsigned tenant = 1; tenant <= 40; ++tenant) {
      const KvLayout& layout = layouts[rng.below(layouts.size())];
      const bool exact = layout.groups.size() == 1;  // without snapshots
      const Sequence a = random_prompt(rng);
      const Sequence shared = start_of(a, 1 + rng.below(a.tokens.size()));
      const Sequence tail = random_prompt(rng);
      const Sequence b = rng.chance(0.5) ? shared + Sequence{tail.tokens, {}} : tail;
      const auto ask = [&](const Sequence& prompt) {
        return PrefillRequest{.space = space(tenant), .layout = &layout, .prompt = &prompt};
      };
      PrefillLeader leader = front.lead(ask(a)).value();
      const auto claim = front.claim(ask(b));
      ASSERT_TRUE(claim.has_value());
      std::vector<std::uint32_t> snapshots;
      for (const TokenCount at : leader.snapshots()) snapshots.push_back(at.value());
      const auto size = static_cast<std::uint32_t>(a.tokens.size());
      const Capture capture(space(tenant), layout, a, size, 0, snapshots);
      ASSERT_TRUE(leader.commit(capture.kv).has_value());
      const TokenCount there = front.match(space(tenant), b)->resume();
      if (const auto* waiter = std::get_if<PrefillWaiter>(&*claim)) {
        ++waited;
        ASSERT_GE(there, waiter->promised());
        ASSERT_TRUE(!exact || there == waiter->promised());
      } else if (exact && size > 2) {
        ASSERT_LT(there, tokens(b.tokens.size()) - there) << "the request should have waited";
      }
    }
  });
  EXPECT_TRUE(waited > 150 || std::getenv("AFTERIMAGE_TEST_SEED") != nullptr) << waited;
}

}  // namespace
}  // namespace afterimage
