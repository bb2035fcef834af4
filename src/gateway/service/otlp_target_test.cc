// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/service/otlp_target.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

TEST(OtlpTarget, ThePathOfTracesIsAddedOnce) {
  EXPECT_EQ(otlp_target("http://a:4318", "")->url.target, "/v1/traces");
  EXPECT_EQ(otlp_target("http://a:4318/", "")->url.target, "/v1/traces");
  EXPECT_EQ(otlp_target("https://a/otlp", "")->url.target, "/otlp/v1/traces");
  EXPECT_EQ(otlp_target("http://a/v1/traces", "")->url.target, "/v1/traces");
}

TEST(OtlpTarget, ReadsHeadersAsTheSpecificationSays) {
  const auto target = otlp_target("http://a", " api-key=x%2Cy , Authorization=Bearer a=b,,");
  const std::map<std::string, std::string> expected{{"api-key", "x,y"},
                                                    {"Authorization", "Bearer a=b"}};
  EXPECT_EQ(target->headers, expected);
}

TEST(OtlpTarget, RefusesOtherHeadersWithoutRepeatingThem) {
  for (const char* headers : {"sesame", "=sesame", "a b=sesame", "a=sesame%0d%0aX: y", "a=sesame%",
                              "a=sesame%zz", "a=sesame\n"}) {
    const auto target = otlp_target("http://a", headers);
    ASSERT_FALSE(target.has_value()) << headers;
    EXPECT_FALSE(target.error().message.contains("sesame"));
  }
}

}  // namespace
}  // namespace afterimage
