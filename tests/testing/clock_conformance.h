// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/clock.h"

/// What every Clock guarantees. To run the suite on your own implementation:
///
///   const ClockFactory kMine{"mine", [] { return std::make_unique<MyClock>(); }};
///   INSTANTIATE_TEST_SUITE_P(Mine, ClockConformance, ::testing::Values(kMine));
namespace afterimage::testing {

struct ClockFactory {
  std::string name;
  std::function<std::unique_ptr<Clock>()> make;
};

class ClockConformance : public ::testing::TestWithParam<ClockFactory> {};

TEST_P(ClockConformance, NeverGoesBack) {
  const auto clock = GetParam().make();
  Duration before = clock->now();
  for (int i = 0; i < 10'000; ++i) {
    const Duration now = clock->now();
    ASSERT_GE(now, before) << "reading " << i;
    before = now;
  }
}

/// What one thread has read, no other thread reads as the future.
TEST_P(ClockConformance, NeverGoesBackBetweenThreads) {
  const auto clock = GetParam().make();
  std::atomic<Duration::rep> latest = clock->now().count();
  std::atomic<int> backward = 0;
  std::vector<std::jthread> readers;
  for (int thread = 0; thread < 4; ++thread) {
    readers.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        const Duration::rep before = latest.load();
        const Duration::rep now = clock->now().count();
        if (now < before) ++backward;
        latest.store(now);
      }
    });
  }
  readers.clear();
  EXPECT_EQ(backward, 0);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ClockConformance);

}  // namespace afterimage::testing
