// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/retry_after.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

using namespace std::chrono_literals;

// A client of a budget of a day slept for twelve hours, inside the call and without an error.
TEST(RetryAfter, OfALongWaitComesWithTheAdviceNotToRetry) {
  const struct {
    const char* name;
    std::optional<Duration> wait;
    std::string_view seconds;
    bool advises;
  } kCases[] = {{"no wait", std::nullopt, "", false},    {"now", 0s, "1", false},
                {"a part of a second", 1ns, "1", false}, {"the longest wait", 60s, "60", false},
                {"more", 60s + 1ns, "61", true},         {"until midnight", 43'155s, "43155", true},
                {"a month", 2'592'000s, "2592000", true}};
  for (const auto& c : kCases) {
    HttpHeaders headers;
    add_retry_after(headers, c.wait);
    EXPECT_EQ(headers.find("retry-after").value_or(""), c.seconds) << c.name;
    EXPECT_EQ(headers.find("x-should-retry").value_or(""), c.advises ? "false" : "") << c.name;
  }
}

TEST(RetryAfter, OfA429WithoutItIsASecond) {
  const struct {
    HttpHeaders headers;
    std::string_view expected;
  } kCases[] = {{{}, "1"},
                {{{"Retry-After", "7"}}, "7"},
                {{{"retry-after-ms", "20"}}, ""},
                {{{"X-Should-Retry", "false"}}, ""}};
  for (const auto& c : kCases) {
    HttpHeaders headers = c.headers;
    add_missing_retry_after(headers);
    EXPECT_EQ(headers.find("retry-after").value_or(""), c.expected);
  }
}

// An upstream's 429 is passed on, and the clients slept as long.
TEST(RetryAfter, OfAnUpstreamIsPassedOnWithTheSameAdvice) {
  const WallTime now = WallTime(std::chrono::sys_days(std::chrono::year(1994) / 11 / 6)) + 8h;
  const struct {
    const char* name;
    HttpHeaders headers;
    bool advises;
  } kCases[] = {{"none", {}, false},
                {"short", {{"Retry-After", "60"}}, false},
                {"long", {{"Retry-After", "61"}}, true},
                {"a part of a second more", {{"Retry-After", "60.5"}}, true},
                {"a month", {{"Retry-After", "2592000"}}, true},
                {"milliseconds", {{"retry-after-ms", "60000"}}, false},
                {"many milliseconds", {{"retry-after-ms", "60001"}}, true},
                {"both", {{"retry-after-ms", "10"}, {"Retry-After", "3600"}}, false},
                {"a date", {{"Retry-After", "Sun, 06 Nov 1994 08:01:00 GMT"}}, false},
                {"a date far away", {{"Retry-After", "Sun, 06 Nov 1994 08:01:01 GMT"}}, true},
                {"a date long ago", {{"Retry-After", "Sun, 06 Nov 1904 08:49:37 GMT"}}, false},
                {"no date", {{"Retry-After", "Sun, 06 Nox 1994 08:49:37 GMT"}}, false},
                {"no day", {{"Retry-After", "Sun, 36 Nov 1994 08:49:37 GMT"}}, false},
                {"words", {{"Retry-After", "soon"}}, false},
                {"empty", {{"Retry-After", ""}}, false},
                {"not a number", {{"Retry-After", "nan"}}, false}};
  for (const auto& c : kCases) {
    HttpHeaders headers = c.headers;
    limit_retry_after(headers, now);
    EXPECT_EQ(headers.find("x-should-retry").has_value(), c.advises) << c.name;
    headers.remove("x-should-retry");
    EXPECT_EQ(headers, c.headers) << c.name << ": the wait itself is unchanged";
  }
}

TEST(RetryAfter, AnUpstreamsOwnAdviceStays) {
  HttpHeaders headers{{"Retry-After", "3600"}, {"X-Should-Retry", "true"}};
  limit_retry_after(headers, WallTime());
  EXPECT_EQ(headers.joined("x-should-retry"), "true");
}

}  // namespace
}  // namespace afterimage
