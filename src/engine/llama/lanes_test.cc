// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/llama/lanes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <thread>

namespace afterimage {
namespace {

/// Lanes cannot be moved: this is where one lies as long as a test wants.
struct Held {
  explicit Held(Lanes& lanes) : lane(lanes.borrow()) {}
  Lanes::Lane lane;
};

TEST(Lanes, EachIsLentOnceAndTheFirstFirst) {
  Lanes lanes(3);
  const Held first(lanes);
  const Held second(lanes);
  const Held third(lanes);
  EXPECT_EQ(first.lane.sequence(), 0);
  EXPECT_EQ(second.lane.sequence(), 1);
  EXPECT_EQ(third.lane.sequence(), 2);
}

TEST(Lanes, WhatComesBackIsLentAgain) {
  Lanes lanes(2);
  const Held first(lanes);
  for (int i = 0; i < 100; ++i) {
    const Held second(lanes);
    ASSERT_EQ(second.lane.sequence(), 1);
  }
}

TEST(Lanes, WhoComesWhenAllAreLentWaits) {
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

TEST(Lanes, UnderThreadsNoneIsLentTwiceAndAllComeBack) {
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
