// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/fatal_requests.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

using namespace std::chrono_literals;

RequestDigest digest_of(const std::string& body, const std::string& target = "/v1/completions") {
  return request_digest({.method = "POST",
                         .target = target,
                         .headers = {},
                         .body = std::make_shared<const std::string>(body)});
}

TEST(FatalRequests, ADigestIsOfPathAndBody) {
  EXPECT_EQ(digest_of("a"), digest_of("a"));
  EXPECT_NE(digest_of("a"), digest_of("b"));
  EXPECT_NE(digest_of("a", "/v1/x"), digest_of("a", "/v1/y"));
  EXPECT_NE(digest_of("ya", "/v1/x"), digest_of("a", "/v1/xy"));
}

TEST(FatalRequests, OneThatEndedTwoReplicasIsRefusedForAWhile) {
  FatalRequests fatal;
  const RequestDigest digest = digest_of("a");
  EXPECT_TRUE(fatal.is_empty());
  EXPECT_EQ(fatal.died(digest, "m", "one", 1s), 1U);
  EXPECT_FALSE(fatal.refused_for(digest, 1s).has_value());
  EXPECT_EQ(fatal.died(digest, "m", "two", 10s), 2U);
  EXPECT_EQ(fatal.refused_for(digest, 10s), 5min);
  EXPECT_EQ(fatal.refused_for(digest, 10s + 5min - 1ns), 1ns);
  EXPECT_FALSE(fatal.refused_for(digest, 10s + 5min).has_value());
  EXPECT_FALSE(fatal.refused_for(digest_of("b"), 10s).has_value());
  EXPECT_EQ(fatal.refused(), 2U);
  EXPECT_EQ(fatal.deaths(), 2U);
  const auto shown = fatal.newest(9, 70s);
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(shown[0].replica, "two");
  EXPECT_EQ(shown[0].deaths, 2U);
  EXPECT_EQ(shown[0].refused_for, 4min);
  // Once more after that, and it is refused again.
  EXPECT_EQ(fatal.died(digest, "m", "three", 10min), 3U);
  EXPECT_TRUE(fatal.refused_for(digest, 10min).has_value());
}

// Two clients that sent the same at once were told that it had ended two replicas.
TEST(FatalRequests, EqualRequestsAtOneReplicaSawOneDeath) {
  FatalRequests fatal;
  const RequestDigest digest = digest_of("a");
  EXPECT_EQ(fatal.died(digest, "m", "a", 10s), 1U);
  EXPECT_EQ(fatal.died(digest, "m", "a", 10s + 50ms), 1U);
  EXPECT_FALSE(fatal.refused_for(digest, 11s).has_value());
  // It was started again, and died again.
  EXPECT_EQ(fatal.died(digest, "m", "a", 20s), 2U);
  EXPECT_TRUE(fatal.refused_for(digest, 21s).has_value());
}

TEST(FatalRequests, OneThatWasAnsweredWasNotTheCause) {
  FatalRequests fatal;
  const RequestDigest beside = digest_of("beside it");
  EXPECT_EQ(fatal.died(beside, "m", "one", 1s), 1U);
  fatal.answered(beside);
  EXPECT_TRUE(fatal.is_empty());
  EXPECT_EQ(fatal.died(beside, "m", "two", 2s), 1U);
}

TEST(FatalRequests, DeathsFarApartAreNotCountedTogether) {
  FatalRequests fatal;
  const RequestDigest digest = digest_of("a");
  EXPECT_EQ(fatal.died(digest, "m", "one", 0s), 1U);
  EXPECT_EQ(fatal.died(digest, "m", "two", 2h), 1U);
}

TEST(FatalRequests, NoneIsRefusedIfThatIsOff) {
  FatalRequests fatal;
  fatal.set_refusal(0s);
  const RequestDigest digest = digest_of("a");
  for (const char* replica : {"one", "two", "three"}) fatal.died(digest, "m", replica, 1s);
  EXPECT_FALSE(fatal.refused_for(digest, 1s).has_value());
}

TEST(FatalRequests, AreBounded) {
  FatalRequests fatal;
  for (std::size_t i = 0; i < FatalRequests::kMost + 10; ++i) {
    fatal.died(digest_of(std::to_string(i)), "m", "one", 1s);
  }
  EXPECT_EQ(fatal.newest(SIZE_MAX, 1s).size(), FatalRequests::kMost);
  EXPECT_EQ(fatal.died(digest_of("0"), "m", "two", 1s), 1U) << "the oldest were forgotten";
}

}  // namespace
}  // namespace afterimage
