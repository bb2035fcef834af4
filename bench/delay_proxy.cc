// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// A network that is farther away: forwards connections to a port of this machine, and delays what
// passes by half a round trip each way, however much is on its way at the same time.
//
//   delay_proxy MICROSECONDS PORT
//
// Prints its own port, and forwards until it is killed.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>

namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr asio::as_tuple_t<asio::use_awaitable_t<>> kQuiet{};
constexpr std::size_t kReadAtOnce = 64 << 10;

/// One direction of one connection: pieces that have left one end and have not reached the other.
struct Line {
  Line(std::shared_ptr<Tcp::socket> its_from, std::shared_ptr<Tcp::socket> its_to)
      : from(std::move(its_from)), to(std::move(its_to)), changed(from->get_executor()) {}

  std::shared_ptr<Tcp::socket> from;
  std::shared_ptr<Tcp::socket> to;
  std::deque<std::pair<Clock::time_point, std::string>> pieces;  // an empty one: the end
  asio::steady_timer changed;
};

asio::awaitable<void> take_in(std::shared_ptr<Line> line, Clock::duration delay) {
  for (bool again = true; again;) {
    std::string piece(kReadAtOnce, '\0');
    const auto [failed, size] = co_await line->from->async_read_some(asio::buffer(piece), kQuiet);
    piece.resize(failed ? 0 : size);
    again = !piece.empty();
    line->pieces.emplace_back(Clock::now() + delay, std::move(piece));
    line->changed.cancel();
  }
}

asio::awaitable<void> put_out(std::shared_ptr<Line> line) {
  asio::steady_timer due(line->to->get_executor());
  while (true) {
    while (line->pieces.empty()) {
      line->changed.expires_at(Clock::time_point::max());
      co_await line->changed.async_wait(kQuiet);
    }
    auto [when, piece] = std::move(line->pieces.front());
    line->pieces.pop_front();
    due.expires_at(when);
    co_await due.async_wait(kQuiet);
    boost::system::error_code ignored;
    if (piece.empty()) break;
    const auto [failed, size] = co_await asio::async_write(*line->to, asio::buffer(piece), kQuiet);
    if (failed) break;
  }
  boost::system::error_code ignored;
  line->to->close(ignored);
  line->from->close(ignored);
}

asio::awaitable<void> listen(Tcp::acceptor acceptor, Tcp::endpoint server, Clock::duration delay) {
  while (true) {
    auto [failed, socket] = co_await acceptor.async_accept(kQuiet);
    if (failed) continue;
    const auto client = std::make_shared<Tcp::socket>(std::move(socket));
    const auto there = std::make_shared<Tcp::socket>(client->get_executor());
    boost::system::error_code refused;
    there->connect(server, refused);
    if (refused) continue;
    client->set_option(Tcp::no_delay(true));
    there->set_option(Tcp::no_delay(true));
    for (const auto& line :
         {std::make_shared<Line>(client, there), std::make_shared<Line>(there, client)}) {
      asio::co_spawn(acceptor.get_executor(), take_in(line, delay), asio::detached);
      asio::co_spawn(acceptor.get_executor(), put_out(line), asio::detached);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "call: delay_proxy MICROSECONDS PORT\n");
    return 2;
  }
  const auto delay = std::chrono::microseconds(std::atoi(argv[1])) / 2;
  asio::io_context loop{1};
  Tcp::acceptor acceptor(loop, {asio::ip::address_v4::loopback(), 0});
  std::printf("%d\n", acceptor.local_endpoint().port());
  std::fflush(stdout);
  const Tcp::endpoint server(asio::ip::address_v4::loopback(),
                             static_cast<std::uint16_t>(std::atoi(argv[2])));
  asio::co_spawn(loop, listen(std::move(acceptor), server, delay), asio::detached);
  loop.run();
}
