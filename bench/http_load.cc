// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// One client that calls several servers alternately, so that drift affects all of them.
//
//   http_load turns REQUESTS BYTES PORT...   new questions, one at a time
//   http_load same REQUESTS FILE PORT...     the same question again and again
//   http_load fan CLIENTS FILE PORT [HEADER] concurrent identical requests, with "Name: value"; the answer is a stream
//   http_load misses CLIENTS BYTES PORT SECONDS    concurrent clients, each with new questions only
//
// Prints JSON: nanoseconds, by port; of misses the requests, after a second that does not count.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr asio::as_tuple_t<asio::use_awaitable_t<>> kQuiet{};
constexpr std::size_t kLargestAnswer = 64 << 20;
constexpr std::size_t kReadAtOnce = 64 << 10;

Tcp::endpoint at(const std::string& port) {
  return {asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(std::stoul(port))};
}

std::string request_with(const std::string& body, const std::string& header = "") {
  return fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
      "Content-Type: application/json\r\nAuthorization: Bearer sk-bench\r\n"
      "{}{}Content-Length: {}\r\n\r\n{}",
      header, header.empty() ? "" : "\r\n", body.size(), body);
}

/// A new question of about that many bytes, of words of two to nine letters.
std::string new_question(std::size_t bytes) {
  static std::mt19937_64 chance{std::random_device{}()};
  std::string words;
  while (words.size() + 110 < bytes) {
    std::uint64_t drawn = chance();
    for (std::uint64_t left = 2 + drawn % 8; left > 0; --left) {
      drawn /= 26;
      words += static_cast<char>('a' + drawn % 26);
    }
    words += ' ';
  }
  return fmt::format(
      R"({{"model":"mock","temperature":0,"messages":[{{"role":"user","content":"Explain {}"}}]}})",
      words);
}

std::string content_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Server {
 public:
  Server(asio::io_context& loop, const std::string& port) : port_(port), socket_(loop) {
    socket_.connect(at(port));
    socket_.set_option(Tcp::no_delay(true));
  }
  void ask(const std::string& request, bool counts) {
    const auto begin = Clock::now();
    asio::write(socket_, asio::buffer(request));
    http::response_parser<http::string_body> answer;
    answer.body_limit(kLargestAnswer);
    http::read(socket_, buffer_, answer);
    const auto end = Clock::now();
    if (answer.get().result() != http::status::ok) {
      throw std::runtime_error(fmt::format("port {} answered {}: {}", port_,
                                           answer.get().result_int(), answer.get().body()));
    }
    if (counts) took_.push_back((end - begin).count());
  }
  std::string report() {
    std::ranges::sort(took_);
    const auto quantile = [this](double share) {
      return took_[static_cast<std::size_t>(share * static_cast<double>(took_.size() - 1))];
    };
    return fmt::format(R"("{}":{{"p50":{},"p90":{},"p99":{},"requests":{}}})", port_, quantile(0.5),
                       quantile(0.9), quantile(0.99), took_.size());
  }

 private:
  std::string port_;
  Tcp::socket socket_;
  beast::flat_buffer buffer_;
  std::vector<Clock::rep> took_;
};

/// Each round calls every server once, in a random order: work that a server leaves for after its reply delays the next
/// request, whichever server gets it.
template <typename Question>
void in_turn(std::size_t requests, const std::vector<std::string>& ports, Question question) {
  asio::io_context loop;
  std::vector<Server> servers;
  for (const std::string& port : ports) servers.emplace_back(loop, port);
  std::vector<Server*> order;
  for (Server& server : servers) order.push_back(&server);
  std::mt19937_64 chance{std::random_device{}()};
  const std::size_t warm_up = std::max<std::size_t>(1, requests / 20);
  for (std::size_t round = 0; round < requests + warm_up; ++round) {
    std::ranges::shuffle(order, chance);
    for (Server* const server : order) server->ask(request_with(question()), round >= warm_up);
  }
  std::vector<std::string> reports;
  for (Server& server : servers) reports.push_back(server.report());
  fmt::print("{{{}}}\n", fmt::join(reports, ","));
}

struct Stream {
  Clock::time_point first;
  Clock::time_point end;
  std::string body;
};

/// Parses what has arrived. The library's own read waits for more before it returns.
void take_in(beast::flat_buffer& buffer, http::response_parser<http::string_body>& answer) {
  beast::error_code failed;
  while (buffer.size() > 0 && !answer.is_done()) {
    const std::size_t taken = answer.put(buffer.data(), failed);
    buffer.consume(taken);
    if (failed && failed != http::error::need_more) throw beast::system_error(failed);
    if (taken == 0) return;
  }
}

