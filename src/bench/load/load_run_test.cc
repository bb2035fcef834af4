// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/load/load_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/load/load_traffic.h"
#include "foundation/http/server.h"
#include "foundation/platform/mutex.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;

constexpr std::string_view kStream =
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2}}\n\n"
    "data: [DONE]\n\n";

HttpReply stream_reply(std::string body = std::string(kStream)) {
  return {
      .status = 200, .headers = {{"Content-Type", "text/event-stream"}}, .body = std::move(body)};
}

/// A server that answers with what a test says.
class LoadServer {
 public:
  explicit LoadServer(HttpHandler handler) : threads_(2) {
    server_ = HttpServer::listen(
                  {.error_reply = [](unsigned status,
                                     std::string_view) { return HttpReply{.status = status}; }},
                  std::move(handler), threads_)
                  .value();
  }
  [[nodiscard]] LoadRunOptions options() const {
    LoadRunOptions options;
    options.server = parse_url(fmt::format("http://127.0.0.1:{}", server_->port())).value();
    options.model = "m";
    options.timeout = 20s;
    return options;
  }

 private:
  IoThreads threads_;
  std::unique_ptr<HttpServer> server_;
};

LoadTrace small_load(std::uint32_t requests, double rate = 1e5) {
  return generate_load({.requests = requests,
                        .rate = rate,
                        .images = 5,
                        .turns = 3,
                        .think = 1ms,
                        .least_side = 16,
                        .most_side = 16,
                        .max_tokens = 2})
      .value();
}

TEST(LoadRun, ClosedLoopKeepsItsClientsAndTheOrderOfTurns) {
  Mutex mutex;
  std::vector<std::pair<Responder, std::string>> held;
  std::size_t most = 0;
  std::multiset<std::string> busy;
  bool overlapped = false;
  // Two requests of one session have the same first question; none may overlap.
  const LoadServer server([&](const HttpRequest& request, Responder responder) {
    const auto body = nlohmann::json::parse(*request.body);
    std::string session = body["messages"].dump().substr(0, 4000);
    session = session.substr(session.find("Question"));
    session = session.substr(0, 14);
    const MutexLock lock(mutex);
    overlapped = overlapped || busy.contains(session);
    busy.insert(session);
    held.emplace_back(std::move(responder), session);
    most = std::max(most, held.size());
    if (held.size() < 3) return;
    busy.erase(busy.find(held.front().second));
    held.front().first.reply(stream_reply());
    held.erase(held.begin());
  });
  LoadRunOptions options = server.options();
  options.clients = 4;
  const LoadTrace trace = small_load(40);
  // The last requests are answered when nothing else comes.
  const auto result = run_load(trace, options, SystemClock(), [&](LoadProgress) {
    const MutexLock lock(mutex);
    for (auto& [responder, session] : held) responder.reply(stream_reply());
    held.clear();
    busy.clear();
  });
  ASSERT_TRUE(result.has_value());
  EXPECT_LE(most, 4U);
  EXPECT_FALSE(overlapped);
  for (const LoadSample& sample : result->samples) {
    EXPECT_EQ(sample.outcome, LoadOutcome::kAnswered);
    EXPECT_EQ(sample.output_tokens, 2U);
    EXPECT_TRUE(sample.first.has_value());
  }
}

TEST(LoadRun, OpenLoopCountsTheWaitForASlowServer) {
  // One place, and answers only once everything is due: a closed loop would hide the wait.
  Mutex mutex;
  std::vector<Responder> held;
  const LoadServer server([&](const HttpRequest&, Responder responder) {
    const MutexLock lock(mutex);
    held.push_back(std::move(responder));
  });
  LoadRunOptions options = server.options();
  options.open = true;
  options.max_in_flight = 1;
  const LoadTrace trace = small_load(4);
  const auto result = run_load(trace, options, SystemClock(), [&](LoadProgress) {
    const MutexLock lock(mutex);
    for (Responder& responder : held) responder.reply(stream_reply());
    held.clear();
  });
  ASSERT_TRUE(result.has_value());
  // Progress comes every 200 ms and lets one request end.
  const LoadSample& last = result->samples.back();
  EXPECT_EQ(last.due, trace.requests.back().at);
  EXPECT_GE(last.sent - last.due, 500ms);
  EXPECT_GE(last.end - last.due, 700ms);
}

TEST(LoadRun, TellsFailuresFromAnswers) {
  std::atomic<int> count = 0;
  const LoadServer server([&](const HttpRequest&, const Responder& responder) {
    switch (count++ % 4) {
      case 0:
        responder.reply({.status = 503, .body = std::string("busy\n\x1b[31m")});
        return;
      case 1:
        responder.reply(stream_reply("data: {\"choices\":[]}\n\n"));
        return;
      case 2: {
        HttpReply reply = stream_reply();
        reply.headers.add("X-Cache", "HIT");
        reply.headers.add("X-Afterimage-Replica", "b");
        reply.headers.add("X-Afterimage-Route", "media");
        responder.reply(std::move(reply));
        return;
      }
      default:
        responder.reply(stream_reply());
    }
  });
  LoadRunOptions options = server.options();
  options.clients = 1;
  const auto result = run_load(small_load(8), options, SystemClock());
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->samples[0].outcome, LoadOutcome::kStatus);
  EXPECT_EQ(result->samples[1].outcome, LoadOutcome::kInvalid);
  EXPECT_EQ(result->samples[2].outcome, LoadOutcome::kAnswered);
  EXPECT_EQ(result->samples[2].cache, CacheWord::kHit);
  EXPECT_EQ(result->replicas[result->samples[2].replica], "b");
  EXPECT_EQ(result->routes[result->samples[2].route], "media");
  EXPECT_EQ(result->samples[3].cache, CacheWord::kNone);
  EXPECT_EQ(result->failures.at("503: busy  [31m"), 2U);
  EXPECT_EQ(result->failures.at("the stream ended before its [DONE]"), 2U);
}

TEST(LoadRun, GoesOnWhenTheServerGoesAway) {
  LoadRunOptions options;
  {
    const LoadServer gone([](const HttpRequest&, const Responder&) {});
    options = gone.options();
  }
  const auto result = run_load(small_load(3), options, SystemClock());
  ASSERT_TRUE(result.has_value());
  for (const LoadSample& sample : result->samples) {
    EXPECT_EQ(sample.outcome, LoadOutcome::kBroken);
    EXPECT_EQ(sample.status, 0);
  }
  EXPECT_EQ(result->failures.size(), 1U);
}

TEST(ListedModels, SaysWhatItFound) {
  std::string body = R"({"data":[{"id":"a"},{"id":7},{"id":"b"}]})";
  std::string target;
  const LoadServer server([&](const HttpRequest& request, const Responder& responder) {
    target = request.target;
    responder.reply({.status = 200, .body = body});
  });
  LoadRunOptions options = server.options();
  EXPECT_EQ(listed_models(options)->names, std::vector<std::string>({"a", "b"}));
  EXPECT_EQ(target, "/v1/models");
  options.server.target = "/base/v1/";
  body = "<html>";
  EXPECT_THAT(listed_models(options)->refusal->message, HasSubstr("no list of models: <html>"));
  EXPECT_EQ(target, "/base/v1/models");
}

}  // namespace
}  // namespace afterimage
