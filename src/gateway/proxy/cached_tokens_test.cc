// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What clients read of the tokens that the model's server had cached: each API, whole and streamed, from
// the server and from our cache.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "testing/running_gateway.h"

namespace afterimage {
namespace {

using testing::ask;
using testing::json;
using testing::Model;
using testing::Running;
using testing::Said;

struct Server {
  const char* name;
  std::string members;  // of the answer, whole or last event of a stream
  int cached;
};

const std::vector<Server>& servers() {
  static const std::vector<Server> kServers = {
      {"vLLM, llama-server, SGLang with a report",
       R"("usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":6}})",
       6},
      {"vLLM without details",
       R"("usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":null})",
       0},
      {"SGLang without a report",
       R"("usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"reasoning_tokens":0})",
       0},
      {"llama-server before 2026",
       R"("usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11},"timings":{"cache_n":6,"prompt_n":3})",
       6}};
  return kServers;
}

void answer_as(Model& model, const Server& server) {
  model.answers([members = server.members](const HttpRequest& request, const Responder& responder) {
    const std::string head = R"({"id":"c","created":1,"model":"m",)";
    const json body = json::parse(*request.body);
    if (!body.value("stream", false)) {
      return responder.reply(
          {.headers = {{"Content-Type", "application/json"}},
           .body = head +
                   R"("object":"chat.completion","choices":[{"index":0,"message":)"
                   R"({"role":"assistant","content":"hi"},"finish_reason":"stop"}],)" +
                   members + "}"});
    }
    const std::string event = "data: " + head + R"("object":"chat.completion.chunk",)";
    responder.reply(
        {.headers = {{"Content-Type", "text/event-stream"}},
         .body =
             event +
             R"("choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]})" +
             "\n\n" + event + R"("choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})" +
             "\n\n" + event + R"("choices":[],)" + members + "}\n\ndata: [DONE]\n\n"});
  });
}

/// The last usage in a body or its events.
json usage_in(const std::string& body) {
  json usage;
  std::size_t begin = 0;
  const bool is_stream = !body.starts_with('{');
  while (begin < body.size()) {
    const std::size_t end = std::min(body.find('\n', begin), body.size());
    std::string line = body.substr(begin, end - begin);
    begin = end + 1;
    if (is_stream && !line.starts_with("data: {")) continue;
    const json said = json::parse(is_stream ? line.substr(6) : line, nullptr, false);
    for (const json* holder : {&said}) {
      for (const char* within : {"", "message", "response"}) {
        const json& at = *within == 0 ? *holder : holder->value(within, json());
        if (at.is_object() && at.contains("usage") && at["usage"].is_object()) usage = at["usage"];
      }
    }
  }
  return usage;
}

int cached_in(const json& usage) {
  if (usage.contains("cache_read_input_tokens")) {
    EXPECT_EQ(usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>(), 9);
    EXPECT_EQ(usage["cache_creation_input_tokens"], 0);
    return usage["cache_read_input_tokens"];
  }
  if (usage.contains("input_tokens_details")) return usage["input_tokens_details"]["cached_tokens"];
  const json details = usage.value("prompt_tokens_details", json());
  return details.is_object() ? details["cached_tokens"].get<int>() : 0;
}

TEST(CachedTokens, AreSaidByEveryApiWholeAndStreamedFromTheServerAndFromTheCache) {
  const struct {
    const char* path;
    std::string body;
    std::string stream;
  } kApis[] = {
      {"/v1/chat/completions",
       R"({"model":"m","temperature":0,"messages":[{"role":"user","content":"Q"}])",
       R"(,"stream":true,"stream_options":{"include_usage":true})"},
      {"/v1/messages",
       R"({"model":"m","temperature":0,"max_tokens":9,"messages":[{"role":"user","content":"Q"}])",
       R"(,"stream":true)"},
      {"/v1/responses", R"({"model":"m","temperature":0,"input":"R")", R"(,"stream":true)"}};
  for (const Server& server : servers()) {
    for (const auto& api : kApis) {
      for (const bool first_streams : {false, true}) {
        Running running;
        answer_as(running.model, server);
        for (const bool streams : {first_streams, !first_streams}) {
          const bool is_hit = streams != first_streams;
          SCOPED_TRACE(fmt::format("{}, {}, {}, {}", server.name, api.path,
                                   streams ? "streamed" : "whole", is_hit ? "hit" : "miss"));
          const Said said = running.post(api.path, api.body + (streams ? api.stream : "") + "}");
          EXPECT_EQ(said.header("X-Cache"), is_hit ? "HIT" : "MISS") << said.body;
          const bool in_timings = server.members.contains("cache_n");
          const bool is_chat = api.path == std::string("/v1/chat/completions");
          // A chat's usage is the server's own.
          const int expected = in_timings && is_chat ? 0 : server.cached;
          EXPECT_EQ(cached_in(usage_in(said.body)), expected) << said.body;
        }
      }
    }
  }
}

}  // namespace
}  // namespace afterimage
