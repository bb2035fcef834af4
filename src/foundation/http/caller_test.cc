// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/caller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "foundation/http/server.h"
#include "testing/local_server.h"
#include "testing/mortal_server.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::LocalServer;

/// Records the events of one call.
class Heard final : public HttpListener {
 public:
  void on_head(unsigned status, HttpHeaders headers) override {
    const std::scoped_lock lock(mutex_);
    status_ = status;
    headers_ = std::move(headers);
  }
  void on_bytes(std::string_view bytes) override {
    const std::scoped_lock lock(mutex_);
    body_.append(bytes);
    changed_.notify_all();
  }
  void on_end() override { settle(std::nullopt); }
  void on_error(const Error& error) override { settle(error); }
  void on_failure(const HttpFailure& failure) override {
    failure_ = failure;
    on_error(failure.error);
  }

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return settled_ > 0; });
  }
  void wait_for_bytes(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return body_.size() >= count; });
  }
  // After wait().
  [[nodiscard]] unsigned status() const { return status_; }
  [[nodiscard]] const std::string& body() const { return body_; }
  [[nodiscard]] const HttpHeaders& headers() const { return headers_; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  [[nodiscard]] const HttpFailure& failure() const { return failure_; }
  [[nodiscard]] int settled() const { return settled_; }

 private:
  void settle(std::optional<Error> error) {
    const std::scoped_lock lock(mutex_);
    error_ = std::move(error);
    ++settled_;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned status_ = 0;
  HttpHeaders headers_;
  std::string body_;
  std::optional<Error> error_;
  HttpFailure failure_;
  int settled_ = 0;
};

/// An endless body that yields one byte at a time.
struct Dribble final : BodySource {
  Piece read(std::size_t /*from*/, std::function<void()> /*wake*/) override {
    return {.bytes = "x", .state = State::kMore};
  }
};

struct Calling {
  std::shared_ptr<Heard> call(HttpCall made) {
    auto heard = std::make_shared<Heard>();
    caller.call(std::move(made), heard);
    heard->wait();
    return heard;
  }
  IoThreads threads{1};
  HttpCaller caller{{}, threads};
};

HttpCall to(const std::string& url, std::string body = "") {
  return {.url = parse_url(url).value(),
          .body = std::make_shared<const std::string>(std::move(body))};
}

struct Echo {
  Echo()
      : server(HttpServer::listen(
                   {.error_reply = nullptr},
                   [this](const HttpRequest& request, const Responder& responder) {
                     peers.insert(request.peer);
                     responder.reply({.headers = {{"X", request.target}}, .body = request.body});
                   },
                   threads)
                   .value()) {}
  [[nodiscard]] std::string url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(server->port()) + path;
  }
  IoThreads threads{1};
  std::set<std::string> peers;
  std::unique_ptr<HttpServer> server;
};

