// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/fleet/zmtp.h"
#include "gateway/kv_publisher/kv_event_server.h"

namespace afterimage {
namespace {

/// A client whose bytes a test chooses.
class RawSubscriber {
 public:
  explicit RawSubscriber(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  ~RawSubscriber() { ::close(fd_); }
  RawSubscriber(const RawSubscriber&) = delete;
  RawSubscriber& operator=(const RawSubscriber&) = delete;
  void send(std::string_view bytes) const {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Empty: the other side closed.
  [[nodiscard]] std::string receive(int flags = 0) const {
    std::string bytes(65536, '\0');
    const ssize_t size = ::recv(fd_, bytes.data(), bytes.size(), flags);
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return bytes;
  }

 private:
  int fd_;
};

/// One turn of the owner's loop. True: someone wants a welcome.
bool turn(KvEventServer& server) {
  std::vector<pollfd> list;
  server.add_wanted(list);
  ::poll(list.data(), list.size(), 10);
  return server.handle(list.data());
}

template <typename Holds>
void turn_until(KvEventServer& server, const Holds& holds) {
  for (int i = 0; i < 1000 && !holds(); ++i) static_cast<void>(turn(server));
  EXPECT_TRUE(holds());
}

TEST(KvEventServer, WelcomesASubscriberAndThenPublishes) {
  const auto server = KvEventServer::listen("127.0.0.1:0").value();
  const RawSubscriber subscriber(server->port());
  ZmtpClient protocol("SUB");
  bool wanted = false;
  for (int i = 0; i < 1000 && !wanted; ++i) {
    if (const std::string bytes = protocol.to_send(); !bytes.empty()) subscriber.send(bytes);
    wanted = turn(*server);
    ASSERT_TRUE(protocol.feed(subscriber.receive(MSG_DONTWAIT)).has_value());
  }
  ASSERT_TRUE(wanted);
  server->publish(ZmtpClient::message({"", "0", "not yet"}));
  server->welcome(ZmtpClient::message({"", "1", "all"}));
  server->publish(ZmtpClient::message({"", "2", "more"}));
  std::vector<std::vector<std::string>> messages;
  for (int i = 0; i < 1000 && messages.size() < 2; ++i) {
    EXPECT_FALSE(turn(*server));
    ASSERT_TRUE(protocol.feed(subscriber.receive(MSG_DONTWAIT)).has_value());
    while (auto message = protocol.take()) messages.push_back(*std::move(message));
  }
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0][2], "all");
  EXPECT_EQ(messages[1][2], "more");
}

TEST(KvEventServer, CutsOffStrangers) {
  const auto server = KvEventServer::listen("127.0.0.1:0").value();
  std::string flood = ZmtpClient("SUB").to_send();
  flood += std::string("\x02\0\0\0\0\0\x10\0\0", 9) + std::string(100'000, 'x');  // 1 MiB follows
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(200, '\xFF'), flood}) {
    const RawSubscriber stranger(server->port());
    stranger.send(bytes);
    turn_until(*server, [&] { return server->subscribers() == 1; });
    turn_until(*server, [&] { return server->subscribers() == 0; });
  }
}

TEST(KvEventServer, CutsOffASubscriberThatDoesNotRead) {
  const auto server = KvEventServer::listen("127.0.0.1:0").value();
  const RawSubscriber subscriber(server->port());
  ZmtpClient protocol("SUB");
  bool wanted = false;
  for (int i = 0; i < 1000 && !wanted; ++i) {
    if (const std::string bytes = protocol.to_send(); !bytes.empty()) subscriber.send(bytes);
    wanted = turn(*server);
    ASSERT_TRUE(protocol.feed(subscriber.receive(MSG_DONTWAIT)).has_value());
  }
  server->welcome(ZmtpClient::message({"", "0", "all"}));
  const std::string large = ZmtpClient::message({"", "1", std::string(1 << 20, 'x')});
  for (int i = 0; i < 100 && server->subscribers() > 0; ++i) {
    server->publish(large);
    if (server->subscribers() > 0) static_cast<void>(turn(*server));
  }
  EXPECT_EQ(server->subscribers(), 0U);
}

TEST(KvEventServer, BoundsItsSubscribers) {
  const auto server = KvEventServer::listen("127.0.0.1:0").value();
  std::vector<std::unique_ptr<RawSubscriber>> many;
  for (std::size_t i = 0; i < KvEventServer::kMostSubscribers + 1; ++i) {
    many.push_back(std::make_unique<RawSubscriber>(server->port()));
    static_cast<void>(turn(*server));
  }
  turn_until(*server, [&] { return server->subscribers() == KvEventServer::kMostSubscribers; });
  static_cast<void>(turn(*server));
  EXPECT_EQ(many.back()->receive(), "");
}

TEST(KvEventServer, SaysWhyItCannotListen) {
  const auto first = KvEventServer::listen("127.0.0.1:0").value();
  const auto second = KvEventServer::listen("127.0.0.1:" + std::to_string(first->port()));
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(KvEventServer::listen("localhost:0").has_value());
}

}  // namespace
}  // namespace afterimage
