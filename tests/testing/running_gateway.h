// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "caches/answers/answer_archive.h"
#include "foundation/http/server.h"
#include "foundation/platform/wall_clocks.h"
#include "gateway/service/service.h"
#include "testing/raw_client.h"

namespace afterimage::testing {

using nlohmann::json;

/// A model server that replies as the test says and counts requests, but for those that the gateway itself
/// makes for its models.
class Model {
 public:
  using Answer = std::function<void(const HttpRequest&, const Responder&)>;
  Model()
      : server_(HttpServer::listen(
                    {.error_reply = nullptr},
                    [this](const HttpRequest& request, const Responder& responder) {
                      Answer answer;
                      const bool lists = request.target == "/v1/models" &&
                                         !request.headers.find("x-request-id").has_value();
                      if (lists) return responder.reply({.body = models()});
                      {
                        const std::scoped_lock lock(mutex_);
                        ++asked_;
                        last_ = request;
                        const bool holds = hold_ > 0;
                        if (holds) {
                          --hold_;
                          held_.push_back(responder);
                        } else {
                          answer = answer_;
                        }
                        changed_.notify_all();
                        if (holds) return;
                      }
                      answer(request, responder);
                    },
                    threads_)
                    .value()) {}
  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(server_->port());
  }
  int asked() {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  HttpRequest last() {
    const std::scoped_lock lock(mutex_);
    return last_;
  }
  void wait_asked(int times) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_ >= times; });
  }
  void answers(Answer answer) {
    const std::scoped_lock lock(mutex_);
    answer_ = std::move(answer);
  }
  /// Who owns its model, as its list of models says.
  void is_owned_by(std::string owner) {
    const std::scoped_lock lock(mutex_);
    owner_ = std::move(owner);
  }
  /// Holds the next `requests`: the test takes them from `wait_held` and replies.
  void hold(int requests) {
    const std::scoped_lock lock(mutex_);
    hold_ = requests;
  }
  /// Waits until that many requests are held, and returns them.
  std::vector<Responder> wait_held(std::size_t requests) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_.size() >= requests; });
    return held_;
  }
  static std::string said(const std::string& text, const std::string& finish = "stop") {
    return json{{"id", "chatcmpl-up"},
                {"object", "chat.completion"},
                {"created", 1},
                {"model", "m"},
                {"choices", json::array({{{"index", 0},
                                          {"message", {{"role", "assistant"}, {"content", text}}},
                                          {"finish_reason", finish}}})},
                {"usage", {{"prompt_tokens", 7}, {"completion_tokens", 3}, {"total_tokens", 10}}}}
        .dump();
  }
  static void chat(const HttpRequest& request, const Responder& responder) {
    const json body = json::parse(*request.body, nullptr, false);
    const bool stream = body.is_object() && body.value("stream", false);
    if (!stream) {
      return responder.reply({.headers = {{"Content-Type", "application/json"}, {"X-Model", "yes"}},
                              .body = said("answer")});
    }
    std::string events;
    for (const char* delta :
         {R"({"role":"assistant","content":""})", R"({"content":"ans"})", R"({"content":"wer"})"}) {
      events +=
          "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":"
          "\"m\",\"choices\":[{\"index\":0,\"delta\":" +
          std::string(delta) + ",\"finish_reason\":null}]}\n\n";
    }
    events +=
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":"
        "\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
        "data: [DONE]\n\n";
    responder.reply({.headers = {{"Content-Type", "text/event-stream"}}, .body = events});
  }

 private:
  std::string models() {
    const std::scoped_lock lock(mutex_);
    return json{{"object", "list"}, {"data", {{{"id", "m"}, {"owned_by", owner_}}}}}.dump();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string owner_ = "test";
  int asked_ = 0;
  int hold_ = 0;
  std::vector<Responder> held_;
  HttpRequest last_;
  Answer answer_ = chat;
  IoThreads threads_{2};
  std::unique_ptr<HttpServer> server_;
};

struct Said {
  unsigned status = 0;
  std::string head;
  std::string body;
  /// The value of a header by its lower-case name; empty: absent.
  [[nodiscard]] std::string header(const std::string& name) const {
    const auto at = head.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    const auto begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

inline Said ask(std::uint16_t port, const std::string& method, const std::string& path,
                const std::string& body, const std::string& headers = "") {
  RawClient client(port);
  client.send(method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" +
              headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string& all = client.read_all();
  Said said;
  const auto end = all.find("\r\n\r\n");
  if (end == std::string::npos) return said;
  said.head = all.substr(0, end + 2);
  said.body = all.substr(end + 4);
  said.status = static_cast<unsigned>(std::stoul(all.substr(9, 3)));
  if (said.header("Transfer-Encoding") == "chunked") {
    std::string whole;
    std::size_t at = 0;
    while (true) {
      const auto line = said.body.find("\r\n", at);
      if (line == std::string::npos) break;
      const auto size = std::stoul(said.body.substr(at, line - at), nullptr, 16);
      if (size == 0) break;
      whole += said.body.substr(line + 2, size);
      at = line + 2 + size + 2;
    }
    said.body = whole;
  }
  return said;
}

inline std::string question(const std::string& words, const std::string& more = "") {
  return R"({"model":"m","temperature":0,"messages":[{"role":"user","content":")" + words + "\"}]" +
         more + "}";
}

/// The whole gateway in front of the test's model server.
struct Running {
  explicit Running(const std::string& toml = "", const std::string& upstream = "") {
    const std::string url = upstream.empty() ? model.url() : upstream;
    text = "[listen]\nport = 0\n[admin]\nport = 0\n[log]\nlevel = \"off\"\n[upstream]\nurl = \"" +
           url + "\"\n" + toml;
    service = start();
  }
  std::unique_ptr<Service> start() {
    const auto read = [this]() -> Result<Settings> { return parse_settings(text, "test.toml"); };
    auto settings = read();
    EXPECT_TRUE(settings.has_value()) << settings.error().message;
    return Service::start({.settings = *settings,
                           .read_settings = read,
                           .engine = nullptr,
                           .version = "test",
                           .demo = demo,
                           .log = [](std::string_view) { return true; }},
                          clock, wall)
        .value();
  }
  Said post(const std::string& path, const std::string& body, const std::string& headers = "") {
    return ask(service->port(), "POST", path, body, headers);
  }
  Said chat(const std::string& body, const std::string& headers = "") {
    return post("/v1/chat/completions", body, headers);
  }
  /// Waits until so many answers were offered to the disk, which happens behind the replies.
  void wait_archived(std::uint64_t answers) const {
    const AnswerArchive& archive = *service->gateway().parts().archive;
    const Duration end = clock.now() + std::chrono::seconds(20);
    const auto offered = [&] { return archive.stats().kept + archive.stats().refused; };
    while (offered() < answers && clock.now() < end) std::this_thread::yield();
    EXPECT_GE(offered(), answers);
  }
  json admin(const std::string& method, const std::string& path, const std::string& body = "") {
    const Said said =
        ask(service->admin_port(), method, path, body, "Content-Type: application/json\r\n");
    return json::parse(said.body);
  }

  Model model;
  std::string text;
  bool demo = false;  // takes effect at the next start()
  SystemClock clock;
  SystemWallClock wall;
  std::unique_ptr<Service> service;
};

}  // namespace afterimage::testing
