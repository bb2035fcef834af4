// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>

#include "foundation/platform/parallel_for.h"

namespace afterimage {
namespace {

TEST(Workers, RunPostedWork) {
  std::atomic<int> done = 0;
  std::promise<void> all;
  Workers workers(3, 100);
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(workers.post([&] {
      if (++done == 50) all.set_value();
    }));
  }
  all.get_future().get();
}

TEST(Workers, RefuseWorkBeyondTheQueueLimit) {
  std::promise<void> begun;
  std::promise<void> go_on;
  Workers workers(1, 2);
  ASSERT_TRUE(workers.post([&] {
    begun.set_value();
    go_on.get_future().get();
  }));
  begun.get_future().get();
  EXPECT_TRUE(workers.post([] {}));
  EXPECT_TRUE(workers.post([] {}));
  EXPECT_EQ(workers.waiting(), 2U);
  EXPECT_FALSE(workers.post([] {}));
  go_on.set_value();
}

TEST(Workers, AnExceptionEndsItsWorkOnly) {
  std::promise<std::string> heard;
  const auto held = std::make_shared<int>(0);
  bool was_destroyed = false;
  Workers workers(1, 2, [&](const char* why) {
    was_destroyed = held.use_count() == 1;
    heard.set_value(why);
  });
  ASSERT_TRUE(workers.post([held] { throw std::runtime_error("no memory"); }));
  EXPECT_EQ(heard.get_future().get(), "no memory");
  EXPECT_TRUE(was_destroyed) << "those that wait for it learn first";
  std::promise<void> done;
  ASSERT_TRUE(workers.post([&] { done.set_value(); }));
  done.get_future().get();
}

TEST(ParallelFor, ThrowsTheFirstExceptionWhenAllCallsHaveFinished) {
  Workers helpers(2, 100);
  for (const std::size_t width : {1U, 3U}) {
    std::atomic<int> done = 0;
    EXPECT_THROW(parallel_for(helpers, width, 50,
                              [&](std::size_t item) {
                                ++done;
                                if (item % 2 == 0) throw std::runtime_error("no memory");
                              }),
                 std::runtime_error);
    EXPECT_EQ(done, 50);
  }
}

TEST(Workers, AcceptNothingAfterStop) {
  Workers workers(1, 2);
  workers.stop();
  EXPECT_FALSE(workers.post([] {}));
  workers.stop();
}

}  // namespace
}  // namespace afterimage
