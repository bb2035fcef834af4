// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/sliced_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace afterimage {
namespace {

TEST(SlicedMutex, AWaitingThreadIsLetInBetweenTwoSlices) {
  SlicedMutex mutex;
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> was_let_in = false;
    mutex.lock();
    std::jthread waiter([&] {
      const MutexLock lock(mutex);
      was_let_in = true;
    });
    while (!mutex.has_waiters()) std::this_thread::yield();
    mutex.unlock();
    mutex.let_waiters_in();
    const MutexLock next_slice(mutex);
    EXPECT_TRUE(was_let_in) << "round " << round;
  }
}

TEST(SlicedMutex, NobodyIsWaitedForWhereNobodyWaits) {
  SlicedMutex mutex;
  for (int slice = 0; slice < 3; ++slice) {
    const MutexLock lock(mutex);
    EXPECT_FALSE(mutex.has_waiters());
  }
  mutex.let_waiters_in();
}

TEST(SlicedMutex, WaitersOfLongWorkAllGetTheirTurn) {
  SlicedMutex mutex;
  int turns = 0;  // under mutex
  std::atomic<int> working = 3;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        const MutexLock lock(mutex);
        ++turns;
      }
      --working;
    });
  }
  for (; working > 0; mutex.let_waiters_in()) const MutexLock slice(mutex);
  threads.clear();
  EXPECT_EQ(turns, 600);
}

}  // namespace
}  // namespace afterimage
