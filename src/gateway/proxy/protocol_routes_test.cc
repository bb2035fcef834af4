// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/protocol_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gateway/proxy/testing/built_in_gateway.h"
#include "testing/running_gateway.h"

namespace afterimage {
namespace {

using testing::ask;
using testing::BuiltInGateway;
using ::testing::HasSubstr;
using testing::json;
using testing::Model;
using testing::question;
using testing::Running;
using testing::Said;

std::string messages(const std::string& words, const std::string& more = "") {
  return R"({"model":"m","max_tokens":9,"temperature":0,"messages":[{"role":"user","content":")" +
         words + "\"}]" + more + "}";
}

TEST(ProtocolRoutes, MessagesAndChatShareOneEntry) {
  Running running;
  const Said first = running.post("/v1/messages", messages("Q"), "x-api-key: k\r\n");
  EXPECT_EQ(first.status, 200U) << first.body;
  EXPECT_EQ(first.header("X-Cache"), "MISS");
  const json message = json::parse(first.body);
  EXPECT_EQ(message["content"][0]["text"], "answer");
  EXPECT_EQ(message["stop_reason"], "end_turn");
  EXPECT_EQ(message["usage"]["input_tokens"], 7);
  const HttpRequest seen = running.model.last();
  EXPECT_EQ(seen.target, "/v1/chat/completions");
  EXPECT_EQ(seen.headers.find("authorization"), "Bearer k");
  EXPECT_EQ(seen.headers.find("x-api-key"), std::nullopt);
  const Said chat =
      running.chat(question("Q", R"(,"max_tokens":9)"), "Authorization: Bearer k\r\n");
  EXPECT_EQ(chat.header("X-Cache"), "HIT");
  const Said streamed =
      running.post("/v1/messages", messages("Q", R"(,"stream":true)"), "x-api-key: k\r\n");
  EXPECT_EQ(streamed.header("X-Cache"), "HIT");
  EXPECT_THAT(streamed.header("Content-Type"), ::testing::StartsWith("text/event-stream"));
  EXPECT_THAT(streamed.body, HasSubstr("event: message_stop"));
  EXPECT_THAT(streamed.body, HasSubstr(R"("text":"answer")"));
  EXPECT_EQ(running.model.asked(), 1);
  // Another client's key is another tenant.
  EXPECT_EQ(running.post("/v1/messages", messages("Q"), "x-api-key: other\r\n").header("X-Cache"),
            "MISS");
}

TEST(ProtocolRoutes, AStreamIsTranslatedWhileItComes) {
  Running running;
  const Said said = running.post("/v1/messages", messages("Q", R"(,"stream":true)"));
  EXPECT_EQ(said.status, 200U);
  EXPECT_THAT(said.body, HasSubstr(R"("text":"ans")"));
  EXPECT_THAT(said.body, HasSubstr(R"("text":"wer")"));
  EXPECT_THAT(said.body,
              ::testing::EndsWith("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
  const json sent = json::parse(*running.model.last().body);
  EXPECT_EQ(sent["stream_options"]["include_usage"], true);
}

TEST(ProtocolRoutes, DecisionsNameTheProtocol) {
  Running running;
  running.post("/v1/messages", messages("Q"));
  const json decision = running.admin("GET", "/admin/api/decisions")["decisions"][0];
  EXPECT_EQ(decision["operation"], "chat");
  EXPECT_EQ(decision["protocol"], "messages");
  const json explained = running.admin("POST", "/admin/api/explain",
                                       R"({"operation":"messages","body":)" + messages("Q") + "}");
  EXPECT_EQ(explained["outcome"], "hit");
  EXPECT_EQ(explained["protocol"], "messages");
  const json refused = running.admin(
      "POST", "/admin/api/explain",
      R"({"operation":"messages","body":)" + messages("Q", R"(,"container":"c")") + "}");
  EXPECT_EQ(refused["outcome"], "error");
  EXPECT_THAT(std::string(refused["why"]), HasSubstr("container"));
}

TEST(ProtocolRoutes, ErrorsHaveTheFormOfTheApi) {
  Running running(
      "[tenancy]\nunknown_keys = \"refuse\"\n[[tenancy.tenants]]\nname = \"a\"\nkey_sha256 = [\"" +
      std::string(64, 'a') + "\"]\n");
  const Said unknown = running.post("/v1/messages", messages("Q"), "x-api-key: k\r\n");
  EXPECT_EQ(unknown.status, 401U);
  EXPECT_EQ(json::parse(unknown.body)["error"]["type"], "authentication_error");
  Running open;
  const auto refused = [&](const std::string& method, const std::string& path,
                           const std::string& body, unsigned status, const std::string& type) {
    const Said said = ask(open.service->port(), method, path, body);
    EXPECT_EQ(said.status, status) << path << body;
    EXPECT_EQ(json::parse(said.body)["type"], "error") << said.body;
    EXPECT_EQ(json::parse(said.body)["error"]["type"], type) << said.body;
  };
  refused("GET", "/v1/messages", "", 405, "invalid_request_error");
  refused("POST", "/v1/messages/batches", "{}", 404, "not_found_error");
  refused("POST", "/v1/messages?after=1", messages("Q"), 400, "invalid_request_error");
  refused("POST", "/v1/messages", "{", 400, "invalid_request_error");
  refused("POST", "/v1/messages", messages("Q", R"(,"container":"c")"), 400,
          "invalid_request_error");
  refused(
      "POST", "/v1/messages",
      R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":)"
      R"({"type":"base64","media_type":"image/png","data":"???"}}]}]})",
      400, "invalid_request_error");
  EXPECT_EQ(open.model.asked(), 0);
  open.model.answers([](const HttpRequest&, const Responder& responder) {
    responder.reply({.status = 429,
                     .headers = {{"Content-Type", "application/json"}},
                     .body = std::string(R"({"error":{"message":"slow down"}})")});
  });
  refused("POST", "/v1/messages", messages("Q"), 429, "rate_limit_error");
  EXPECT_EQ(open.post("/v1/messages?beta=true", messages("Q")).status, 429U);
}

TEST(ProtocolRoutes, TokensAreCountedByTheBackend) {
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"one two"}]})";
  const auto count = [&](Running& running) {
    return running.post("/v1/messages/count_tokens", body, "x-api-key: k\r\n");
  };
  const auto server = [](const std::string& path, const std::string& said) {
    return [=](const HttpRequest& request, const Responder& responder) {
      const bool it = request.target == path;
      responder.reply({.status = it ? 200U : 404U,
                       .headers = {{"Content-Type", "application/json"}},
                       .body = it ? said : std::string("{}")});
    };
  };
  Running vllm;
  vllm.model.answers(server("/tokenize", R"({"count":5,"tokens":[1,2,3,4,5]})"));
  EXPECT_EQ(json::parse(count(vllm).body), json::parse(R"({"input_tokens":5})"));
  EXPECT_EQ(vllm.model.last().headers.find("authorization"), "Bearer k");
  Running llama_server;
  llama_server.model.answers(server("/v1/chat/completions/input_tokens", R"({"input_tokens":6})"));
  EXPECT_EQ(json::parse(count(llama_server).body)["input_tokens"], 6);
  Running litellm;
  litellm.model.answers(server("/v1/messages/count_tokens", R"({"input_tokens":7})"));
  const Said theirs = count(litellm);
  EXPECT_EQ(json::parse(theirs.body)["input_tokens"], 7);
  EXPECT_EQ(theirs.header("X-Afterimage-Token-Count"), "unverified");
  EXPECT_EQ(*litellm.model.last().body, body) << "as the client asked";
  EXPECT_EQ(count(llama_server).header("X-Afterimage-Token-Count"), "");
  Running neither;
  neither.model.answers(server("/nowhere", ""));
  const Said said = count(neither);
  EXPECT_EQ(said.status, 501U);
  EXPECT_EQ(json::parse(said.body)["type"], "error");
  BuiltInGateway built_in;
  const Said counted = built_in.post("/v1/messages/count_tokens", body);
  EXPECT_EQ(counted.status, 200U) << counted.body;
  EXPECT_GT(json::parse(counted.body)["input_tokens"], 2);
}

