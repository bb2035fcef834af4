// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/resp.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

RespValue bulk(std::string text) { return {.kind = RespKind::kBulk, .text = std::move(text)}; }

TEST(Resp, ReadsEachKind) {
  const struct {
    const char* bytes;
    RespValue expected;
  } kCases[] = {
      {"+OK\r\n", {.kind = RespKind::kText, .text = "OK"}},
      {"+\r\n", {.kind = RespKind::kText}},
      {"-ERR no\r\n", {.kind = RespKind::kError, .text = "ERR no"}},
      {":-7\r\n", {.kind = RespKind::kNumber, .number = -7}},
      {"$-1\r\n", {.kind = RespKind::kNil}},
      {"*-1\r\n", {.kind = RespKind::kNil}},
      {"$0\r\n\r\n", bulk("")},
      {"$4\r\na\r\nb\r\n", bulk("a\r\nb")},
      {"*0\r\n", {.kind = RespKind::kList}},
      {"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n",
       {.kind = RespKind::kList,
        .items = {{.kind = RespKind::kNumber, .number = 1},
                  {.kind = RespKind::kList, .items = {bulk("x")}}}}},
  };
  for (const auto& c : kCases) {
    const std::string_view bytes = c.bytes;
    const auto parsed = parse_resp(bytes).value();
    ASSERT_TRUE(parsed.has_value()) << bytes;
    EXPECT_EQ(parsed->value, c.expected) << bytes;
    EXPECT_EQ(parsed->size, bytes.size());
    for (std::size_t part = 0; part < bytes.size(); ++part) {
      const auto begun = parse_resp(bytes.substr(0, part));
      ASSERT_TRUE(begun.has_value()) << bytes << " " << part;
      EXPECT_FALSE(begun->has_value()) << bytes << " " << part;
    }
    const auto more = parse_resp(std::string(bytes) + "+what comes next\r\n").value();
    EXPECT_EQ(more->size, bytes.size());
  }
}

TEST(Resp, RefusesMalformedBytes) {
  const std::string long_line = "+" + std::string(5'000, 'x');
  for (const std::string_view bytes :
       {"x", "HTTP/1.1 400", "+OK\n", "+OK\rx", ":\r\n", ":1x\r\n", ":+1\r\n", ":01\r\n",
        ":99999999999999999999\r\n", "$-2\r\n", "$536870913\r\n", "*-2\r\n", "$1\r\nab\r\n",
        "$1\r\na\rx", "*999999\r\n", "$5000000\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"}) {
    const auto parsed = parse_resp(bytes);
    ASSERT_FALSE(parsed.has_value()) << bytes;
    EXPECT_EQ(parsed.error().code, ErrorCode::kCorruption);
  }
  EXPECT_FALSE(parse_resp(long_line).has_value());
}

TEST(Resp, AllocatesNothingForAnnouncedListLengths) {
  EXPECT_FALSE(parse_resp("*131072\r\n").value().has_value());
  EXPECT_FALSE(parse_resp("*2\r\n*131071\r\n").has_value());
}

TEST(Resp, WritesCommands) {
  EXPECT_EQ(resp_command({"GET", "k"}), "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
  const RespAround set = resp_set("k", 3, std::chrono::milliseconds(1500));
  EXPECT_EQ(set.before + "abc" + set.after, resp_command({"SET", "k", "abc", "PX", "1500"}));
  const RespAround told = resp_set("k", 3, std::chrono::milliseconds(1500), true);
  EXPECT_EQ(told.before + "abc" + told.after,
            resp_command({"SET", "k", "abc", "PX", "1500", "GET"}));
  EXPECT_EQ(resp_set("k", 0, Duration(1)).after, "\r\n$2\r\nPX\r\n$1\r\n1\r\n");
}

}  // namespace
}  // namespace afterimage
