// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/slots.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

const RemoteAddress kAsked{.host = "10.0.0.1", .port = 7000};

// Expected values from the Redis Cluster specification and CLUSTER KEYSLOT.
TEST(Slots, MatchTheSpecification) {
  EXPECT_EQ(crc16("123456789"), 0x31C3);
  EXPECT_EQ(crc16(""), 0);
  EXPECT_EQ(slot_of("foo"), 12182);
  EXPECT_EQ(slot_of("bar"), 5061);
  EXPECT_EQ(slot_of("hello"), 866);
  EXPECT_EQ(slot_of("a{foo}b{bar}"), slot_of("foo"));
  for (const char* no_tag : {"{}foo", "a{}{foo}", "foo{", "}foo{", "foo}"}) {
    EXPECT_EQ(slot_of(no_tag), crc16(no_tag) % kSlots) << no_tag;
  }
}

Result<std::vector<SlotRange>> ranges_of(std::string_view bytes) {
  return slot_ranges(parse_resp(bytes).value()->value, kAsked);
}

TEST(Slots, ParsesTheSlotTable) {
  const auto ranges = ranges_of(
      "*2\r\n"
      "*4\r\n:0\r\n:5460\r\n*3\r\n$9\r\n127.0.0.1\r\n:7001\r\n$1\r\nx\r\n"
      "*3\r\n$9\r\n127.0.0.1\r\n:7004\r\n$1\r\ny\r\n"
      "*3\r\n:5461\r\n:16383\r\n*2\r\n$0\r\n\r\n:7002\r\n");
  ASSERT_TRUE(ranges.has_value());
  ASSERT_EQ(ranges->size(), 2U);
  EXPECT_EQ((*ranges)[0], (SlotRange{.first = 0,
                                     .last = 5460,
                                     .master = {.host = "127.0.0.1", .port = 7001},
                                     .replicas = {{.host = "127.0.0.1", .port = 7004}},
                                     .members = {"x", "y"}}));
  EXPECT_EQ((*ranges)[1].members, std::vector<std::string>{"10.0.0.1:7002"}) << "it tells no id";
  EXPECT_EQ((*ranges)[1].master, (RemoteAddress{.host = "10.0.0.1", .port = 7002}))
      << "a server that does not know its address has the one we asked";
}

/// One range of one server, whose address is `host` and whose further details are `details`.
RemoteAddress server_in_table(const std::string& host, const std::string& details) {
  const auto ranges =
      ranges_of("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n" + host + ":7001\r\n$1\r\nx\r\n" + details);
  return ranges.has_value() ? ranges->front().master : RemoteAddress{.host = "refused", .port = 1};
}

TEST(Slots, ReadsWhereAServerIs) {
  const std::string ip = "*2\r\n$2\r\nip\r\n$8\r\n10.0.0.9\r\n";
  const std::string none = "*0\r\n";
  const struct {
    const char* name;
    std::string host;
    std::string details;
    std::string expected;
  } kCases[] = {
      {"a name", "$4\r\na.eg\r\n", ip, "a.eg"},
      {"no endpoint: where it was asked", "$-1\r\n", none, "10.0.0.1"},
      {"no endpoint, whatever its address", "$-1\r\n", ip, "10.0.0.1"},
      {"a name that is not known yet", "$1\r\n?\r\n", ip, "10.0.0.9"},
      {"and no address either", "$1\r\n?\r\n", none, "10.0.0.1"},
      {"an address that is none", "$1\r\n?\r\n", "*2\r\n$2\r\nip\r\n$2\r\n/a\r\n", "10.0.0.1"},
      {"a path", "$2\r\n/a\r\n", none, "refused"},
      {"a control character", "$2\r\na\n\r\n", none, "refused"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(server_in_table(c.host, c.details).host, c.expected) << c.name;
  }
}

TEST(Slots, RefusesInvalidSlotTables) {
  for (const std::string_view bytes : {"+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*2\r\n:0\r\n:1\r\n",
                                       "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
                                       "*1\r\n*3\r\n:-1\r\n:2\r\n*2\r\n$1\r\na\r\n:1\r\n",
                                       "*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\na\r\n:1\r\n",
                                       "*1\r\n*3\r\n:0\r\n:4\r\n*2\r\n$1\r\na\r\n:0\r\n",
                                       "*1\r\n*3\r\n:0\r\n:4\r\n*2\r\n$1\r\na\r\n:70000\r\n",
                                       "*1\r\n*3\r\n:0\r\n:4\r\n*2\r\n:3\r\n:1\r\n",
                                       "*2\r\n*3\r\n:0\r\n:4\r\n*2\r\n$1\r\na\r\n:1\r\n*3\r\n:"
                                       "4\r\n:5\r\n*2\r\n$1\r\na\r\n:1\r\n"}) {
    EXPECT_FALSE(ranges_of(bytes).has_value()) << bytes;
  }
}

TEST(Slots, ParsesRedirections) {
  const auto moved = parse_redirection("MOVED 3999 127.0.0.1:6381", kAsked).value();
  EXPECT_FALSE(moved.temporary);
  EXPECT_EQ(moved.slot, 3999);
  EXPECT_EQ(moved.to, (RemoteAddress{.host = "127.0.0.1", .port = 6381}));
  const auto ask = parse_redirection("ASK 1 ::1:6381", kAsked).value();
  EXPECT_TRUE(ask.temporary);
  EXPECT_EQ(ask.to, (RemoteAddress{.host = "::1", .port = 6381}));
  EXPECT_EQ(parse_redirection("MOVED 1 :6381", kAsked).value().to.host, "10.0.0.1");
  for (const std::string_view text : {"ERR", "MOVED", "MOVED 1", "MOVED x a:1", "MOVED 16384 a:1",
                                      "MOVED 1 a:0", "MOVED 1 a:b", "MOVED 1 a", "ASK  a:1"}) {
    EXPECT_FALSE(parse_redirection(text, kAsked).has_value()) << text;
  }
}

}  // namespace
}  // namespace afterimage
