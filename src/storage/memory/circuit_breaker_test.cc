// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/circuit_breaker.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

using namespace std::chrono_literals;

TEST(CircuitBreaker, OpensAtTheFifthFailureWithinTenSeconds) {
  CircuitBreaker breaker({});
  for (int i = 0; i < 4; ++i) breaker.failed(1s);
  EXPECT_TRUE(breaker.lets_through(1s));
  breaker.failed(11s);  // the first four are exactly ten seconds old and still count
  EXPECT_FALSE(breaker.lets_through(11s));
  EXPECT_EQ(breaker.times_opened(), 1U);
}

TEST(CircuitBreaker, FailuresThatAreOldAreForgotten) {
  CircuitBreaker breaker({});
  for (int i = 0; i < 40; ++i) breaker.failed(i * 3s);
  EXPECT_TRUE(breaker.lets_through(120s));
}

TEST(CircuitBreaker, OneProbeAfterTheRest) {
  CircuitBreaker breaker({});
  for (int i = 0; i < 5; ++i) breaker.failed(0s);
  EXPECT_FALSE(breaker.lets_through(5s - 1ns));
  EXPECT_TRUE(breaker.rests(5s - 1ns));
  EXPECT_TRUE(breaker.lets_through(5s));
  EXPECT_FALSE(breaker.lets_through(5s)) << "other calls wait for the probe";
  breaker.failed(6s);
  EXPECT_FALSE(breaker.lets_through(11s - 1ns));
  EXPECT_TRUE(breaker.lets_through(11s));
}

TEST(CircuitBreaker, WhoComesBackIsAskedByFewFirst) {
  CircuitBreaker breaker({});
  for (int i = 0; i < 5; ++i) breaker.failed(0s);
  EXPECT_TRUE(breaker.lets_through(5s));
  breaker.succeeded(5s);
  const auto share = [&](Duration now) {
    int through = 0;
    for (int i = 0; i < 30; ++i) through += breaker.lets_through(now) ? 1 : 0;
    return through;
  };
  EXPECT_EQ(share(5s), 3);
  EXPECT_EQ(share(6s), 10);
  EXPECT_EQ(share(8s), 30);
}

TEST(CircuitBreaker, WhoFailsAgainWhileComingBackRestsAtOnce) {
  CircuitBreaker breaker({});
  for (int i = 0; i < 5; ++i) breaker.failed(0s);
  EXPECT_TRUE(breaker.lets_through(5s));
  breaker.succeeded(5s);
  breaker.failed(6s);
  EXPECT_FALSE(breaker.lets_through(7s));
  EXPECT_EQ(breaker.times_opened(), 2U);
}

TEST(CircuitBreaker, ALateSuccessOfACallFromBeforeClosesNothing) {
  CircuitBreaker breaker({});
  for (int i = 0; i < 5; ++i) breaker.failed(0s);
  breaker.succeeded(1s);
  EXPECT_FALSE(breaker.lets_through(1s));
}

}  // namespace
}  // namespace afterimage
