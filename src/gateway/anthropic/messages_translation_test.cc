// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/anthropic/messages_translation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace afterimage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

const ClientContext kNobody{.tenant = "t", .files = [](std::string_view) -> Result<UploadedFile> {
                              return fail(ErrorCode::kNotFound, "there is none");
                            }};

std::shared_ptr<MessagesTranslation> asked(const std::string& more = "") {
  auto translation = std::make_shared<MessagesTranslation>("7");
  const auto chat = translation->request(
      R"({"model":"m","max_tokens":8,"messages":[{"role":"user","content":"Q"}])" + more + "}",
      kNobody);
  EXPECT_TRUE(chat.has_value()) << chat.error().message;
  return translation;
}
constexpr const char* kStreamed =
    R"(,"stream":true,"thinking":{"type":"adaptive"},"stop_sequences":["END"])";
constexpr const char* kWhole = R"(,"thinking":{"type":"adaptive"},"stop_sequences":["END"])";

std::string chunk(const std::string& delta, const std::string& finish = "null",
                  const std::string& more = "") {
  return R"(data: {"id":"c","model":"up","choices":[{"index":0,"delta":)" + delta +
         R"(,"finish_reason":)" + finish + more + "}]}\n\n";
}
constexpr const char* kUsage =
    R"({"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}})";
std::string last() {
  return std::string(R"(data: {"choices":[],"usage":)") + kUsage + "}\n\ndata: [DONE]\n\n";
}
std::string body(const std::string& message, const std::string& finish,
                 const std::string& more = "") {
  return R"({"id":"c","model":"up","choices":[{"index":0,"message":)" + message +
         R"(,"finish_reason":")" + finish + "\"" + more + R"(}],"usage":)" + kUsage + "}";
}

/// The events of a stream: each event's name is its type.
std::vector<Json> events_of(const std::string& text) {
  std::vector<Json> events;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find("\n\n", at);
    const std::string one = text.substr(at, end - at);
    const std::size_t line = one.find('\n');
    EXPECT_TRUE(one.starts_with("event: ")) << one;
    const Json data = Json::parse(one.substr(line + 7));
    EXPECT_EQ(data["type"], one.substr(7, line - 7));
    events.push_back(data);
    at = end + 2;
  }
  return events;
}
std::vector<std::string> types_of(const std::vector<Json>& events) {
  std::vector<std::string> types;
  for (const Json& event : events) types.push_back(event["type"]);
  return types;
}

/// As the official clients add up a stream.
Json accumulated(const std::vector<Json>& events) {
  Json message;
  std::vector<std::string> arguments;
  for (const Json& event : events) {
    if (event["type"] == "message_start") message = event["message"];
    if (event["type"] == "content_block_start") {
      EXPECT_EQ(event["index"], message["content"].size());
      message["content"].push_back(event["content_block"]);
      arguments.emplace_back();
    }
    if (event["type"] == "content_block_delta") {
      Json& block = message["content"][event["index"].get<std::size_t>()];
      const Json& delta = event["delta"];
      for (const char* name : {"text", "thinking"}) {
        if (delta.contains(name)) {
          block[name] = block[name].get<std::string>() + delta[name].get<std::string>();
        }
      }
      if (delta.contains("partial_json")) {
        std::string& json = arguments[event["index"].get<std::size_t>()];
        json += delta["partial_json"].get<std::string>();
        block["input"] = Json::parse(json, nullptr, false);
      }
    }
    if (event["type"] == "message_delta") {
      message.update(event["delta"]);
      message["usage"].update(event["usage"]);
    }
  }
  return message;
}

Json whole_of(const std::string& chat, const char* more = kWhole) {
  const auto made = asked(more)->whole(chat);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return made.has_value() ? Json::parse(*made) : Json();
}
std::string streamed(const std::string& events, const char* more = kStreamed) {
  const auto translation = asked(more);
  std::string text;
  for (const char c : events) text += translation->feed(std::string(1, c));
  return text + translation->end();
}

