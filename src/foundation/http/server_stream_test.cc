// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/server_stream.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <string>

namespace afterimage {
namespace {

namespace asio = net::asio;

/// A stream and its client, over loopback.
struct Pair {
  Pair() {
    net::Tcp::acceptor acceptor(loop, {asio::ip::address_v4::loopback(), 0});
    client.connect(acceptor.local_endpoint());
    net::Socket accepted(loop);
    acceptor.accept(accepted);
    stream.emplace(std::move(accepted));
  }
  /// What read_now() says once the client's bytes have arrived.
  std::size_t read(std::string& into) { return stream->read_now(asio::buffer(into), error); }
  void wait() {
    asio::co_spawn(loop, stream->wait_readable(), asio::detached);
    loop.run();
    loop.restart();
  }

  asio::io_context loop{1};
  net::Socket client{loop};
  std::optional<ServerStream> stream;
  net::Failure error;
};

TEST(ServerStream, ReadsWhatIsThereWithoutWaiting) {
  Pair pair;
  std::string bytes(8, '-');
  EXPECT_EQ(pair.read(bytes), 0U);
  EXPECT_FALSE(pair.error) << "nothing is there yet, which is no failure";
  asio::write(pair.client, asio::buffer(std::string("abc")));
  pair.wait();
  EXPECT_EQ(pair.read(bytes), 3U);
  EXPECT_EQ(bytes, "abc-----");
  pair.client.close();
  pair.wait();
  EXPECT_EQ(pair.read(bytes), 0U);
  EXPECT_EQ(pair.error, asio::error::eof);
}

TEST(ServerStream, LetsOthersHaveTheirTurn) {
  Pair pair;
  const std::string sent(10'000, 'x');
  asio::write(pair.client, asio::buffer(sent));
  pair.wait();
  std::string byte(1, '-');
  for (unsigned i = 0; i < ServerStream::kCallsInARow; ++i) {
    ASSERT_EQ(pair.read(byte), 1U) << i;
  }
  EXPECT_EQ(pair.read(byte), 0U) << "more is there, but others wait";
  EXPECT_FALSE(pair.error);
  EXPECT_EQ(pair.stream->write_now({asio::buffer(byte), asio::const_buffer()}, pair.error), 0U);
  EXPECT_FALSE(pair.error);
  pair.wait();
  EXPECT_EQ(pair.read(byte), 1U);
}

TEST(ServerStream, WritesWhatTheSystemTakes) {
  Pair pair;
  const std::string large(64 << 20, 'y');
  const std::size_t taken =
      pair.stream->write_now({asio::buffer(std::string("head")), asio::buffer(large)}, pair.error);
  EXPECT_FALSE(pair.error);
  EXPECT_GT(taken, 4U);
  EXPECT_LT(taken, 4 + large.size()) << "nobody reads";
  EXPECT_EQ(pair.stream->write_now({asio::buffer(large), asio::const_buffer()}, pair.error), 0U);
  EXPECT_FALSE(pair.error) << "no room is no failure";
  std::string received(taken, '-');
  asio::read(pair.client, asio::buffer(received));
  EXPECT_TRUE(received == "head" + large.substr(0, taken - 4));
}

}  // namespace
}  // namespace afterimage
