// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/url.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

TEST(Url, Parts) {
  const struct {
    const char* text;
    Url expected;
  } kCases[] = {
      {"http://localhost", {"localhost", "80", "/"}},
      {"http://localhost:8000/v1", {"localhost", "8000", "/v1"}},
      {"http://10.0.0.1:1/a/b?c=d#e", {"10.0.0.1", "1", "/a/b?c=d"}},
      {"http://[::1]:65535", {"::1", "65535", "/"}},
      {"http://host?q", {"host", "80", "/?q"}},
      {"https://host/v1", {"host", "443", "/v1", true}},
      {"https://host:8443", {"host", "8443", "/", true}},
  };
  for (const auto& c : kCases) {
    const auto url = parse_url(c.text);
    ASSERT_TRUE(url.has_value()) << c.text << url.error().message;
    EXPECT_EQ(*url, c.expected) << c.text;
  }
}

TEST(Url, RefusesInvalidUrls) {
  for (const char* text :
       {"", "localhost:8000", "http://", "http://:80", "http://host:", "http://host:0",
        "http://host:65536", "http://host:x", "http://[::1", "http://[::1]x", "ftp://host",
        "http://user:secret@host/", "http://ho st", "http://h\nX: y", "http://hö"}) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url.has_value()) << text;
    EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_FALSE(url.error().message.contains("secret"));
  }
}

}  // namespace
}  // namespace afterimage
