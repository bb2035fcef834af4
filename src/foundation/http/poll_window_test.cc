// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/poll_window.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "foundation/http/io_threads.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

TEST(PollWindow, OpensWhileWaitsAreShortAndClosesWithTheFirstLongOne) {
  PollWindow window(80us);
  EXPECT_EQ(window.length(), 0us) << "nothing is known yet";
  window.slept(81us);
  EXPECT_EQ(window.length(), 0us);
  window.slept(80us);
  EXPECT_EQ(window.length(), 20us);
  window.slept(30us);
  EXPECT_EQ(window.length(), 40us);
  window.slept(50us);
  window.slept(80us);
  EXPECT_EQ(window.length(), 80us) << "and no further";
  window.slept(90us);
  EXPECT_EQ(window.length(), 0us);
}

TEST(PollWindow, NeverOpensIfPollingIsOff) {
  PollWindow window(0us);
  window.slept(0us);
  EXPECT_EQ(window.length(), 0us);
}

/// Work that arrives while a thread polls, while it sleeps, and with a delay.
TEST(IoThreadsThatPoll, DoAllWorkInItsOrder) {
  IoThreads threads(2, 50us);
  for (unsigned thread = 0; thread < threads.count(); ++thread) {
    std::atomic<int> done = 0;
    for (int i = 0; i < 300; ++i) {
      std::promise<int> before;
      threads.post(thread, [&] { before.set_value(done++); });
      EXPECT_EQ(before.get_future().get(), i);
    }
    std::promise<unsigned> later;
    threads.post_after(thread, 2ms, [&] { later.set_value(threads.here_or_next()); });
    EXPECT_EQ(later.get_future().get(), thread);
  }
}

TEST(IoThreadsThatPoll, Stop) {
  IoThreads threads(2, 1s);
  for (int i = 0; i < 10; ++i) {  // short waits, so that the thread polls
    std::promise<void> done;
    threads.post(0, [&] { done.set_value(); });
    done.get_future().get();
  }
  threads.stop();
}

}  // namespace
}  // namespace afterimage