// Three SDKs took what had come for the whole answer.
TEST(ProtocolRoutes, AStreamThatEndsEarlyIsAnErrorInEachProtocol) {
  Running running;
  const auto event = [](const std::string& delta, const std::string& finish) {
    return R"(data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":)" +
           delta + R"(,"finish_reason": )" + finish + "}]}\n\n";
  };
  const std::string begun =
      event(R"({"content":"ha \"finish_reason\":\"stop\" and data: [DONE]"})", "null");
  std::string sent;
  running.model.answers([&](const HttpRequest&, const Responder& responder) {
    responder.reply({.headers = {{"Content-Type", "text/event-stream"}}, .body = sent});
  });
  const std::string stream = R"(,"stream":true)";
  const std::string sampled =
      R"({"model":"m","temperature":1,"messages":[{"role":"user","content":"x"}])";
  const std::string usage = R"(,"stream_options":{"include_usage":true})";
  // Some wrappers of models end every response with [DONE], one that broke off too.
  for (const char* end : {"", "data: [DONE]\n\n", "data:[DONE]\r\n\r\n", "data: [DONE]"}) {
    sent = begun + end;
    for (const std::string& body :
         {question("Q", stream), question("Q", stream + usage), sampled + stream + "}",
          sampled + ",\"seed\":" + "5" + stream + "}",
          question("Q", stream + R"(,"cache":{"no-store":true})")}) {
      const Said said = running.chat(body);
      EXPECT_THAT(said.body, ::testing::StartsWith(begun + "data: {\"error\":{")) << said.body;
      EXPECT_THAT(said.body, HasSubstr("answer_broke_off"));
      EXPECT_EQ(said.body.find("[DONE]", begun.size()), std::string::npos);
    }
    EXPECT_EQ(running.chat(question("Q", stream)).header("X-Cache"), "MISS") << "it was not stored";
    EXPECT_EQ(running.chat(question("Q")).header("X-Cache"), "MISS") << "not as a whole, either";
    EXPECT_THAT(running.post("/v1/messages", messages("Q", stream)).body,
                HasSubstr("event: error\n"));
    EXPECT_THAT(running.post("/v1/responses", R"({"model":"m","input":"Q","stream":true})").body,
                HasSubstr("response.failed"));
  }
  // Some servers leave [DONE] out, say themselves what went wrong, or know no finish reasons.
  const std::string without =
      "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
  for (const std::string& whole :
       {event(R"({"content":"x"})", "null") + event("{}", R"("stop")"),
        event(R"({"content":"x"})", "null") + "data: {\"error\":{\"message\":\"no\"}}\n\n" +
            "data: [DONE]\n\n",
        without + "data: [DONE]\n\n", without + "data: [DONE]"}) {
    sent = whole;
    EXPECT_EQ(running.chat(question("R", stream)).body, whole);
  }
  sent = without + "data: [DONE]\n\n";
  EXPECT_EQ(running.chat(question("R2", stream)).header("X-Cache"), "MISS");
  EXPECT_EQ(running.chat(question("R2", stream)).header("X-Cache"), "MISS") << "it was not stored";
  // A 429 says when to ask again.
  running.model.answers([](const HttpRequest&, const Responder& responder) {
    responder.reply({.status = 429, .headers = {}, .body = std::string("{}")});
  });
  EXPECT_EQ(running.chat(question("S")).header("Retry-After"), "1");
}