asio::awaitable<void> read_stream(Tcp::socket& socket, Stream& stream) {
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> answer;
  answer.body_limit(kLargestAnswer);
  answer.eager(true);
  while (!answer.is_done()) {
    const auto [failed, size] =
        co_await socket.async_read_some(buffer.prepare(kReadAtOnce), kQuiet);
    if (failed) throw std::runtime_error("a stream ended early: " + failed.message());
    buffer.commit(size);
    take_in(buffer, answer);
    if (stream.first == Clock::time_point() && !answer.get().body().empty()) {
      stream.first = Clock::now();
    }
  }
  if (answer.get().result() != http::status::ok) throw std::runtime_error(answer.get().body());
  stream.end = Clock::now();
  stream.body = answer.get().body();
}

void fan(std::size_t clients, const std::string& file, const std::string& port,
         const std::string& header) {
  asio::io_context loop;
  const std::string request = request_with(content_of(file), header);
  std::vector<Tcp::socket> sockets;
  std::vector<Stream> streams(clients);
  for (std::size_t i = 0; i < clients; ++i) {
    sockets.emplace_back(loop).connect(at(port));
    sockets.back().set_option(Tcp::no_delay(true));
  }
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < clients; ++i) {
    asio::write(sockets[i], asio::buffer(request));
    asio::co_spawn(loop, read_stream(sockets[i], streams[i]), [](const std::exception_ptr& failed) {
      if (failed) std::rethrow_exception(failed);
    });
  }
  loop.run();
  std::vector<Clock::rep> first;
  std::vector<Clock::rep> end;
  std::set<std::string> bodies;
  for (const Stream& stream : streams) {
    first.push_back((stream.first - begin).count());
    end.push_back((stream.end - begin).count());
    bodies.insert(stream.body);
  }
  std::ranges::sort(first);
  std::ranges::sort(end);
  fmt::print(
      R"({{"first_p50":{},"first_max":{},"end_p50":{},"end_max":{},"different":{},"bytes":{}}})"
      "\n",
      first[clients / 2], first.back(), end[clients / 2], end.back(), bodies.size(),
      bodies.begin()->size());
}

struct Misses {
  Clock::time_point begin;
  Clock::time_point end;
  std::size_t requests = 0;
};

asio::awaitable<void> keep_asking(Tcp::socket& socket, std::size_t bytes, Misses& misses) {
  beast::flat_buffer buffer;
  while (Clock::now() < misses.end) {
    const std::string request = request_with(new_question(bytes));
    co_await asio::async_write(socket, asio::buffer(request), asio::use_awaitable);
    http::response_parser<http::string_body> answer;
    co_await http::async_read(socket, buffer, answer, asio::use_awaitable);
    if (answer.get().result() != http::status::ok) throw std::runtime_error(answer.get().body());
    const auto now = Clock::now();
    if (now >= misses.begin && now < misses.end) ++misses.requests;
  }
}

void ask_anew(std::size_t clients, std::size_t bytes, const std::string& port, double seconds) {
  asio::io_context loop;
  std::vector<Tcp::socket> sockets;
  Misses misses;
  misses.begin = Clock::now() + std::chrono::seconds(1);
  misses.end = misses.begin +
               std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (std::size_t i = 0; i < clients; ++i) {
    sockets.emplace_back(loop).connect(at(port));
    sockets.back().set_option(Tcp::no_delay(true));
  }
  for (Tcp::socket& socket : sockets) {
    asio::co_spawn(loop, keep_asking(socket, bytes, misses), [](const std::exception_ptr& failed) {
      if (failed) std::rethrow_exception(failed);
    });
  }
  loop.run();
  fmt::print(R"({{"requests":{},"seconds":{}}})"
             "\n",
             misses.requests, seconds);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 4 || std::stoul(words[1]) == 0) {
    fmt::print(stderr,
               "usage: http_load turns REQUESTS BYTES PORT... | same REQUESTS FILE PORT... | "
               "fan CLIENTS FILE PORT [HEADER] | misses CLIENTS BYTES PORT SECONDS\n");
    return 2;
  }
  const std::vector<std::string> ports(words.begin() + 3, words.end());
  if (words[0] == "turns") {
    in_turn(std::stoul(words[1]), ports,
            [bytes = std::stoul(words[2])] { return new_question(bytes); });
  } else if (words[0] == "same") {
    in_turn(std::stoul(words[1]), ports, [body = content_of(words[2])] { return body; });
  } else if (words[0] == "misses" && words.size() == 5) {
    ask_anew(std::stoul(words[1]), std::stoul(words[2]), words[3], std::stod(words[4]));
  } else {
    fan(std::stoul(words[1]), words[2], ports[0], ports.size() > 1 ? ports[1] : "");
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "http_load: {}\n", error.what());
  return 1;
}
