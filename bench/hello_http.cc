// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// The upper limit of the HTTP library: reads a request and answers 200 with the same body each
// time, like the coroutine servers in Boost.Beast's own examples.
//
//   hello_http THREADS BODY_BYTES [BUFFER_BYTES]     prints its port, and serves until it is killed
//
// The examples' buffer is as small as a request's head, so a body of 1 MiB is read in thousands of
// pieces; set BUFFER_BYTES to avoid that.
#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using Stream = beast::tcp_stream;

constexpr asio::as_tuple_t<asio::use_awaitable_t<>> kQuiet{};
constexpr std::size_t kLargestBody = 64 << 20;

http::response<http::string_body> hello(const http::request<http::string_body>& request,
                                        const std::string& body) {
  http::response<http::string_body> answer{http::status::ok, request.version()};
  answer.set(http::field::server, "hello");
  answer.set(http::field::content_type, "application/json");
  answer.keep_alive(request.keep_alive());
  answer.body() = body;
  answer.prepare_payload();
  return answer;
}

asio::awaitable<void> session(Stream stream, const std::string& body, std::size_t reserved) {
  beast::error_code ignored;
  stream.socket().set_option(Tcp::no_delay(true), ignored);
  beast::flat_buffer buffer;
  buffer.reserve(reserved);
  while (true) {
    stream.expires_after(std::chrono::seconds(30));
    http::request_parser<http::string_body> parser;
    parser.body_limit(kLargestBody);
    const auto [failed, size] = co_await http::async_read(stream, buffer, parser, kQuiet);
    if (failed) break;
    const auto answer = hello(parser.get(), body);
    const auto [unsent, sent] = co_await http::async_write(stream, answer, kQuiet);
    if (unsent || answer.need_eof()) break;
  }
  stream.socket().shutdown(Tcp::socket::shutdown_send, ignored);
}

asio::awaitable<void> listen(Tcp::acceptor acceptor, const std::string& body,
                             std::size_t reserved) {
  while (true) {
    auto [failed, socket] = co_await acceptor.async_accept(kQuiet);
    if (failed) continue;
    const auto executor = socket.get_executor();
    asio::co_spawn(executor, session(Stream(std::move(socket)), body, reserved), asio::detached);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    fmt::print(stderr, "usage: hello_http THREADS BODY_BYTES [BUFFER_BYTES]\n");
    return 2;
  }
  const int threads = std::max(1, std::atoi(argv[1]));
  const std::size_t size = std::max<std::size_t>(16, std::strtoul(argv[2], nullptr, 10));
  const std::size_t reserved = argc == 4 ? std::strtoul(argv[3], nullptr, 10) : 0;
  const std::string body = R"({"hello":")" + std::string(size - 12, 'x') + "\"}";
  asio::io_context loop{threads};
  Tcp::acceptor acceptor(loop, {asio::ip::address_v4::loopback(), 0});
  fmt::print("{}\n", acceptor.local_endpoint().port());
  std::fflush(stdout);
  asio::co_spawn(loop, listen(std::move(acceptor), body, reserved), asio::detached);
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([&loop] { loop.run(); });
  loop.run();
}
