// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/encode_once.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "testing/recording_policy.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

EncoderKey key(unsigned n) {
  EncoderKey k;
  k.bytes[0] = static_cast<std::byte>(n);
  return k;
}

EncoderOutput output(std::uint64_t rows, unsigned fill) {
  return {{.dtype = DType::kF32,
           .shape = Shape{rows, 16},
           .bytes = std::vector<std::byte>(rows * 64, static_cast<std::byte>(fill))}};
}

struct Fixture {
  explicit Fixture(std::uint64_t budget_rows, EncodeOnceOptions options = {})
      : budget(Bytes(budget_rows * 64)),
        cache(EncoderCache::create({}, budget).value()),
        front(*cache, clock, options) {}

  MemoryBudget budget;
  ManualClock clock;
  std::unique_ptr<EncoderCache> cache;
  EncodeOnce front;
};

template <typename T>
T take(EncodeOnce::Claim claim) {
  EXPECT_TRUE(std::holds_alternative<T>(claim));
  return std::get<T>(std::move(claim));
}

/// Spins until `ready` returns true; otherwise the test ends by its time limit.
template <typename Ready>
void wait_until(const Ready& ready) {
  while (!ready()) std::this_thread::yield();
}

TEST(EncodeOnce, EncodesOnFirstUseAndHitsAfterwards) {
  Fixture f(100);
  int encodes = 0;
  const auto encode = [&]() -> Result<EncoderOutput> {
    ++encodes;
    f.clock.advance(std::chrono::milliseconds(30));
    return output(4, 9);
  };
  for (int i = 0; i < 3; ++i) {
    const auto got = f.front.get_or_encode(key(1), Modality::kImage, encode);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->tensors()[0].bytes()[0], std::byte{9});
    EXPECT_TRUE(got->resident());
  }
  EXPECT_EQ(encodes, 1);
  EXPECT_EQ(to_milliseconds(f.front.cache().stats().encode_time_saved), 60)
      << "measured, not guessed";
}

TEST(EncodeOnce, ReportsTheUseOfBothRequestsThatHoldAnItem) {
  const auto log = std::make_shared<testing::RecordingPolicy::Log>();
  EncoderCacheOptions options;
  options.policy = std::make_unique<testing::RecordingPolicy>(log);
  MemoryBudget budget(1_MiB);
  const auto cache = EncoderCache::create(std::move(options), budget).value();
  const ManualClock clock;
  EncodeOnce front(*cache, clock);
  {
    const Embeddings one =
        std::move(take<FlightLeader>(front.claim(key(1)))).publish(output(4, 9), {}).value();
    const Embeddings other = take<Embeddings>(front.claim(key(1)));
    front.note_request({}, std::vector{&other});
    front.note_request({}, std::vector{&one});
  }
  front.cache().evict_bytes(1_B);
  EXPECT_THAT(log->take(),
              ::testing::ElementsAre("request", "insert a", "request", "touch a", "evict a"));
}

