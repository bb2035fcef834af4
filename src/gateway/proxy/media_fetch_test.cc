// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/media_fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "foundation/http/server.h"

namespace afterimage {
namespace {

using ::testing::ElementsAre;

/// A media server: /x has the text of the moment, with or without validators.
class MediaServer {
 public:
  MediaServer()
      : server_(HttpServer::listen(
                    {.error_reply = nullptr},
                    [this](const HttpRequest& request, const Responder& responder) {
                      answer(request, responder);
                    },
                    threads_)
                    .value()) {}
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] std::string url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(server_->port()) + path;
  }
  void set(std::string text, std::string etag, HttpHeaders more = {}) {
    const std::scoped_lock lock(mutex_);
    text_ = std::move(text);
    etag_ = std::move(etag);
    more_ = std::move(more);
  }
  /// The validators that were asked with, "" for none; each is forgotten.
  std::vector<std::string> asked() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(asked_, {});
  }
  void hold() {
    const std::scoped_lock lock(mutex_);
    holds_ = true;
  }
  /// Waits until that many were asked, and returns how many there were.
  std::size_t wait_asked(std::size_t times) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_.size() >= times; });
    return asked_.size();
  }
  void let_go() {
    std::vector<std::function<void()>> held;
    {
      const std::scoped_lock lock(mutex_);
      holds_ = false;
      held.swap(held_);
    }
    for (const auto& answer : held) answer();
  }

 private:
  void answer(const HttpRequest& request, const Responder& responder) {
    const std::scoped_lock lock(mutex_);
    const std::string wanted(request.headers.find("if-none-match").value_or(""));
    asked_.push_back(wanted);
    changed_.notify_all();
    HttpReply reply{.headers = more_, .body = text_};
    reply.headers.add("Content-Type", "image/png");
    if (!etag_.empty()) reply.headers.add("ETag", etag_);
    if (request.target == "/moved") {
      reply = {.status = 302, .headers = {{"Location", "/x"}}, .body = std::string()};
    } else if (!wanted.empty() && wanted == etag_) {
      reply.status = 304;
      reply.body = std::string();
    }
    if (!holds_) return responder.reply(std::move(reply));
    held_.emplace_back([responder, reply = std::move(reply)] { responder.reply(reply); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  std::string etag_;
  HttpHeaders more_;
  std::vector<std::string> asked_;
  bool holds_ = false;
  std::vector<std::function<void()>> held_;
  IoThreads threads_{1};
  std::unique_ptr<HttpServer> server_;
};

class MediaFetch : public ::testing::Test {
 protected:
  MediaFetch() { settings.hosts = {"127.0.0.1:" + std::to_string(server.port())}; }
  std::future<Result<std::vector<ApiMedia>>> begin(const std::string& url,
                                                   const std::string& tenant = "t") {
    ApiMedia media;
    media.address = url;
    auto promise = std::make_shared<std::promise<Result<std::vector<ApiMedia>>>>();
    auto future = promise->get_future();
    fetcher.fetch(tenant, {media}, settings, [promise](Result<std::vector<ApiMedia>> got) {
      promise->set_value(std::move(got));
    });
    return future;
  }
  std::string get(const std::string& url, const std::string& tenant = "t") {
    const auto got = begin(url, tenant).get();
    if (!got.has_value()) return "error: " + got.error().message;
    EXPECT_EQ(got->front().options.at("mime"), "image/png");
    const auto& bytes = *got->front().bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  MediaServer server;
  MediaSettings settings{.private_addresses = true};
  ManualClock clock;
  IoThreads threads{1};
  HttpCaller caller{{}, threads};
  MediaFetcher fetcher{caller, 1_MiB, clock};
};

TEST_F(MediaFetch, AKnownFileIsAskedAboutAndNotFetchedAgain) {
  server.set("one", "\"v1\"");
  EXPECT_EQ(get(server.url("/x")), "one");
  EXPECT_EQ(get(server.url("/x")), "one");
  EXPECT_THAT(server.asked(), ElementsAre("", "\"v1\""));
  EXPECT_EQ(fetcher.stats().fetched, 1U);
  EXPECT_EQ(fetcher.stats().revalidated, 1U);
  server.set("two", "\"v2\"");
  EXPECT_EQ(get(server.url("/x")), "two");
  EXPECT_EQ(get(server.url("/x")), "two");
  EXPECT_THAT(server.asked(), ElementsAre("\"v1\"", "\"v2\""));
  server.set("three", "");
  EXPECT_EQ(get(server.url("/x")), "three");
  EXPECT_EQ(get(server.url("/x")), "three");
  EXPECT_THAT(server.asked(), ElementsAre("\"v2\"", ""));
}

TEST_F(MediaFetch, OnlyStrongValidatorsCount) {
  for (const auto& [etag, more] :
       {std::pair("W/\"v1\"", HttpHeaders()), std::pair("v1", HttpHeaders()),
        std::pair("\"v1\"", HttpHeaders{{"Cache-Control", "private, no-store"}}),
        std::pair("\"v1\"", HttpHeaders{{"Vary", "*"}})}) {
    server.set("text", etag, more);
    EXPECT_EQ(get(server.url("/x")), "text");
    EXPECT_EQ(get(server.url("/x")), "text");
    EXPECT_THAT(server.asked(), ElementsAre("", "")) << etag;
  }
}

TEST_F(MediaFetch, AnotherUrlAndAnotherTenantKnowNothing) {
  server.set("one", "\"v1\"");
  EXPECT_EQ(get(server.url("/x")), "one");
  EXPECT_EQ(get(server.url("/x?a")), "one");
  EXPECT_EQ(get(server.url("/x"), "other"), "one");
  EXPECT_THAT(server.asked(), ElementsAre("", "", ""));
}

TEST_F(MediaFetch, WhatIsBehindARedirectionIsFetched) {
  server.set("one", "\"v1\"");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(get(server.url("/moved")), "one");
  EXPECT_THAT(server.asked(), ElementsAre("", "", "", ""));
}

TEST_F(MediaFetch, ConcurrentFetchesOfOneUrlAreOne) {
  server.set("one", "\"v1\"");
  server.hold();
  auto first = begin(server.url("/x"));
  auto second = begin(server.url("/x"));
  auto other = begin(server.url("/x"), "other");
  EXPECT_EQ(fetcher.stats().joined, 1U);  // known at once
  EXPECT_EQ(server.wait_asked(2), 2U);
  server.let_go();
  for (auto* got : {&first, &second, &other}) {
    const auto media = got->get();
    ASSERT_TRUE(media.has_value());
    EXPECT_EQ(media->front().bytes->size(), 3U);
  }
  EXPECT_EQ(fetcher.stats().fetched, 2U);
}

TEST_F(MediaFetch, LimitsHoldForWhatIsKept) {
  server.set(std::string(2000, 'x'), "\"v1\"");
  EXPECT_EQ(get(server.url("/x")).size(), 2000U);
  settings.max_size = 1_KiB;
  EXPECT_THAT(get(server.url("/x")), ::testing::HasSubstr("larger than media.max_size"));
  settings.max_size = 1_MiB;
  settings.private_addresses = false;
  EXPECT_THAT(get(server.url("/x")), ::testing::StartsWith("error"));
}

}  // namespace
}  // namespace afterimage