TEST(HttpCaller, OneConnectionServesManyCalls) {
  const Echo echo;
  Calling calling;
  for (int i = 0; i < 5; ++i) {
    const auto heard =
        calling.call(to(echo.url("/a" + std::to_string(i)), std::string(300'000, 'x')));
    ASSERT_FALSE(heard->error().has_value()) << heard->error()->message;
    EXPECT_EQ(heard->status(), 200U);
    EXPECT_EQ(heard->headers().find("x"), "/a" + std::to_string(i));
    EXPECT_EQ(heard->body().size(), 300'000U);
  }
  EXPECT_EQ(echo.server->stats().accepted, 1U);
}

TEST(HttpCaller, ReplacesAReusedConnectionThatWasClosed) {
  Calling calling;
  auto echo = std::make_unique<Echo>();
  const std::uint16_t port = echo->server->port();
  EXPECT_EQ(calling.call(to(echo->url("/")))->status(), 200U);
  echo->server.reset();
  echo->server = HttpServer::listen(
                     {.port = port, .error_reply = nullptr},
                     [](const auto& /*request*/, const Responder& responder) {
                       responder.reply({.status = 204});
                     },
                     echo->threads)
                     .value();
  EXPECT_EQ(calling.call(to(echo->url("/")))->status(), 204U);
}

/// One that is closed without an answer is sent once more, and no oftener: it may be what ends its
/// server.
TEST(HttpCaller, SaysHowFarAFailedCallCame) {
  using testing::MortalServer;
  using Fate = MortalServer::Fate;
  const auto behave = [](const std::string& head, const std::string&) -> MortalServer::Act {
    if (head.starts_with("POST /die")) return {.fate = Fate::kDie};
    if (head.starts_with("POST /close")) return {.fate = Fate::kClose};
    if (head.starts_with("POST /half")) {
      return {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", .closes = true};
    }
    return {.answer = "HTTP/1.1 204 X\r\n\r\n"};
  };
  MortalServer server(behave);
  Calling fresh;
  const auto closed = fresh.call(to(server.url() + "/close"));
  EXPECT_EQ(closed->failure().stage, HttpStage::kUnanswered);
  EXPECT_FALSE(closed->failure().resent || closed->failure().reused);
  EXPECT_EQ(fresh.call(to(server.url() + "/half"))->failure().stage, HttpStage::kBroken);
  EXPECT_EQ(server.posts(), 2);
  // Two connections are kept; the request is sent on one of them, and on a new one.
  Calling kept;
  auto one = std::make_shared<Heard>();
  auto two = std::make_shared<Heard>();
  kept.caller.call(to(server.url() + "/"), one);
  kept.caller.call(to(server.url() + "/"), two);
  one->wait();
  two->wait();
  const auto again = kept.call(to(server.url() + "/close"));
  EXPECT_EQ(again->failure().stage, HttpStage::kUnanswered);
  EXPECT_TRUE(again->failure().resent);
  EXPECT_EQ(server.posts(), 2 + 2 + 2);
  const auto died = kept.call(to(server.url() + "/die"));
  EXPECT_EQ(died->failure().stage, HttpStage::kUnanswered) << "and a new connection was refused";
  EXPECT_TRUE(server.is_dead());
  const auto refused = kept.call(to(server.url() + "/"));
  EXPECT_EQ(refused->failure().stage, HttpStage::kNotSent);
}

TEST(HttpCaller, ReadsResponsesOfEveryFraming) {
  const struct {
    const char* response;
    const char* body;
  } kCases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "ab"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n", "ab"},
      {"HTTP/1.1 200 OK\r\n\r\nab", "ab"},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", "a"},
      {"HTTP/1.1 204 No Content\r\n\r\n", ""},
  };
  for (const auto& c : kCases) {
    LocalServer server([&](const auto&, const auto&) { return std::string(c.response); });
    Calling calling;
    const auto heard = calling.call(to(server.url("/")));
    ASSERT_FALSE(heard->error().has_value()) << c.response << heard->error()->message;
    EXPECT_EQ(heard->body(), c.body) << c.response;
  }
}

TEST(HttpCaller, TruncatedAndInvalidResponsesAreErrors) {
  const struct {
    const char* response;
    ErrorCode code;
  } kCases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", ErrorCode::kUnavailable},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na", ErrorCode::kUnavailable},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\na", ErrorCode::kCorruption},
      {"hello\r\n\r\n", ErrorCode::kCorruption},
      {"HTTP/1.1 200 OK\r\nContent-", ErrorCode::kUnavailable},
  };
  for (const auto& c : kCases) {
    LocalServer server([&](const auto&, const auto&) { return std::string(c.response); });
    Calling calling;
    const auto heard = calling.call(to(server.url("/")));
    ASSERT_TRUE(heard->error().has_value()) << c.response;
    EXPECT_EQ(heard->error()->code, c.code) << c.response << heard->error()->message;
    EXPECT_EQ(heard->settled(), 1);
  }
}

TEST(HttpCaller, TimeLimitsHold) {
  LocalServer server([](const auto&, const auto&) { return std::string(); });
  Calling calling;
  HttpCall call = to(server.url("/"));
  call.idle_timeout = 50ms;
  const auto heard = calling.call(std::move(call));
  EXPECT_EQ(heard->error()->code, ErrorCode::kTimeout);
  EXPECT_THAT(heard->error()->message, HasSubstr("in time"));
}

TEST(HttpCaller, DoesNotRetryOnASlowReusedConnection) {
  IoThreads threads{1};
  std::vector<Responder> unanswered;
  std::atomic<int> requests = 0;
  const auto server = HttpServer::listen(
                          {.error_reply = nullptr},
                          [&](const HttpRequest& request, const Responder& given) {
                            ++requests;
                            if (request.target == "/slow") {
                              unanswered.push_back(given);
                            } else {
                              given.reply({});
                            }
                          },
                          threads)
                          .value();
  const std::string url = "http://127.0.0.1:" + std::to_string(server->port());
  Calling calling;
  EXPECT_FALSE(calling.call(to(url + "/"))->error().has_value());
  HttpCall slow = to(url + "/slow");
  slow.idle_timeout = 50ms;
  const auto heard = calling.call(slow);
  ASSERT_TRUE(heard->error().has_value());
  EXPECT_EQ(heard->error()->code, ErrorCode::kTimeout);
  EXPECT_THAT(heard->error()->message, HasSubstr("in time"));
  EXPECT_EQ(requests, 2);
}

TEST(HttpCaller, DeadlineHoldsWhileBytesKeepArriving) {
  const auto dribble = std::make_shared<Dribble>();
  IoThreads threads(1);
  const auto server = HttpServer::listen(
                          {.error_reply = nullptr},
                          [&](const auto& /*request*/, const Responder& responder) {
                            responder.reply({.body = dribble});
                          },
                          threads)
                          .value();
  Calling calling;
  HttpCall call = to("http://127.0.0.1:" + std::to_string(server->port()) + "/");
  call.deadline = 50ms;
  const auto heard = calling.call(std::move(call));
  EXPECT_EQ(heard->error()->code, ErrorCode::kTimeout);
  EXPECT_THAT(heard->error()->message, HasSubstr("in time"));
}

TEST(HttpCaller, MayEndWithACallInOneLoopAndIdleConnectionsInAnother) {
  // Bug: the call, destroyed with its loop, was the last owner of connections whose loop was gone.
  const Echo echo;
  LocalServer silent([](const auto&, const auto&) { return std::string(); });
  IoThreads threads(2);
  HttpCaller caller({}, threads);
  const auto answered = std::make_shared<Heard>();
  threads.post(0, [&] { caller.call(to(echo.url("/")), answered); });
  answered->wait();
  threads.post(1, [&] { caller.call(to(silent.url("/")), std::make_shared<Heard>()); });
  while (silent.asked() == 0) std::this_thread::sleep_for(1ms);
}

TEST(HttpCaller, ReportsCancellation) {
  LocalServer server([](const auto&, const auto&) { return std::string(); });
  IoThreads threads(1);
  HttpCaller caller({}, threads);
  const auto heard = std::make_shared<Heard>();
  const auto handle = caller.call(to(server.url("/")), heard);
  handle.cancel();
  heard->wait();
  EXPECT_EQ(heard->error()->code, ErrorCode::kCancelled);
  handle.cancel();
}

TEST(HttpCaller, ChecksTheAddressBeforeItConnects) {
  LocalServer server([](const auto&, const auto&) { return testing::http_answer("x"); });
  Calling calling;
  std::string checked_address;
  HttpCall call = to(server.url("/"));
  call.url.host = "localhost";
  call.may_connect = [&](std::string_view numeric) {
    checked_address = numeric;
    return false;
  };
  const auto heard = calling.call(std::move(call));
  EXPECT_EQ(heard->error()->code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(checked_address, ::testing::AnyOf("127.0.0.1", "::1"));
  EXPECT_EQ(server.asked(), 0);
}

TEST(HttpCaller, RefusesHeadersThatInjectLines) {
  LocalServer server([](const auto&, const auto&) { return testing::http_answer("x"); });
  Calling calling;
  for (const HttpHeaders& headers :
       {HttpHeaders{{"X", "a\r\nY: b"}}, HttpHeaders{{"X Y", "a"}}, HttpHeaders{{"", "a"}}}) {
    HttpCall call = to(server.url("/"));
    call.headers = headers;
    EXPECT_EQ(calling.call(std::move(call))->error()->code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(server.asked(), 0);
}

TEST(HttpCaller, DeliversTheRestAfterResume) {
  const Echo echo;
  IoThreads threads(1);
  HttpCaller caller({}, threads);
  struct Slow final : HttpListener {
    void on_head(unsigned /*status*/, HttpHeaders /*headers*/) override { handle.pause(); }
    void on_bytes(std::string_view bytes) override { heard.on_bytes(bytes); }
    void on_end() override { heard.on_end(); }
    void on_error(const Error& error) override { heard.on_error(error); }
    HttpCallHandle handle;
    Heard heard;
  };
  const auto slow = std::make_shared<Slow>();
  threads.post(
      0, [&] { slow->handle = caller.call(to(echo.url("/"), std::string(8 << 20, 'x')), slow); });
  slow->heard.wait_for_bytes(1);
  slow->handle.resume();
  slow->heard.wait();
  EXPECT_EQ(slow->heard.body().size(), std::size_t{8} << 20);
}

}  // namespace
}  // namespace afterimage
