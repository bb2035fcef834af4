// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/local_server.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::LocalServer;

HttpQuestion question(const LocalServer& server) {
  return {.url = parse_url(server.url("/v1/x?y=z")).value(), .body = R"({"a": 1})"};
}

TEST(HttpPost, SendsTheBodyAndReturnsTheResponse) {
  std::string head;
  std::string body;
  LocalServer server([&](const std::string& h, const std::string& b) {
    head = h;
    body = b;
    return http_answer("said", 503);
  });
  HttpQuestion request = question(server);
  request.headers = {{"Authorization", "Bearer x"}};
  const HttpAnswer answer = http_post(request).value();
  EXPECT_EQ(answer.status, 503U);
  EXPECT_EQ(answer.body, "said");
  EXPECT_EQ(body, R"({"a": 1})");
  EXPECT_THAT(head, ::testing::StartsWith("POST /v1/x?y=z HTTP/1.1\r\n"));
  EXPECT_THAT(head, HasSubstr("Authorization: Bearer x\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Type: application/json\r\n"));
}

TEST(HttpGet, SendsNoBody) {
  std::string head;
  LocalServer server([&](const std::string& h, const std::string&) {
    head = h;
    return http_answer("said", 200);
  });
  EXPECT_EQ(http_get(question(server))->body, "said");
  EXPECT_THAT(head, ::testing::StartsWith("GET /v1/x?y=z HTTP/1.1\r\n"));
  EXPECT_THAT(head, ::testing::Not(HasSubstr("Content-")));
}

TEST(HttpPost, NoResponseInTimeIsATimeout) {
  LocalServer server([](const auto&, const auto&) { return std::string(); });
  HttpQuestion request = question(server);
  request.deadline = 50ms;
  const auto answer = http_post(request);
  EXPECT_EQ(answer.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(answer.error().message, HasSubstr("in time"));
}

TEST(HttpPost, ConnectionRefusedIsUnavailable) {
  HttpQuestion request;
  {
    LocalServer gone([](const auto&, const auto&) { return std::string(); });
    request = question(gone);
  }
  EXPECT_EQ(http_post(request).error().code, ErrorCode::kUnavailable);
}

TEST(HttpPost, TruncatedOrInvalidResponsesAreErrors) {
  const struct {
    const char* response;
    ErrorCode expected;
  } kCases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", ErrorCode::kUnavailable},
      {"SSH-2.0-x\r\n", ErrorCode::kCorruption},
      {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", ErrorCode::kCorruption},
  };
  for (const auto& c : kCases) {
    LocalServer server([&](const auto&, const auto&) { return std::string(c.response); });
    EXPECT_EQ(http_post(question(server)).error().code, c.expected) << c.response;
  }
}

TEST(HttpPost, LimitsAndHeadersHold) {
  LocalServer server([](const auto&, const auto&) { return http_answer(std::string(2000, 'x')); });
  HttpQuestion request = question(server);
  request.max_answer = 1_KiB;
  EXPECT_EQ(http_post(request).error().code, ErrorCode::kLimitExceeded);
  request.headers = {{"X", "a\r\nY: b"}};
  EXPECT_EQ(http_post(request).error().code, ErrorCode::kInvalidArgument);
  request.headers = {{"X Y", "a"}};
  EXPECT_EQ(http_post(request).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(server.asked(), 1);
}

}  // namespace
}  // namespace afterimage
