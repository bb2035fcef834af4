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
  EXPECT_TRUE(breaker.try_acquire(1s));
  breaker.failed(11s);  // the first four are exactly ten seconds old and still count
  EXPECT_FALSE(breaker.try_acquire(11s));
  EXPECT_EQ(breaker.times_opened(), 1U);
}

TEST(CircuitBreaker, ForgetsOldFailures) {
  CircuitBreaker breaker({});
  for (int i = 0; i < 40; ++i) breaker.failed(i * 3s);
  EXPECT_TRUE(breaker.try_acquire(120s));
}

TEST(CircuitBreaker, AllowsOneProbeAfterTheOpenDuration) {
  CircuitBreaker breaker({});
  for (int i = 0; i < 5; ++i) breaker.failed(0s);
  EXPECT_FALSE(breaker.try_acquire(5s - 1ns));
  EXPECT_TRUE(breaker.is_rejecting(5s - 1ns));
  EXPECT_TRUE(breaker.try_acquire(5s));
  EXPECT_FALSE(breaker.try_acquire(5s)) << "other calls wait for the probe";
  breaker.failed(6s);
  EXPECT_FALSE(breaker.try_acquire(11s - 1ns));
  EXPECT_TRUE(breaker.try_acquire(11s));
}

TEST(CircuitBreaker, AdmitsGrowingSharesAfterAGoodProbe) {
  CircuitBreaker breaker({});
  for (int i = 0; i < 5; ++i) breaker.failed(0s);
  EXPECT_TRUE(breaker.try_acquire(5s));
  breaker.succeeded(5s);
  const auto share = [&](Duration now) {
    int through = 0;
    for (int i = 0; i < 30; ++i) through += breaker.try_acquire(now) ? 1 : 0;
    return through;
  };
  EXPECT_EQ(share(5s), 3);
  EXPECT_EQ(share(6s), 10);
  EXPECT_EQ(share(8s), 30);
}

TEST(CircuitBreaker, AFailureDuringTheRampOpensItAtOnce) {
  CircuitBreaker breaker({});
  for (int i = 0; i < 5; ++i) breaker.failed(0s);
  EXPECT_TRUE(breaker.try_acquire(5s));
  breaker.succeeded(5s);
  breaker.failed(6s);
  EXPECT_FALSE(breaker.try_acquire(7s));
  EXPECT_EQ(breaker.times_opened(), 2U);
}

TEST(CircuitBreaker, ALateSuccessDoesNotCloseIt) {
  CircuitBreaker breaker({});
  for (int i = 0; i < 5; ++i) breaker.failed(0s);
  breaker.succeeded(1s);
  EXPECT_FALSE(breaker.try_acquire(1s));
}

TEST(CircuitBreaker, CountsFailuresInARow) {
  CircuitBreaker breaker(CircuitBreakerOptions::in_a_row(3, 5s));
  for (int i = 0; i < 10; ++i) {
    breaker.failed(i * 100s);
    breaker.failed(i * 100s + 1s);
    EXPECT_FALSE(breaker.is_open());
    breaker.succeeded(i * 100s + 2s);
  }
  for (int i = 0; i < 3; ++i) breaker.failed(2000s + i * 1000s);
  EXPECT_FALSE(breaker.try_acquire(4005s - 1ns));
  EXPECT_TRUE(breaker.try_acquire(4005s));
  EXPECT_FALSE(breaker.try_acquire(4005s)) << "others wait for the probe";
  breaker.succeeded(4006s);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(breaker.try_acquire(4006s)) << "without a ramp";
  breaker.failed(4007s);
  EXPECT_FALSE(breaker.is_open()) << "one failure after it closed is one of three";
}

TEST(CircuitBreaker, InARowAnySuccessClosesIt) {
  CircuitBreaker breaker(CircuitBreakerOptions::in_a_row(1, 5s));
  breaker.failed(0s);
  EXPECT_TRUE(breaker.is_rejecting(1s));
  breaker.succeeded(1s);  // of a call that does not ask it: an erase
  EXPECT_TRUE(breaker.try_acquire(1s));
}

}  // namespace
}  // namespace afterimage
