// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/remote_address.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

TEST(RemoteUrl, ParsesUserAndServers) {
  const auto plain = parse_remote_url("redis://cache").value();
  EXPECT_EQ(plain.user, "");
  EXPECT_EQ(plain.servers, (std::vector<RemoteAddress>{{.host = "cache", .port = 6379}}));
  const auto several = parse_remote_url("redis://afterimage@10.0.0.1:7000,[::1]:7001,c").value();
  EXPECT_EQ(several.user, "afterimage");
  EXPECT_EQ(several.servers, (std::vector<RemoteAddress>{{.host = "10.0.0.1", .port = 7000},
                                                         {.host = "::1", .port = 7001},
                                                         {.host = "c", .port = 6379}}));
  EXPECT_EQ(several.servers[1].text(), "[::1]:7001");
}

TEST(RemoteUrl, RefusesInvalidUrlsWithoutRepeatingThem) {
  for (const std::string_view text :
       {"", "cache:6379", "http://cache", "redis://", "redis://:6379", "redis://a,", "redis://a:0",
        "redis://a:x", "redis://a:70000", "redis://[::1", "redis://[::1]x", "redis://a/1",
        "redis://@a", "redis://a b", "redis://user:hush@a:1", "redis://:hush@a:1"}) {
    const auto url = parse_remote_url(text);
    ASSERT_FALSE(url.has_value()) << text;
    EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(url.error().message.contains("hush")) << url.error().message;
  }
}

TEST(SocketAddress, ResolvesNumericAddresses) {
  EXPECT_TRUE(resolve({.host = "127.0.0.1", .port = 1}).has_value());
  EXPECT_EQ(resolve({.host = "::1", .port = 1}).value().size(), 1U);
  EXPECT_EQ(resolve({.host = "there is no such name", .port = 1}).error().code,
            ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace afterimage
