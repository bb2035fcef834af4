// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

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

TEST(Workers, AcceptNothingAfterStop) {
  Workers workers(1, 2);
  workers.stop();
  EXPECT_FALSE(workers.post([] {}));
  workers.stop();
}

}  // namespace
}  // namespace afterimage