/// The usage that the beginning of a stream says.
json usage_at_start(const Said& said) {
  const std::size_t begin = said.body.find("data: ") + 6;
  const std::string data = said.body.substr(begin, said.body.find('\n', begin) - begin);
  return json::parse(data)["message"]["usage"];
}

// A client that shows or budgets the context reads it when the answer begins.
TEST(ProtocolRoutes, AStreamBeginsWithTheTokensOfThePromptWhereTheyAreKnown) {
  const std::string streamed = messages("Q", R"(,"stream":true)");
  BuiltInGateway built_in;
  const Said computed = built_in.post("/v1/messages", streamed);
  const json whole = json::parse(built_in.post("/v1/messages", messages("Q")).body);
  EXPECT_GT(usage_at_start(computed)["input_tokens"], 0) << computed.body;
  EXPECT_EQ(usage_at_start(computed)["input_tokens"],
            whole["usage"]["input_tokens"].get<int>() +
                whole["usage"]["cache_read_input_tokens"].get<int>());
  EXPECT_EQ(computed.header("X-Afterimage-Prompt-Tokens"), "");
  const json of_hit = usage_at_start(built_in.post("/v1/messages", streamed));
  for (const char* member : {"input_tokens", "cache_read_input_tokens"}) {
    EXPECT_EQ(of_hit[member], whole["usage"][member]) << member;
  }
  // Another server says it at the end, so a miss does not know; a hit does.
  Running upstream;
  upstream.model.answers([](const HttpRequest& request, const Responder& responder) {
    if (request.body->contains("\"stream\":true")) return Model::chat(request, responder);
    responder.reply({.headers = {{"Content-Type", "application/json"}}, .body = Model::said("x")});
  });
  EXPECT_EQ(usage_at_start(upstream.post("/v1/messages", streamed))["input_tokens"], 0);
  upstream.post("/v1/messages", messages("R"));
  const Said hit = upstream.post("/v1/messages", messages("R", R"(,"stream":true)"));
  EXPECT_EQ(hit.header("X-Cache"), "HIT");
  EXPECT_EQ(usage_at_start(hit)["input_tokens"], 7);
  // Where hits are not to be told from misses, it says no more than a miss.
  Running hides("[answers]\ntiming_protection = \"all\"\n");
  hides.post("/v1/messages", messages("R"));
  const Said hidden = hides.post("/v1/messages", messages("R", R"(,"stream":true)"));
  EXPECT_EQ(hides.model.asked(), 1) << "a hit";
  EXPECT_EQ(usage_at_start(hidden)["input_tokens"], 0);
  // Unless it says so first.
  upstream.model.answers([](const HttpRequest&, const Responder& responder) {
    responder.reply(
        {.headers = {{"Content-Type", "text/event-stream"}},
         .body = std::string(
             R"(data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}})"
             "\n\n"
             R"(data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"
             "\n\ndata: [DONE]\n\n")});
  });
  const json first =
      usage_at_start(upstream.post("/v1/messages", messages("S", R"(,"stream":true)")));
  EXPECT_EQ(first["input_tokens"], 5);
  EXPECT_EQ(first["cache_read_input_tokens"], 4);
}

TEST(ProtocolRoutes, TheBuiltInEngineAnswersMessages) {
  BuiltInGateway built_in;
  const Said first = built_in.post("/v1/messages", messages("Q"));
  EXPECT_EQ(first.status, 200U) << first.body;
  const Said again = built_in.post("/v1/messages", messages("Q", R"(,"stream":true)"));
  EXPECT_EQ(again.header("X-Cache"), "HIT");
  EXPECT_THAT(again.body, HasSubstr("message_stop"));
  EXPECT_GT(json::parse(first.body)["usage"]["output_tokens"], 0);
}

}  // namespace
}  // namespace afterimage
