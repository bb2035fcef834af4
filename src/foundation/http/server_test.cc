// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "testing/raw_client.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RawClient;
using ::testing::StartsWith;

constexpr const char* kGet = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

HttpReply plain(unsigned status, std::string_view why) {
  return {.status = status, .headers = {{"X-By", "server"}}, .body = std::string(why)};
}

/// A server on a free port.
struct Served {
  explicit Served(HttpHandler handler, HttpLimits limits = {}, unsigned count = 2)
      : threads(count),
        server(HttpServer::listen({.limits = limits, .error_reply = plain}, std::move(handler),
                                  threads)
                   .value()) {}
  [[nodiscard]] std::uint16_t port() const { return server->port(); }

  IoThreads threads;
  std::unique_ptr<HttpServer> server;
};

/// Replies with the request's method, target and body.
void echo(const HttpRequest& request, const Responder& responder) {
  responder.reply({.headers = {{"X-Method", request.method}, {"X-Target", request.target}},
                   .body = *request.body});
}

TEST(HttpServer, AnswersRequestsOfOneConnectionOneAfterTheOther) {
  Served served(echo);
  RawClient client(served.port());
  client.send("POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
  ASSERT_TRUE(client.read_until("hello"));
  EXPECT_THAT(client.received(), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(client.received(), HasSubstr("X-Target: /a?b\r\n"));
  EXPECT_THAT(client.received(), HasSubstr("Content-Length: 5\r\n"));
  client.send("GET /again HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.read_all(), HasSubstr("X-Target: /again\r\n"));
  EXPECT_EQ(served.server->stats().requests, 2U);
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInTheirOrder) {
  Served served(echo);
  RawClient client(served.port());
  client.send(
      "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n"
      "GET /3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string& received = client.read_all();
  EXPECT_LT(received.find("/1"), received.find("/2"));
  EXPECT_LT(received.find("/2"), received.find("/3"));
  EXPECT_NE(received.find("/3"), std::string::npos);
}

TEST(HttpServer, ReadsChunkedBodiesInPiecesOfOneByte) {
  Served served(echo);
  RawClient client(served.port());
  for (const char c :
       std::string_view("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")) {
    ASSERT_TRUE(client.send({&c, 1}));
  }
  EXPECT_TRUE(client.read_until("\r\n\r\nabcde"));
}

TEST(HttpServer, EveryResponseMayHaveMoreHeaders) {
  IoThreads threads(1);
  const auto more = [](const HttpHeaders& asked) {
    return HttpHeaders{{"X-More", "to " + std::string(asked.find("x-who").value_or("?"))}};
  };
  const auto server =
      HttpServer::listen({.limits = {.body = 3_B}, .error_reply = plain, .added_headers = more},
                         echo, threads)
          .value();
  RawClient client(server->port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nX-Who: me\r\nContent-Length: 0\r\n\r\n");
  client.send("POST / HTTP/1.1\r\nHost: h\r\nX-Who: you\r\nContent-Length: 4\r\n\r\nabcd");
  const std::string& received = client.read_all();
  EXPECT_THAT(received, HasSubstr("X-More: to me\r\n"));
  EXPECT_THAT(received, ::testing::ContainsRegex("413 (.|\n)*X-More: to you"));
}

TEST(HttpServer, TrailersAreNoHeaders) {
  Served served([](const HttpRequest& request, const Responder& responder) {
    std::string said;
    for (const auto& [name, value] : request.headers) said += name + "=" + value + ";";
    responder.reply({.body = said});
  });
  RawClient client(served.port());
  client.send(
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX-Tenant: a\r\n\r\n3\r\nabc\r\n"
      "0\r\nHost: other\r\nX-Tenant: b\r\nAuthorization: Bearer stolen\r\n\r\n"
      "GET /2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string& received = client.read_all();
  EXPECT_THAT(received,
              HasSubstr("\r\n\r\nHost=h;Transfer-Encoding=chunked;X-Tenant=a;HTTP/1.1 200"));
  EXPECT_THAT(received, EndsWith("\r\n\r\nHost=h;Connection=close;"));
}

TEST(HttpServer, BodiesOfAnyLengthAreReadWholeAndNoFurther) {
  Served served(echo);
  for (const std::size_t length : {1UL, 4095UL, 4096UL, 65'537UL, (1UL << 20) + 1, 3UL << 20}) {
    std::string body(length, '-');
    for (std::size_t i = 0; i < length; ++i) body[i] = static_cast<char>('a' + i * 7 / 5 % 26);
    RawClient client(served.port());
    client.send("POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(length) +
                "\r\n\r\n" + body.substr(0, length / 3));
    client.send(body.substr(length / 3) +
                "GET /2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    const std::string& received = client.read_all();
    const std::size_t begin = received.find("\r\n\r\n") + 4;
    EXPECT_TRUE(received.substr(begin, length) == body) << length;
    EXPECT_THAT(received.substr(begin + length), StartsWith("HTTP/1.1 200 ")) << length;
    EXPECT_THAT(received.substr(begin + length), HasSubstr("X-Target: /2\r\n")) << length;
  }
}

TEST(HttpServer, AClientThatLeavesWithinItsBodyAsksNothing) {
  Served served(echo);
  {
    RawClient client(served.port());
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n" +
                std::string(100'000, 'x'));
  }
  while (served.server->stats().open > 0) std::this_thread::yield();
  EXPECT_EQ(served.server->stats().requests, 0U);
  EXPECT_EQ(served.server->stats().bodies, 0_B);
}

TEST(HttpServer, RepliesMayComeLaterFromAnotherThread) {
  std::promise<Responder> responder_promise;
  Served served([&](const auto& /*request*/, Responder responder) {
    responder_promise.set_value(responder);
  });
  RawClient client(served.port());
  client.send(kGet);
  const Responder responder = responder_promise.get_future().get();
  responder.reply({.body = std::string("late")});
  responder.reply({.body = std::string("twice")});
  EXPECT_TRUE(client.read_until("\r\n\r\nlate"));
}

TEST(HttpServer, ARequestThatIsDroppedIs500) {
  Served served([](const auto& /*request*/, const Responder& /*dropped*/) {});
  RawClient client(served.port());
  client.send(kGet);
  EXPECT_TRUE(client.read_until("the request was dropped"));
  EXPECT_THAT(client.received(), StartsWith("HTTP/1.1 500 "));
}

TEST(HttpServer, AHandlerThatThrowsIs500) {
  Served served([](const auto& /*request*/, const Responder& /*unused*/) {
    throw std::runtime_error("a defect");
  });
  RawClient client(served.port());
  client.send(kGet);
  EXPECT_TRUE(client.read_until("the request was dropped"));
  client.send(kGet);
  EXPECT_TRUE(client.read_until("the request was dropped"));
}

TEST(HttpServer, RefusesInvalidHttpWithoutAffectingOthers) {
  Served served(echo);
  const struct {
    const char* sent;
    const char* status;
  } kCases[] = {
      {"\x16\x03\x01 hello TLS\r\n\r\n", "400"},
      {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\n\r\n", "400"},
      {"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
      {"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"GET /\xC3\xA9 HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: h\r\nA b: c\r\n\r\n", "400"},
      {"GET / HTTP/1.1\nHost: h\n\n", "400"},
      {"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n folded\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", "400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
       "400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", "501"},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n", "501"},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\nTransfer-Encoding: chunkd\r\n\r\n",
       "501"},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\nTransfer-Encoding: "
       "chunked\r\n\r\n0\r\n\r\n",
       "501"},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999999999\r\n\r\n", "413"},
  };
  for (const auto& c : kCases) {
    RawClient client(served.port());
    client.send(c.sent);
    EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 " + std::string(c.status))) << c.sent;
    EXPECT_THAT(client.received(), HasSubstr("Connection: close")) << c.sent;
  }
  EXPECT_EQ(served.server->stats().requests, 0U);
  RawClient good(served.port());
  good.send(kGet);
  EXPECT_TRUE(good.read_until("200 OK"));
}

TEST(HttpServer, LimitsOfHeadersAndBodies) {
  Served served(echo, {.body = 1_KiB, .bodies = 1_MiB, .headers = 1_KiB});
  {
    RawClient client(served.port());
    client.send("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(2000, 'x') + "\r\n\r\n");
    EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 431 "));
  }
  {
    RawClient flood(served.port());
    flood.send("GET / HTTP/1.1\r\nHost: h\r\n");
    for (int i = 0; i < 10'000 && flood.send("a: b\r\n"); ++i) continue;
    EXPECT_THAT(flood.read_all(), StartsWith("HTTP/1.1 431 "));
  }
  for (const char* length : {"Content-Length: 1025", "Transfer-Encoding: chunked"}) {
    RawClient client(served.port());
    client.send("POST / HTTP/1.1\r\nHost: h\r\n" + std::string(length) + "\r\n\r\n401\r\n" +
                std::string(1025, 'x') + "\r\n0\r\n\r\n");
    EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 413 ")) << length;
  }
  {
    RawClient fits(served.port());
    fits.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1024\r\n\r\n" +
              std::string(1024, 'x'));
    EXPECT_TRUE(fits.read_until("200 OK"));
  }
  for (const char* begins : {"0\r\n", "0;"}) {
    RawClient trailers(served.port());
    trailers.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    trailers.send(begins + std::string(1'000'000, 'x'));
    EXPECT_THAT(trailers.read_all(), StartsWith("HTTP/1.1 431 ")) << begins;
  }
  EXPECT_EQ(served.server->stats().large_headers, 4U);
  EXPECT_EQ(served.server->stats().large_bodies, 2U);
  EXPECT_EQ(served.server->stats().bodies, Bytes(0));
}

TEST(HttpServer, TotalBodyBytesAreLimitedAndReleased) {
  std::promise<Responder> responder_promise;
  Served served(
      [&](const HttpRequest& request, const Responder& responder) {
        if (request.target == "/held") return responder_promise.set_value(responder);
        responder.reply({});
      },
      {.body = 1_MiB, .bodies = Bytes(1'500'000)});
  const std::string million(1'000'000, 'x');
  const std::string rest = " HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n" + million;
  RawClient holds(served.port());
  holds.send("POST /held" + rest);
  const Responder held = responder_promise.get_future().get();
  {
    RawClient over(served.port());
    over.send("POST /over" + rest);
    EXPECT_THAT(over.read_all(), StartsWith("HTTP/1.1 503 "));
  }
  held.reply({});
  EXPECT_TRUE(holds.read_until("200 OK"));
  RawClient next(served.port());
  next.send("POST /next" + rest);
  EXPECT_TRUE(next.read_until("200 OK"));
}

TEST(HttpServer, CutsOffSlowSendersWithoutDelayingOthers) {
  Served served(echo, {.header_timeout = 50ms, .body_timeout = 50ms, .idle_timeout = 50ms});
  RawClient silent(served.port());
  RawClient head(served.port());
  head.send("GET / HTTP/1.1\r\nHo");
  RawClient body(served.port());
  body.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe");
  RawClient good(served.port());
  good.send(kGet);
  EXPECT_TRUE(good.read_until("200 OK"));
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_THAT(head.read_all(), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(body.read_all(), StartsWith("HTTP/1.1 408 "));
  EXPECT_TRUE(good.closed());
}

TEST(HttpServer, ClientsThatDoNotReadAreCutOff) {
  std::promise<void> disconnected;
  Served served(
      [&](const auto& /*request*/, const Responder& responder) {
        responder.on_disconnect([&] { disconnected.set_value(); });
        responder.reply({.body = std::string(64 << 20, 'x')});
      },
      {.write_timeout = 100ms});
  RawClient client(served.port());
  client.send(kGet);
  disconnected.get_future().get();
  EXPECT_EQ(served.server->stats().slow, 1U);
}

/// In real use 600 clients that did not read an answer of 4 MB cost 2.3 GB.
TEST(HttpServer, UnreadResponsesHaveALimit) {
  constexpr std::size_t kSize = 8UL << 20U;
  Served served(
      [&](const HttpRequest& request, const Responder& responder) {
        responder.reply({.body = std::string(request.target == "/small" ? 10 : kSize, 'x')});
      },
      {.unread = Bytes(3 * kSize)});
  std::vector<std::unique_ptr<RawClient>> silent;
  for (std::uint64_t i = 1; i <= 10; ++i) {
    silent.push_back(std::make_unique<RawClient>(served.port()));
    silent.back()->send(kGet);
    const auto waiting = [&] {
      const HttpServerStats stats = served.server->stats();
      return stats.unread_cut + stats.unread.value() / kSize;
    };
    while (waiting() < i) std::this_thread::yield();
    EXPECT_LE(served.server->stats().unread, Bytes(3 * kSize));
  }
  EXPECT_EQ(served.server->stats().unread_cut, 7U);
  RawClient reads(served.port());
  reads.send("GET /small HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(reads.read_until("xxxxxxxxxx"));
  // The longest waiting were cut off, and the others are served.
  EXPECT_TRUE(silent.front()->closed());
  EXPECT_LT(silent.front()->received().size(), kSize);
  EXPECT_TRUE(silent.back()->read_until(std::string(kSize, 'x')));
  while (served.server->stats().unread.value() > 2 * kSize) std::this_thread::yield();
}

TEST(HttpServer, ConnectionsHaveALimit) {
  Served served(echo, {.connections = 2});
  RawClient one(served.port());
  one.send(kGet);
  ASSERT_TRUE(one.read_until("200 OK"));
  auto two = std::make_unique<RawClient>(served.port());
  two->send(kGet);
  ASSERT_TRUE(two->read_until("200 OK"));
  {
    RawClient three(served.port());
    EXPECT_THAT(three.read_all(), StartsWith("HTTP/1.1 503 "));
  }
  two.reset();
  while (served.server->stats().open > 1) std::this_thread::yield();
  RawClient four(served.port());
  four.send(kGet);
  EXPECT_TRUE(four.read_until("200 OK"));
}

TEST(HttpServer, ReportsAClientDisconnect) {
  std::promise<void> disconnected;
  std::promise<Responder> responder_promise;
  Served served([&](const auto& /*request*/, const Responder& responder) {
    responder.on_disconnect([&] { disconnected.set_value(); });
    responder_promise.set_value(responder);
  });
  RawClient client(served.port());
  client.send(kGet);
  const Responder responder = responder_promise.get_future().get();
  client.close();
  disconnected.get_future().get();
  bool at_once = false;
  responder.on_disconnect([&] { at_once = true; });
  EXPECT_TRUE(at_once);
  responder.reply({});
}

/// The alarm of reading the request ended the watch.
TEST(HttpServer, ReportsADisconnectLongAfterTheTimeForReading) {
  std::promise<void> disconnected;
  std::promise<Responder> responder_promise;
  Served served(
      [&](const auto& /*request*/, const Responder& responder) {
        responder.on_disconnect([&] { disconnected.set_value(); });
        responder_promise.set_value(responder);
      },
      {.header_timeout = 20ms}, 1);
  RawClient client(served.port());
  client.send(kGet);
  const Responder responder = responder_promise.get_future().get();
  // On the connection's thread, behind its alarm.
  served.threads.post_after(0, 100ms, [&] { client.close(); });
  disconnected.get_future().get();
}

TEST(HttpServer, ReportsNoDisconnectAfterACompleteResponse) {
  std::atomic<int> left = 0;
  Served served([&](const auto& /*request*/, const Responder& responder) {
    responder.on_disconnect([&] { ++left; });
    responder.reply({.body = std::string("x")});
  });
  {
    RawClient client(served.port());
    client.send(kGet);
    ASSERT_TRUE(client.read_until("\r\n\r\nx"));
  }
  while (served.server->stats().open > 0) std::this_thread::yield();
  EXPECT_EQ(left, 0);
}

/// A body that the test writes step by step.
class Written final : public BodySource {
 public:
  Piece read(std::size_t from, std::function<void()> wake) override {
    const std::scoped_lock lock(mutex_);
    if (from < bytes_.size()) return {.bytes = bytes_.substr(from), .state = State::kMore};
    if (state_ == State::kMore) wakes_.push_back(std::move(wake));
    return {.bytes = {}, .state = state_};
  }
  void left() override {
    const std::scoped_lock lock(mutex_);
    ++left_;
    changed_.notify_all();
  }
  void write(const std::string& more, State state = State::kMore) {
    std::vector<std::function<void()>> wakes;
    {
      const std::scoped_lock lock(mutex_);
      bytes_ += more;
      state_ = state;
      wakes.swap(wakes_);
    }
    for (const auto& wake : wakes) wake();
  }
  void wait_left(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return left_ == count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string bytes_;
  State state_ = State::kMore;
  std::vector<std::function<void()>> wakes_;
  int left_ = 0;
};

TEST(HttpServer, StreamsIncrementalBodies) {
  const auto body = std::make_shared<Written>();
  Served served([&](const auto& /*request*/, const Responder& responder) {
    responder.reply({.headers = {{"X", "y"}}, .body = body});
  });
  RawClient one(served.port());
  RawClient two(served.port());
  one.send(kGet);
  two.send(kGet);
  ASSERT_TRUE(one.read_until("X: y\r\nTransfer-Encoding: chunked\r\n\r\n"));
  body->write("first");
  ASSERT_TRUE(one.read_until("5\r\nfirst\r\n"));
  body->write("second", BodySource::State::kEnd);
  EXPECT_TRUE(one.read_until("6\r\nsecond\r\n0\r\n\r\n"));
  EXPECT_TRUE(two.read_until("0\r\n\r\n"));
  body->wait_left(2);
  one.send(kGet);
  EXPECT_TRUE(one.read_until("b\r\nfirstsecond\r\n0\r\n\r\n")) << "the connection stays open";
}

/// A body whose length is known, made in pieces.
class Counted final : public BodySource {
 public:
  Piece read(std::size_t from, std::function<void()> /*wake*/) override {
    return {.bytes = std::string(3, 'x'), .state = from + 3 == 9 ? State::kEnd : State::kMore};
  }
  [[nodiscard]] std::optional<std::size_t> size() const override { return 9; }
};

TEST(HttpServer, ABodyOfKnownLengthIsSentAsItIs) {
  Served served([](const auto& /*request*/, const Responder& responder) {
    responder.reply({.body = std::make_shared<Counted>()});
  });
  RawClient client(served.port());
  client.send("HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(client.read_until("Content-Length: 9\r\n\r\n"));
  client.send("GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.read_all(),
              EndsWith("Content-Length: 9\r\nConnection: close\r\n\r\nxxxxxxxxx"));
}

TEST(HttpServer, ABrokenBodyCutsTheConnection) {
  const auto body = std::make_shared<Written>();
  Served served([&](const auto& /*request*/, const Responder& responder) {
    responder.reply({.body = body});
  });
  RawClient client(served.port());
  client.send(kGet);
  body->write("part");
  ASSERT_TRUE(client.read_until("part"));
  body->write("", BodySource::State::kBroken);
  EXPECT_TRUE(client.closed());
  EXPECT_THAT(client.received(), Not(HasSubstr("0\r\n\r\n")));
  body->wait_left(1);
}

TEST(HttpServer, ReportsAReaderThatLeavesEarly) {
  const auto body = std::make_shared<Written>();
  Served served([&](const auto& /*request*/, const Responder& responder) {
    responder.reply({.body = body});
  });
  RawClient client(served.port());
  client.send(kGet);
  ASSERT_TRUE(client.read_until("\r\n\r\n"));
  client.close();
  body->wait_left(1);
}

TEST(HttpServer, Http10ClientsGetABodyEndedByClose) {
  const auto body = std::make_shared<Written>();
  body->write("all", BodySource::State::kMore);
  body->write("", BodySource::State::kEnd);
  Served served([&](const auto& /*request*/, const Responder& responder) {
    responder.reply({.body = body});
  });
  RawClient client(served.port());
  client.send("GET /x HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.read_all(), ::testing::EndsWith("\r\n\r\nall"));
}

TEST(HttpServer, DrainFinishesRequestsAndAcceptsNoMore) {
  std::promise<Responder> responder_promise;
  Served served([&](const auto& /*request*/, Responder responder) {
    responder_promise.set_value(responder);
  });
  RawClient idle(served.port());
  RawClient busy(served.port());
  busy.send(kGet);
  const Responder responder = responder_promise.get_future().get();
  EXPECT_FALSE(served.server->drain(Duration(0)));
  EXPECT_TRUE(idle.closed());
  responder.reply({.body = std::string("done")});
  EXPECT_TRUE(served.server->drain(10s));
  EXPECT_THAT(busy.read_all(), HasSubstr("Connection: close\r\n\r\ndone"));
}

/// Keeps the only thread of a server busy.
class Busy {
 public:
  explicit Busy(IoThreads& threads) {
    threads.post(0, [this] {
      begun_.set_value();
      goes_on_.get_future().wait();
      over_.set_value();
    });
    begun_.get_future().wait();
  }
  ~Busy() {
    goes_on_.set_value();
    over_.get_future().wait();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::promise<void> begun_;
  std::promise<void> goes_on_;
  std::promise<void> over_;
};

/// In real use 12 of 256 clients that had just sent a request were reset.
TEST(HttpServer, DrainAnswersRequestsOfIdleConnectionsThatAreOnTheirWay) {
  Served served(echo, {}, 1);
  RawClient client(served.port());
  client.send(kGet);
  ASSERT_TRUE(client.read_until("200 OK"));
  {
    const Busy busy(served.threads);
    EXPECT_FALSE(served.server->drain(Duration(0)));
    client.send("GET /last HTTP/1.1\r\nHost: h\r\n\r\n");
  }
  EXPECT_THAT(client.read_all(), HasSubstr("X-Target: /last\r\n"));
  EXPECT_THAT(client.received(), HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(served.server->drain(10s));
}

/// Connected, and not accepted yet.
TEST(HttpServer, DrainAnswersClientsThatWereNotYetAccepted) {
  Served served(echo, {}, 1);
  std::vector<std::unique_ptr<RawClient>> clients;
  {
    const Busy busy(served.threads);
    for (int i = 0; i < 8; ++i) {
      clients.push_back(std::make_unique<RawClient>(served.port()));
      clients.back()->send(kGet);
    }
    EXPECT_FALSE(served.server->drain(Duration(0)));
  }
  for (const auto& client : clients) EXPECT_THAT(client->read_all(), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(served.server->drain(10s));
}

TEST(HttpServer, DrainEndsIdleConnectionsThatSendNothing) {
  Served served(echo, {}, 1);
  RawClient client(served.port());
  client.send(kGet);
  ASSERT_TRUE(client.read_until("200 OK"));
  {
    const Busy after(served.threads);
  }  // the connection is idle then
  EXPECT_TRUE(served.server->drain(10s));
  EXPECT_TRUE(client.closed());
}

/// Takes all file descriptors that the process has left.
struct NoDescriptorsLeft {
  NoDescriptorsLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before);
    const int next = ::eventfd(0, 0);
    ::close(next);
    const rlimit low{.rlim_cur = static_cast<rlim_t>(next) + 20, .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &low);
    for (int one = ::eventfd(0, 0); one >= 0; one = ::eventfd(0, 0)) taken.push_back(one);
  }
  ~NoDescriptorsLeft() {
    for (const int one : taken) ::close(one);
    ::setrlimit(RLIMIT_NOFILE, &before);
  }
  rlimit before{};
  std::vector<int> taken;
};

/// In real use new clients hung, and nothing was logged.
TEST(HttpServer, WithoutFileDescriptorsClientsAreToldAndSoIsTheOperator) {
  std::atomic<int> told = 0;
  IoThreads threads(1);
  const auto server =
      HttpServer::listen({.error_reply = plain, .on_no_descriptors = [&] { ++told; }}, echo,
                         threads)
          .value();
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(server->port());
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<int> clients(3);
  for (int& client : clients) client = ::socket(AF_INET, SOCK_STREAM, 0);
  {  // sanitizers need descriptors where something happens for the first time
    RawClient first(server->port());
    first.send(kGet);
    ASSERT_TRUE(first.read_until("200 OK"));
  }
  while (server->stats().open > 0) std::this_thread::yield();
  std::vector<std::string> got;
  {
    const NoDescriptorsLeft none;
    for (const int client : clients) {
      ::connect(client, reinterpret_cast<const sockaddr*>(&where), sizeof where);
      ::send(client, kGet, std::strlen(kGet), MSG_NOSIGNAL);
      std::string& bytes = got.emplace_back(64, '\0');
      bytes.resize(static_cast<std::size_t>(
          std::max<ssize_t>(0, ::recv(client, bytes.data(), bytes.size(), MSG_WAITALL))));
    }
  }
  for (const std::string& bytes : got) EXPECT_THAT(bytes, StartsWith("HTTP/1.1 503 "));
  for (const int client : clients) ::close(client);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(server->stats().no_descriptors, 3U);
  // The last of those that are refused may be one that came when there were descriptors again.
  for (bool served = false; !served;) {
    RawClient next(server->port());
    next.send(kGet);
    served = next.read_until("200 OK");
  }
}

TEST(HttpServer, CanBeDestroyedWithUnansweredRequests) {
  std::promise<Responder> responder_promise;
  std::atomic<int> disconnected = 0;
  std::optional<Responder> kept;
  {
    Served served([&](const auto& /*request*/, Responder responder) {
      responder.on_disconnect([&] { ++disconnected; });
      responder_promise.set_value(responder);
    });
    RawClient client(served.port());
    client.send(kGet);
    kept = responder_promise.get_future().get();
    served.server.reset();
    EXPECT_EQ(disconnected, 1);
    EXPECT_TRUE(client.closed());
  }
  kept->reply({});
}

TEST(HttpServer, AnAddressThatIsTakenIsAnError) {
  Served served(echo);
  const auto second =
      HttpServer::listen({.port = served.port(), .error_reply = plain}, echo, served.threads);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(served.port())));
  const auto none =
      HttpServer::listen({.address = "nowhere", .error_reply = plain}, echo, served.threads);
  EXPECT_EQ(none.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace afterimage
