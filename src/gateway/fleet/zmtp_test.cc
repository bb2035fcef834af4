// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/zmtp.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

/// What libzmq 4.3 sends first: its greeting, then READY.
std::string server_hello(const std::string& mechanism = "NULL", char major = 3) {
  std::string hello = "\xFF" + std::string(8, '\0') + "\x7F";
  hello += major;
  hello += '\1';
  std::string name = mechanism;
  name.resize(20);
  hello += name;
  hello.resize(64);
  const std::string ready =
      std::string("\5READY\xBSocket-Type", 18) + std::string("\0\0\0\3PUB", 7);
  hello += '\4';
  hello += static_cast<char>(ready.size());
  return hello + ready;
}

TEST(ZmtpClient, GreetsAndSubscribesOnceTheOtherSideIsReady) {
  ZmtpClient client("SUB");
  const std::string hello = client.to_send();
  EXPECT_EQ(hello.substr(0, 10), "\xFF" + std::string(8, '\0') + "\x7F");
  EXPECT_EQ(hello.substr(12, 4), "NULL");
  EXPECT_TRUE(hello.substr(64).contains("READY"));
  EXPECT_TRUE(hello.substr(64).contains("SUB"));
  ASSERT_TRUE(client.feed(server_hello()).has_value());
  EXPECT_TRUE(client.ready());
  EXPECT_EQ(client.to_send(), std::string("\0\1\1", 3));
  EXPECT_EQ(client.to_send(), "");
}

TEST(ZmtpClient, TakesMessagesWhereverTheBytesAreCut) {
  const std::string payload(1000, 'p');
  const std::string bytes = server_hello() + ZmtpClient::message({"", "12345678", payload}) +
                            std::string("\4\5\4PING", 7) + ZmtpClient::message({"one"});
  for (const std::size_t piece : {1UL, 2UL, 7UL, 64UL, 100'000UL}) {
    ZmtpClient client("SUB");
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      ASSERT_TRUE(client.feed(std::string_view(bytes).substr(at, piece)).has_value());
    }
    EXPECT_EQ(client.take(), (std::vector<std::string>{"", "12345678", payload}));
    EXPECT_EQ(client.take(), std::vector<std::string>{"one"});
    EXPECT_EQ(client.take(), std::nullopt);
  }
}

TEST(ZmtpClient, ADealerSendsItsQuestion) {
  ZmtpClient client("DEALER", ZmtpClient::message({"", "12345678"}));
  EXPECT_TRUE(client.to_send().contains("DEALER"));
  ASSERT_TRUE(client.feed(server_hello()).has_value());
  EXPECT_EQ(client.to_send(), std::string("\1\0\0\x8", 4) + "12345678");
}

TEST(ZmtpClient, RefusesOtherProtocols) {
  const auto refuses = [](const std::string& bytes) {
    return !ZmtpClient("SUB").feed(bytes).has_value();
  };
  EXPECT_TRUE(refuses("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_TRUE(refuses(server_hello("CURVE")));
  EXPECT_TRUE(refuses(server_hello("NULL", 2)));
  EXPECT_TRUE(refuses(server_hello().substr(0, 64) + ZmtpClient::message({"early"})));
  EXPECT_TRUE(refuses(server_hello().substr(0, 64) + std::string("\4\6\5ERROR", 8)));
  EXPECT_TRUE(refuses(server_hello() + "\x10\x01"));
}

TEST(ZmtpClient, MessagesAreBounded) {
  ZmtpClient parts("SUB");
  ASSERT_TRUE(parts.feed(server_hello()).has_value());
  bool refused = false;
  for (int i = 0; i < 20 && !refused; ++i) {
    refused = !parts.feed(std::string("\1\1x", 3)).has_value();
  }
  EXPECT_TRUE(refused) << "a message of endless parts";
  ZmtpClient size("SUB");
  ASSERT_TRUE(size.feed(server_hello()).has_value());
  EXPECT_FALSE(size.feed(std::string("\2\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 9)).has_value());
}

}  // namespace
}  // namespace afterimage
