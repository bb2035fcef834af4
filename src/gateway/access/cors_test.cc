// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/access/cors.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace afterimage {
namespace {

using Origins = std::vector<std::string>;

std::string text_of(const HttpHeaders& headers) {
  std::string text;
  for (const auto& [name, value] : headers) text += name + ": " + value + "\n";
  return text;
}

TEST(CorsHeaders, NameThePagesThatMayReadTheResponse) {
  const HttpHeaders page{{"Origin", "https://a.example"}};
  const std::string exposed = "Access-Control-Expose-Headers: *\n";
  const struct {
    const char* name;
    Origins origins;
    HttpHeaders asked;
    std::string expected;
  } kCases[] = {{"none may", {}, page, ""},
                {"this one may",
                 {"http://localhost:3000", "https://a.example"},
                 page,
                 "Vary: Origin\nAccess-Control-Allow-Origin: https://a.example\n" + exposed},
                {"another one may", {"https://b.example"}, page, "Vary: Origin\n"},
                {"no page asks", {"https://a.example"}, {}, "Vary: Origin\n"},
                {"all may", {"*"}, page, "Access-Control-Allow-Origin: *\n" + exposed},
                {"all may, and no page asks", {"*"}, {}, ""},
                {"of a longer name", {"https://a.exam"}, page, "Vary: Origin\n"}};
  for (const auto& c : kCases) {
    EXPECT_EQ(text_of(cors_headers(c.origins, c.asked)), c.expected) << c.name;
  }
}

TEST(Preflight, IsAnsweredForPagesThatMay) {
  HttpRequest request{
      .method = "OPTIONS",
      .target = "/v1/messages",
      .headers = {{"Origin", "https://a.example"},
                  {"Access-Control-Request-Method", "POST"},
                  {"Access-Control-Request-Headers", "authorization,x-stainless-os"}},
      .body = nullptr,
      .peer = ""};
  const Origins allowed{"https://a.example"};
  const auto reply = preflight_reply(allowed, request);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 204U);
  EXPECT_EQ(reply->headers.find("access-control-allow-headers"), "authorization,x-stainless-os");
  EXPECT_TRUE(reply->headers.find("access-control-allow-methods")->contains("DELETE"));
  EXPECT_FALSE(preflight_reply({}, request).has_value());
  EXPECT_FALSE(preflight_reply({"https://b.example"}, request).has_value());
  request.method = "POST";
  EXPECT_FALSE(preflight_reply(allowed, request).has_value());
  request.method = "OPTIONS";
  request.headers.remove("access-control-request-method");
  EXPECT_FALSE(preflight_reply(allowed, request).has_value())
      << "a client that asks for the methods";
}

}  // namespace
}  // namespace afterimage