TEST(MessagesTranslation, TheOrderOfEvents) {
  const auto events = events_of(
      streamed(chunk(R"({"role":"assistant","content":""})") + chunk(R"({"content":"He"})") +
               chunk(R"({"content":"y"})") + chunk("{}", R"("stop")") + last()));
  EXPECT_THAT(types_of(events), ElementsAre("message_start", "content_block_start", "ping",
                                            "content_block_delta", "content_block_delta",
                                            "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(events[0]["message"]["id"], "msg_7");
  EXPECT_EQ(events[0]["message"]["model"], "up");
  EXPECT_EQ(events[0]["message"]["stop_reason"], nullptr);
  EXPECT_EQ(events[6]["delta"], Json::parse(R"({"stop_reason":"end_turn","stop_sequence":null})"));
  EXPECT_EQ(
      events[6]["usage"],
      Json::parse(
          R"({"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":5})"));
}

TEST(MessagesTranslation, AStreamAddsUpToTheWholeAnswer) {
  const struct {
    const char* name;
    std::string events;
    std::string whole;
  } kCases[] = {
      {"text", chunk(R"({"content":"a"})") + chunk(R"({"content":"b"})", R"("stop")"),
       body(R"({"content":"ab"})", "stop")},
      {"reasoning, text",
       chunk(R"({"reasoning_content":"h"})") + chunk(R"({"reasoning_content":"m"})") +
           chunk(R"({"content":"b"})", R"("length")"),
       body(R"({"reasoning_content":"hm","content":"b"})", "length")},
      {"text and two calls whose pieces are mixed",
       chunk(R"({"content":"Let me see."})") +
           chunk(
               R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]})") +
           chunk(
               R"({"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{\"x\""}}]})") +
           chunk(
               R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"y\":1}"}},{"index":1,"function":{"arguments":":2}"}}]})") +
           chunk("{}", R"("tool_calls")"),
       body(
           R"({"content":"Let me see.","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"y\":1}"}},)"
           R"({"id":"b","function":{"name":"g","arguments":"{\"x\":2}"}}]})",
           "tool_calls")},
      {"a refusal", chunk(R"({"refusal":"No."})", R"("stop")"),
       body(R"({"content":null,"refusal":"No."})", "stop")},
      {"a stop sequence", chunk(R"({"content":"b"})", R"("stop")", R"(,"stop_reason":"END")"),
       body(R"({"content":"b"})", "stop", R"(,"stop_reason":"END")")},
      {"nothing", chunk("{}", R"("content_filter")"), body(R"({"content":""})", "content_filter")},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(accumulated(events_of(streamed(c.events + last()))), whole_of(c.whole)) << c.name;
    // Whatever the server sends, the client gets what it asked for.
    EXPECT_EQ(Json::parse(streamed(c.events + last(), kWhole)), whole_of(c.whole)) << c.name;
    const auto made = asked(kStreamed)->whole(c.whole);
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(accumulated(events_of(*made)), whole_of(c.whole)) << c.name;
  }
}

TEST(MessagesTranslation, WholeAnswers) {
  const Json calls = whole_of(
      body(R"({"content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":""}}]})",
           "tool_calls"));
  EXPECT_EQ(calls["content"],
            Json::parse(R"([{"type":"tool_use","id":"a","name":"f","input":{}}])"));
  EXPECT_EQ(calls["stop_reason"], "tool_use");
  EXPECT_EQ(calls["type"], "message");
  EXPECT_EQ(calls["role"], "assistant");
  EXPECT_EQ(whole_of(body(R"({"content":"x"})", "length"))["stop_reason"], "max_tokens");
  EXPECT_EQ(whole_of(body(R"({"refusal":"x"})", "stop"))["stop_reason"], "refusal");
  const Json stopped = whole_of(body(R"({"content":"x"})", "stop", R"(,"stop_reason":"END")"));
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "END");
  // Only the sequences of the request are named.
  EXPECT_EQ(
      whole_of(body(R"({"content":"x"})", "stop", R"(,"stop_reason":"<eot>")"))["stop_reason"],
      "end_turn");
}

TEST(MessagesTranslation, ReasoningIsShownOnRequestOnly) {
  const std::string chat = body(R"({"reasoning":"hm","content":"x"})", "stop");
  EXPECT_EQ(whole_of(chat, "")["content"].size(), 1U);
  EXPECT_EQ(whole_of(chat)["content"][0]["thinking"], "hm");
}

TEST(MessagesTranslation, ACallThatIsNoObjectIsAnError) {
  const std::string message =
      R"({"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\""}}]})";
  EXPECT_FALSE(asked(kWhole)->whole(body(message, "tool_calls")).has_value());
  const Json cut = whole_of(body(message, "length"));
  EXPECT_EQ(cut["content"], Json::array());
  EXPECT_EQ(cut["stop_reason"], "max_tokens");
}

TEST(MessagesTranslation, AStreamThatFailsEndsWithAnErrorEvent) {
  const std::string begun = chunk(R"({"content":"He"})");
  for (const std::string& rest :
       {std::string(), std::string("data: {\"error\":{\"message\":\"tired\"}}\n\n"),
        std::string("data: {\"id\": \n\n"), std::string("data: [DONE]\n\n")}) {
    const auto events = events_of(streamed(begun + rest));
    EXPECT_EQ(events.back()["type"], "error") << rest;
    EXPECT_EQ(events.back()["error"]["type"], "api_error");
    EXPECT_NE(types_of(events)[events.size() - 2], "message_stop");
  }
  EXPECT_THAT(streamed(begun + "data: {\"error\":{\"message\":\"tired\"}}\n\n"),
              HasSubstr("tired"));
  EXPECT_EQ(Json::parse(streamed(begun, kWhole))["type"], "error");
}

// Some servers say "" in every event until the last one.
TEST(MessagesTranslation, AnEmptyFinishReasonIsNone) {
  const std::string begun = chunk(R"({"content":"He"})", R"("")");
  const auto whole = events_of(streamed(begun + chunk("{}", R"("length")") + last()));
  EXPECT_EQ(whole[whole.size() - 2]["delta"]["stop_reason"], "max_tokens");
  EXPECT_EQ(events_of(streamed(begun)).back()["type"], "error") << "it broke off";
}

