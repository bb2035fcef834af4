// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/lanes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace afterimage {
namespace {

/// Keeps a borrowed lane, which cannot be moved, for as long as a test needs it.
struct Held {
  explicit Held(Lanes& lanes, const Sequence& asked = {}, std::uint32_t covered = 0)
      : lane(lanes.borrow(asked, TokenCount(covered))) {}
  Lanes::Lane lane;
};

Sequence words(std::uint32_t count, std::int32_t first = 1) {
  Sequence sequence;
  for (std::uint32_t i = 0; i < count; ++i) {
    sequence.tokens.push_back(TokenId(first + static_cast<std::int32_t>(i)));
  }
  return sequence;
}

/// Ten tokens, of which [2, 5) are an image.
Sequence with_picture(std::uint8_t which) {
  Sequence sequence = words(10);
  ContentDigest content;
  content.bytes[0] = std::byte{which};
  sequence.spans.push_back({.offset = TokenCount(2), .length = TokenCount(3), .content = content});
  return sequence;
}

HeldRows holding(Sequence prompt) {
  std::vector<std::int32_t> after(prompt.tokens.size());
  return {.prompt = std::move(prompt), .after = std::move(after)};
}

TEST(HeldRows, MatchOnlyTheSameTokensAndMedia) {
  const HeldRows held = holding(with_picture(1));
  const auto begins = [&](const Sequence& asked, std::uint32_t covered) {
    return held.begins_with(asked, TokenCount(covered));
  };
  EXPECT_TRUE(begins(with_picture(1), 10));
  EXPECT_TRUE(begins(with_picture(1), 1));
  EXPECT_FALSE(begins(with_picture(1), 0)) << "an empty prefix never matches";
  EXPECT_FALSE(begins(with_picture(1), 11)) << "more tokens than are held";
  EXPECT_TRUE(begins(with_picture(2), 2)) << "the images differ only after this prefix";
  EXPECT_FALSE(begins(with_picture(2), 5)) << "another image, same tokens";
  EXPECT_FALSE(begins(words(10), 5)) << "no image, same tokens";
  EXPECT_TRUE(begins(words(10), 2));
  Sequence asked = with_picture(1);
  asked.tokens[7] = TokenId(77);
  EXPECT_TRUE(begins(asked, 7));
  EXPECT_FALSE(begins(asked, 8));
  Sequence longer = with_picture(1);
  longer.spans.front().length = TokenCount(4);
  EXPECT_FALSE(begins(longer, 6));
  EXPECT_FALSE(HeldRows().begins_with(with_picture(1), TokenCount(1)));
  HeldRows shorter = held;
  shorter.after.resize(6);
  EXPECT_TRUE(shorter.begins_with(with_picture(1), TokenCount(6)));
  EXPECT_FALSE(shorter.begins_with(with_picture(1), TokenCount(7))) << "tokens without rows";
}

TEST(HeldRows, NeverMatchMediaWithoutADigest) {
  const HeldRows held = holding(with_picture(0));
  EXPECT_FALSE(held.begins_with(with_picture(0), TokenCount(5)));
  EXPECT_TRUE(held.begins_with(with_picture(0), TokenCount(2)));
}

TEST(Lanes, LendsAMatchingLaneElseTheLongestFree) {
  Lanes lanes(3);
  {
    const Held first(lanes);
    first.lane.held() = holding(words(4));
    const Held second(lanes);
    second.lane.held() = holding(words(4, 100));
  }  // returned: the second, then the first
  EXPECT_EQ(Held(lanes, words(8, 100), 4).lane.sequence(), 1);
  EXPECT_EQ(Held(lanes, words(8), 4).lane.sequence(), 0);
  EXPECT_EQ(Held(lanes, words(8), 5).lane.sequence(), 2) << "no lane holds that many tokens";
  const Held holder(lanes, words(8), 4);
  EXPECT_EQ(holder.lane.sequence(), 0);
  EXPECT_EQ(Held(lanes, words(8), 4).lane.sequence(), 1)
      << "the match is in use: the longest free lane";
}

TEST(Lanes, LendsEachLaneOnceInOrder) {
  Lanes lanes(3);
  const Held first(lanes);
  const Held second(lanes);
  const Held third(lanes);
  EXPECT_EQ(first.lane.sequence(), 0);
  EXPECT_EQ(second.lane.sequence(), 1);
  EXPECT_EQ(third.lane.sequence(), 2);
}

TEST(Lanes, LendsAReturnedLaneAgain) {
  Lanes lanes(2);
  const Held first(lanes);
  for (int i = 0; i < 100; ++i) {
    const Held second(lanes);
    ASSERT_EQ(second.lane.sequence(), 1);
  }
}

TEST(Lanes, BlocksWhileAllLanesAreInUse) {
  Lanes lanes(1);
  std::atomic<bool> asks{false};
  std::atomic<bool> given_back{false};
  std::atomic<bool> was_early{false};
  auto held = std::make_unique<Held>(lanes);
  std::jthread waiting([&] {
    asks = true;
    const Held own(lanes);
    was_early = !given_back;
  });
  while (!asks) std::this_thread::yield();
  for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
  given_back = true;
  held.reset();
  waiting.join();
  EXPECT_FALSE(was_early);
}

TEST(Lanes, LendsNoLaneTwiceUnderThreads) {
  constexpr std::int32_t kLanes = 3;
  Lanes lanes(kLanes);
  std::array<std::atomic<int>, kLanes> users{};
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          const Held held(lanes);
          const std::int32_t own = held.lane.sequence();
          if (own < 0 || own >= kLanes) {
            ++wrong;
            continue;
          }
          auto& here = users[static_cast<std::size_t>(own)];
          if (++here != 1) ++wrong;
          std::this_thread::yield();
          --here;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  const Held a(lanes);
  const Held b(lanes);
  const Held c(lanes);
  EXPECT_EQ((std::set{a.lane.sequence(), b.lane.sequence(), c.lane.sequence()}),
            (std::set{0, 1, 2}));
}

}  // namespace
}  // namespace afterimage
