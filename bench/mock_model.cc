// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// A model server without a model: its answer depends on the request, after a configurable delay.
// Streams on request.
//
//   mock_model [--threads N] [--delay-ms N] [--chunks N] [--chunk-ms N]
//
// Prints its port, and serves until it is killed. GET /calls returns the number of answers.
#include <fmt/format.h>
#include <openssl/sha.h>

#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using Request = http::request<http::string_body>;

constexpr asio::as_tuple_t<asio::use_awaitable_t<>> kQuiet{};
constexpr std::size_t kLargestBody = 64 << 20;

struct Manner {
  int threads = 1;
  int delay_ms = 0;
  int chunks = 32;
  int chunk_ms = 0;
};

std::atomic<long> calls = 0;

/// 64 hex digits that differ for each body.
std::string text_for(const std::string& body) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(body.data()), body.size(), digest.data());
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string whole_answer(const std::string& text) {
  return fmt::format(
      R"({{"id":"chatcmpl-mock","object":"chat.completion","created":1700000000,"model":"mock",)"
      R"("choices":[{{"index":0,"message":{{"role":"assistant","content":"{}","refusal":null}},)"
      R"("logprobs":null,"finish_reason":"stop"}}],)"
      R"("usage":{{"prompt_tokens":64,"completion_tokens":32,"total_tokens":96}}}})",
      text);
}

std::string event(std::string_view delta, std::string_view finish) {
  return fmt::format(
      R"(data: {{"id":"chatcmpl-mock","object":"chat.completion.chunk","created":1700000000,)"
      R"("model":"mock","choices":[{{"index":0,"delta":{},"logprobs":null,"finish_reason":{}}}]}})"
      "\n\n",
      delta, finish);
}

asio::awaitable<void> pause(int milliseconds) {
  if (milliseconds <= 0) co_return;
  asio::steady_timer timer(co_await asio::this_coro::executor,
                           std::chrono::milliseconds(milliseconds));
  co_await timer.async_wait(kQuiet);
}

asio::awaitable<bool> say(beast::tcp_stream& stream, std::string_view text) {
  const auto [failed, size] =
      co_await asio::async_write(stream, asio::buffer(text.data(), text.size()), kQuiet);
  co_return !failed;
}

asio::awaitable<bool> say_chunk(beast::tcp_stream& stream, std::string text) {
  text = fmt::format("{:x}\r\n{}\r\n", text.size(), text);
  co_return co_await say(stream, text);
}

asio::awaitable<bool> stream_answer(beast::tcp_stream& stream, std::string text, Manner manner) {
  if (!co_await say(stream,
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n"))
    co_return false;
  if (!co_await say_chunk(stream, event(R"({"role":"assistant","content":""})", "null")))
    co_return false;
  for (int i = 0; i < manner.chunks; ++i) {
    co_await pause(manner.chunk_ms);
    const std::string delta = fmt::format(R"({{"content":"{}{} "}})", text.substr(0, 12), i);
    if (!co_await say_chunk(stream, event(delta, "null"))) co_return false;
  }
  if (!co_await say_chunk(stream, event("{}", R"("stop")"))) co_return false;
  if (!co_await say_chunk(stream, "data: [DONE]\n\n")) co_return false;
  co_return co_await say(stream, "0\r\n\r\n");
}

http::response<http::string_body> json(const Request& request, std::string body) {
  http::response<http::string_body> answer{http::status::ok, request.version()};
  answer.set(http::field::content_type, "application/json");
  answer.keep_alive(request.keep_alive());
  answer.body() = std::move(body);
  answer.prepare_payload();
  return answer;
}

bool wants_stream(const std::string& body) {
  return body.find(R"("stream":true)") != std::string::npos ||
         body.find(R"("stream": true)") != std::string::npos;
}

asio::awaitable<bool> answer(beast::tcp_stream& stream, const Request& request, Manner manner) {
  if (request.method() == http::verb::get) {
    const auto count = json(request, std::to_string(calls));
    const auto [failed, size] = co_await http::async_write(stream, count, kQuiet);
    co_return !failed && request.keep_alive();
  }
  ++calls;
  co_await pause(manner.delay_ms);
  const std::string text = text_for(request.body());
  if (wants_stream(request.body())) {
    co_return co_await stream_answer(stream, text, manner) && request.keep_alive();
  }
  const auto whole = json(request, whole_answer(text));
  const auto [failed, size] = co_await http::async_write(stream, whole, kQuiet);
  co_return !failed && request.keep_alive();
}

asio::awaitable<void> session(beast::tcp_stream stream, Manner manner) {
  beast::error_code ignored;
  stream.socket().set_option(Tcp::no_delay(true), ignored);
  beast::flat_buffer buffer;
  for (bool again = true; again;) {
    http::request_parser<http::string_body> parser;
    parser.body_limit(kLargestBody);
    const auto [failed, size] = co_await http::async_read(stream, buffer, parser, kQuiet);
    again = !failed && co_await answer(stream, parser.get(), manner);
  }
  stream.socket().shutdown(Tcp::socket::shutdown_send, ignored);
}

asio::awaitable<void> listen(Tcp::acceptor acceptor, Manner manner) {
  while (true) {
    auto [failed, socket] = co_await acceptor.async_accept(kQuiet);
    if (failed) continue;
    const auto executor = socket.get_executor();
    asio::co_spawn(executor, session(beast::tcp_stream(std::move(socket)), manner), asio::detached);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Manner manner;
  const std::map<std::string_view, int*> options{{"--threads", &manner.threads},
                                                 {"--delay-ms", &manner.delay_ms},
                                                 {"--chunks", &manner.chunks},
                                                 {"--chunk-ms", &manner.chunk_ms}};
  for (int i = 1; i < argc; i += 2) {
    const auto option = options.find(argv[i]);
    if (option == options.end() || i + 1 == argc) {
      fmt::print(stderr,
                 "call: mock_model [--threads N] [--delay-ms N] [--chunks N] [--chunk-ms N]\n");
      return 2;
    }
    *option->second = std::atoi(argv[i + 1]);
  }
  asio::io_context loop{manner.threads};
  Tcp::acceptor acceptor(loop, {asio::ip::address_v4::loopback(), 0});
  fmt::print("{}\n", acceptor.local_endpoint().port());
  std::fflush(stdout);
  asio::co_spawn(loop, listen(std::move(acceptor), manner), asio::detached);
  std::vector<std::jthread> others;
  for (int i = 1; i < manner.threads; ++i) others.emplace_back([&loop] { loop.run(); });
  loop.run();
}
