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

TEST(RemoteUrl, ParsesDatabaseAndTls) {
  EXPECT_FALSE(parse_remote_url("redis://cache/").value().tls);
  EXPECT_EQ(parse_remote_url("redis://cache/").value().database, 0U);
  const auto secure = parse_remote_url("rediss://me@cache:6380/7").value();
  EXPECT_TRUE(secure.tls);
  EXPECT_EQ(secure.user, "me");
  EXPECT_EQ(secure.database, 7U);
  EXPECT_EQ(secure.servers.front().text(), "cache:6380");
}

TEST(RemoteUrl, ParsesSentinels) {
  const auto url = parse_remote_url("redis+sentinel://me@a,b:5000,[::1]/main.cache/2").value();
  EXPECT_EQ(url.sentinel_name, "main.cache");
  EXPECT_EQ(url.database, 2U);
  EXPECT_EQ(url.user, "me");
  EXPECT_EQ(url.servers, (std::vector<RemoteAddress>{{.host = "a", .port = 26379},
                                                     {.host = "b", .port = 5000},
                                                     {.host = "::1", .port = 26379}}));
  EXPECT_TRUE(parse_remote_url("rediss+sentinel://a/n").value().tls);
}

TEST(RemoteUrl, ParsesSockets) {
  for (const std::string_view text :
       {"unix://me@/run/redis.sock?db=3", "redis+unix://me@/run/redis.sock?db=3"}) {
    const auto url = parse_remote_url(text).value();
    EXPECT_EQ(url.user, "me");
    EXPECT_EQ(url.database, 3U);
    ASSERT_EQ(url.servers.size(), 1U);
    EXPECT_TRUE(url.servers.front().is_socket());
    EXPECT_EQ(url.servers.front().text(), "/run/redis.sock");
  }
  const std::string longest = "unix:///" + std::string(106, 'p');
  EXPECT_TRUE(parse_remote_url(longest).has_value());
  EXPECT_FALSE(parse_remote_url(longest + "p").has_value());
}

TEST(RemoteUrl, RefusesInvalidUrlsWithoutRepeatingThem) {
  for (const std::string_view text : {"",
                                      "cache:6379",
                                      "http://cache",
                                      "redis://",
                                      "redis://:6379",
                                      "redis://a,",
                                      "redis://a:0",
                                      "redis://a:x",
                                      "redis://a:70000",
                                      "redis://[::1",
                                      "redis://[::1]x",
                                      "redis://a/x",
                                      "redis://a/1/2",
                                      "redis://a/-1",
                                      "redis://a/1000001",
                                      "redis://a?db=1",
                                      "redis://@a",
                                      "redis://a b",
                                      "redis://user:hush@a:1",
                                      "redis://:hush@a:1",
                                      "rediss://:hush@a:1",
                                      "redis+sentinel://a",
                                      "redis+sentinel://a/",
                                      "redis+sentinel:///name",
                                      "redis+sentinel://a/n/x",
                                      "redis+sentinel://a:0/n",
                                      "redis+sentinel://:hush@a/n",
                                      "redis-sentinel://a/n",
                                      "unix://",
                                      "unix:///",
                                      "unix://path",
                                      "unix://u:hush@/path",
                                      "unix:///path?db=x",
                                      "unix:///path?timeout=1",
                                      "unix:///a\nb"}) {
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