// Seed 000 V13: N concurrent misses encoded N times.
TEST(EncodeOnce, V13_ConcurrentCallersEncodeOnce) {
  constexpr unsigned kCallers = 8;
  Fixture f(100);
  std::atomic<int> encodes{0};
  std::atomic<unsigned> right{0};
  std::vector<std::thread> callers;
  for (unsigned t = 0; t < kCallers; ++t) {
    callers.emplace_back([&] {
      const auto got =
          f.front.get_or_encode(key(1), Modality::kImage, [&]() -> Result<EncoderOutput> {
            ++encodes;
            wait_until([&] { return f.front.stats().followed == kCallers - 1; });
            return output(4, 9);
          });
      if (got.has_value() && got->tensors()[0].bytes()[0] == std::byte{9}) ++right;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(encodes, 1);
  EXPECT_EQ(right, kCallers);
  EXPECT_EQ(f.front.cache().stats().hits, kCallers - 1);
  f.front.cache().check_invariants();
}

TEST(EncodeOnce, AnOutputThatDoesNotFitIsSharedWithWaitersUncached) {
  constexpr unsigned kCallers = 4;
  Fixture f(2);  // smaller than one item
  std::atomic<int> encodes{0};
  std::vector<std::thread> callers;
  for (unsigned t = 0; t < kCallers; ++t) {
    callers.emplace_back([&] {
      const auto got =
          f.front.get_or_encode(key(1), Modality::kImage, [&]() -> Result<EncoderOutput> {
            ++encodes;
            wait_until([&] { return f.front.stats().followed == kCallers - 1; });
            return output(4, 9);
          });
      ASSERT_TRUE(got.has_value());
      EXPECT_FALSE(got->resident());
      EXPECT_EQ(got->tensors()[0].shape(), (Shape{4, 16}));
      EXPECT_EQ(got->tensors()[0].bytes()[0], std::byte{9});
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(encodes, 1);
  EXPECT_EQ(f.front.stats().uncached, 1U);
  EXPECT_EQ(f.budget.peak(), 0_B);
}

TEST(EncodeOnce, AWaiterTakesOverWhenTheLeaderGivesUp) {
  constexpr unsigned kCallers = 5;
  Fixture f(100);
  std::atomic<int> encodes{0};
  std::atomic<int> served{0};
  auto leader = std::make_optional(take<FlightLeader>(f.front.claim(key(1))));
  std::vector<std::thread> callers;
  for (unsigned t = 0; t < kCallers; ++t) {
    callers.emplace_back([&] {
      const auto got =
          f.front.get_or_encode(key(1), Modality::kImage, [&]() -> Result<EncoderOutput> {
            ++encodes;
            return output(4, 9);
          });
      if (got.has_value()) ++served;
    });
  }
  wait_until([&] { return f.front.stats().followed == kCallers; });
  leader.reset();  // cancelled: neither published nor failed
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(encodes, 1);
  EXPECT_EQ(served, static_cast<int>(kCallers));
  EXPECT_EQ(f.front.stats().taken_over, 1U);
}

TEST(EncodeOnce, AWaiterRetriesAfterATransientError) {
  Fixture f(100);
  FlightLeader leader = take<FlightLeader>(f.front.claim(key(1)));
  FlightWaiter follower = take<FlightWaiter>(f.front.claim(key(1)));
  std::move(leader).fail({ErrorCode::kUnavailable, "the device went away"});
  auto outcome = std::move(follower).wait();
  ASSERT_TRUE(outcome.has_value());
  ASSERT_TRUE(std::holds_alternative<FlightLeader>(*outcome));
  EXPECT_TRUE(std::get<FlightLeader>(std::move(*outcome)).publish(output(4, 1), {}).has_value());
}

TEST(EncodeOnce, APermanentErrorFailsAllWaiters) {
  Fixture f(100);
  FlightLeader leader = take<FlightLeader>(f.front.claim(key(1)));
  FlightWaiter follower = take<FlightWaiter>(f.front.claim(key(1)));
  std::move(leader).fail({ErrorCode::kCorruption, "a.jpg ends early"});
  const auto outcome = std::move(follower).wait();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().message, "a.jpg ends early");
  EXPECT_TRUE(std::holds_alternative<FlightLeader>(f.front.claim(key(1))))
      << "the error is not remembered";
}

TEST(EncodeOnce, RefusesAnOutputWhoseBytesDoNotMatchItsShape) {
  Fixture f(100);
  FlightLeader leader = take<FlightLeader>(f.front.claim(key(1)));
  EncoderOutput lie = output(4, 1);
  lie[0].shape = Shape{5, 16};
  const auto published = std::move(leader).publish(std::move(lie), {});
  ASSERT_FALSE(published.has_value());
  EXPECT_EQ(published.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(f.budget.peak(), 0_B);
}

TEST(EncodeOnce, WaitingEndsWhenTheRequestIsCancelled) {
  Fixture f(100);
  const FlightLeader leader = take<FlightLeader>(f.front.claim(key(1)));
  FlightWaiter follower = take<FlightWaiter>(f.front.claim(key(1)));
  std::stop_source stop;
  std::thread waiting([&] {
    const auto outcome = std::move(follower).wait(stop.get_token());
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kCancelled);
  });
  stop.request_stop();
  waiting.join();
}

TEST(EncodeOnce, DroppedWaitersLeaveNothingBehind) {
  Fixture f(100);
  {
    FlightLeader leader = take<FlightLeader>(f.front.claim(key(1)));
    const FlightWaiter dropped = take<FlightWaiter>(f.front.claim(key(1)));
    EXPECT_TRUE(std::move(leader).publish(output(4, 1), {}).has_value());
  }
  EXPECT_EQ(f.front.cache().info(key(1))->pins, 0U);
  {
    const FlightLeader leader = take<FlightLeader>(f.front.claim(key(2)));
    const FlightWaiter dropped = take<FlightWaiter>(f.front.claim(key(2)));
  }
  EXPECT_TRUE(std::holds_alternative<FlightLeader>(f.front.claim(key(2))));
}

TEST(EncodeOnce, AnEntryStaysPinnedUntilItsWaitersHaveIt) {
  Fixture f(4);
  FlightLeader leader = take<FlightLeader>(f.front.claim(key(1)));
  FlightWaiter follower = take<FlightWaiter>(f.front.claim(key(1)));
  {
    const auto published = std::move(leader).publish(output(4, 1), {});
  }
  // Another insert wants the space before the waiter wakes up.
  const auto other = f.front.get_or_encode(key(2), Modality::kImage,
                                           []() -> Result<EncoderOutput> { return output(4, 2); });
  EXPECT_FALSE(other->resident());
  auto outcome = std::move(follower).wait();
  EXPECT_EQ(std::get<Embeddings>(*outcome).tensors()[0].bytes()[0], std::byte{1});
}

TEST(EncodeOnce, DamagedMemoryIsAMissAndIsEncodedAgain) {
  Fixture f(100);
  int encodes = 0;
  const auto encode = [&]() -> Result<EncoderOutput> {
    ++encodes;
    return output(4, 9);
  };
  {
    const auto first = f.front.get_or_encode(key(1), Modality::kImage, encode);
    auto* cell = const_cast<std::byte*>(first->tensors()[0].bytes().data());
    *cell ^= std::byte{4};  // a bad memory cell
  }
  const auto second = f.front.get_or_encode(key(1), Modality::kImage, encode);
  EXPECT_EQ(second->tensors()[0].bytes()[0], std::byte{9});
  EXPECT_EQ(encodes, 2);
  EXPECT_EQ(f.front.stats().corrupt, 1U);
  EXPECT_EQ(f.front.cache().stats().hits, 0U);
}

TEST(EncodeOnce, ServesTheRightBytesUnderEvictionAndConcurrency) {
  constexpr unsigned kKeys = 12;
  Fixture f(20);  // about five items fit
  std::atomic<std::uint64_t> encodes{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(t);
      for (int i = 0; i < 2'000; ++i) {
        const auto n = static_cast<unsigned>(rng.below(kKeys));
        if (rng.chance(0.01)) f.front.cache().erase(key(n));
        if (rng.chance(0.01)) f.front.cache().evict_bytes(Bytes(256));
        const auto got =
            f.front.get_or_encode(key(n), Modality::kImage, [&]() -> Result<EncoderOutput> {
              ++encodes;
              if (rng.chance(0.05)) return fail(ErrorCode::kUnavailable, "a passing failure");
              return output(n % 5 + 1, n);
            });
        if (f.budget.used() > f.budget.capacity()) over = true;
        if (!got.has_value()) continue;
        const auto bytes = got->tensors()[0].bytes();
        const bool all = std::ranges::all_of(bytes, [&](std::byte b) { return b == std::byte(n); });
        if (!all || bytes.size() != (n % 5 + 1) * 64) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_FALSE(over);
  EXPECT_LT(encodes, 8'000U);
  f.front.cache().check_invariants();
  f.front.cache().clear();
  EXPECT_EQ(f.budget.used(), 0_B);
}

}  // namespace
}  // namespace afterimage