TEST(MessagesTranslation, ErrorsHaveAnthropicsTypes) {
  const auto type = [](unsigned status) {
    return Json::parse(anthropic_error(status, "why", "req"))["error"]["type"];
  };
  EXPECT_EQ(type(400), "invalid_request_error");
  EXPECT_EQ(type(401), "authentication_error");
  EXPECT_EQ(type(403), "permission_error");
  EXPECT_EQ(type(404), "not_found_error");
  EXPECT_EQ(type(413), "request_too_large");
  EXPECT_EQ(type(429), "rate_limit_error");
  EXPECT_EQ(type(500), "api_error");
  EXPECT_EQ(type(503), "overloaded_error");
  EXPECT_EQ(type(504), "timeout_error");
  EXPECT_EQ(Json::parse(anthropic_error(404, "why", "req"))["request_id"], "req");
}

TEST(MessagesTranslation, RepliesAreReplaced) {
  const HttpReply failed = translated(
      {.status = 429,
       .headers = {{"Content-Type", "application/json"}, {"Retry-After", "3"}},
       .body = std::string(R"({"error":{"message":"slow down","type":"x","code":"y"}})")},
      asked(), "req-1");
  EXPECT_EQ(failed.status, 429U);
  EXPECT_EQ(failed.headers.find("retry-after"), "3");
  const Json error = Json::parse(std::get<std::string>(failed.body));
  EXPECT_EQ(error["error"]["message"], "slow down");
  EXPECT_EQ(error["request_id"], "req-1");
  const HttpReply odd = translated({.status = 200,
                                    .headers = {{"Content-Type", "application/json"}},
                                    .body = std::string("not JSON")},
                                   asked(), "req-1");
  EXPECT_EQ(odd.status, 502U);
  EXPECT_EQ(Json::parse(std::get<std::string>(odd.body))["error"]["type"], "api_error");
  const HttpReply streamed_reply = translated({.status = 200,
                                               .headers = {{"Content-Type", "application/json"}},
                                               .body = body(R"({"content":"x"})", "stop")},
                                              asked(kStreamed), "req-1");
  EXPECT_THAT(std::string(*streamed_reply.headers.find("content-type")),
              ::testing::StartsWith("text/event-stream"));
}

PromptDiagnosis changed_tools() {
  PromptDiagnosis diagnosis{.state = PromptDiagnosis::State::kCompared};
  diagnosis.divergence = {.shared_bytes = 20, .total_bytes = 100, .lost_bytes = 80};
  diagnosis.divergence.part = PartPlace{.kind = PartKind::kTools, .index = 0};
  return diagnosis;
}

TEST(MessagesTranslation, DiagnosticsAreSaidToWhoAsksForThem) {
  const std::string ask = R"(,"diagnostics":{"previous_message_id":"msg_1"})";
  const std::string chat = body(R"({"content":"hi"})", "stop");
  const auto whole = asked(ask);
  EXPECT_EQ(whole->response_id(), "msg_7");
  EXPECT_EQ(whole->comparison()->response_id, "msg_1");
  whole->diagnose(changed_tools());
  EXPECT_EQ(Json::parse(whole->whole(chat).value())["diagnostics"],
            Json::parse(
                R"({"cache_miss_reason":{"type":"tools_changed","cache_missed_input_tokens":8}})"));
  const auto first = asked(R"(,"diagnostics":{"previous_message_id":null})");
  EXPECT_EQ(first->comparison()->response_id, "");
  EXPECT_TRUE(Json::parse(first->whole(chat).value()).at("diagnostics").is_null());
  const auto silent = asked();
  EXPECT_FALSE(silent->comparison().has_value());
  EXPECT_FALSE(Json::parse(silent->whole(chat).value()).contains("diagnostics"));
}

TEST(MessagesTranslation, AStreamSaysDiagnosticsAtItsStart) {
  const auto translation = asked(R"(,"stream":true,"diagnostics":{"previous_message_id":"msg_1"})");
  translation->diagnose(changed_tools());
  const std::string text =
      translation->feed(chunk(R"({"content":"hi"})") + chunk("{}", "\"stop\"") + last());
  const auto events = events_of(text);
  EXPECT_EQ(events[0]["message"]["diagnostics"]["cache_miss_reason"]["type"], "tools_changed");
  EXPECT_EQ(events[0]["message"]["diagnostics"]["cache_miss_reason"]["cache_missed_input_tokens"],
            20)
      << "how many tokens there are is not known yet";
}

TEST(MessagesTranslation, APrefillHasNoContent) {
  auto translation = std::make_shared<MessagesTranslation>("7");
  ASSERT_TRUE(
      translation
          ->request(R"({"model":"m","max_tokens":0,"messages":[{"role":"user","content":"Q"}]})",
                    kNobody)
          .has_value());
  const auto made = translation->whole(body(R"({"content":"x"})", "length"));
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const Json message = Json::parse(*made);
  EXPECT_EQ(message["content"], Json::array());
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  EXPECT_EQ(message["usage"]["output_tokens"], 0);
  EXPECT_EQ(message["usage"]["input_tokens"], 6);
}

}  // namespace
}  // namespace afterimage
