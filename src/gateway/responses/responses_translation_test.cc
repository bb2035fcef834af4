// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/responses/responses_translation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "afterimage/clock.h"

namespace afterimage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using std::chrono_literals::operator""h;

const ClientContext kClient{.tenant = "t", .files = [](std::string_view) -> Result<UploadedFile> {
                              return fail(ErrorCode::kNotFound, "there is none");
                            }};

class ResponsesTranslationTest : public ::testing::Test {
 protected:
  std::shared_ptr<ResponsesTranslation> asked(const std::string& more = "",
                                              const std::string& id = "7") {
    auto translation = std::make_shared<ResponsesTranslation>(id, 12, store);
    const auto chat = translation->request(R"({"model":"m","input":"Q")" + more + "}", kClient);
    EXPECT_TRUE(chat.has_value()) << chat.error().message;
    return translation;
  }
  Json whole_of(const std::string& chat, const std::string& more = "") {
    const auto made = asked(more)->whole(chat);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return made.has_value() ? Json::parse(*made) : Json();
  }
  std::string streamed(const std::string& events, const std::string& more = R"(,"stream":true)") {
    const auto translation = asked(more);
    std::string text;
    for (const char c : events) text += translation->feed(std::string(1, c));
    return text + translation->end();
  }

  ManualClock clock;
  ResponseStore store{1_MiB, 1h, clock};
};

std::string chunk(const std::string& delta, const std::string& finish = "null") {
  return R"(data: {"id":"c","model":"up","choices":[{"index":0,"delta":)" + delta +
         R"(,"finish_reason":)" + finish + "}]}\n\n";
}
constexpr const char* kUsage =
    R"({"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}})";
std::string last() {
  return std::string(R"(data: {"choices":[],"usage":)") + kUsage + "}\n\ndata: [DONE]\n\n";
}
std::string body(const std::string& message, const std::string& finish) {
  return R"({"id":"c","model":"up","choices":[{"index":0,"message":)" + message +
         R"(,"finish_reason":")" + finish + R"("}],"usage":)" + kUsage + "}";
}

/// The events of a stream: names are types, and numbers follow each other.
std::vector<Json> events_of(const std::string& text) {
  std::vector<Json> events;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find("\n\n", at);
    const std::string one = text.substr(at, end - at);
    const std::size_t line = one.find('\n');
    const Json data = Json::parse(one.substr(line + 7));
    EXPECT_EQ("event: " + data["type"].get<std::string>(), one.substr(0, line));
    EXPECT_EQ(data["sequence_number"], events.size());
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

/// Adds up the pieces of a stream, as the official clients do, and compares each sum with the stream's
/// "done" event.
Json accumulated(const std::vector<Json>& events) {
  Json output = Json::array();
  const auto part = [&](const Json& event) -> Json& {
    return output[event["output_index"].get<std::size_t>()]["content"]
                 [event["content_index"].get<std::size_t>()];
  };
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "response.output_item.added") {
      EXPECT_EQ(event["output_index"], output.size());
      output.push_back(event["item"]);
    } else if (type == "response.content_part.added") {
      output[event["output_index"].get<std::size_t>()]["content"].push_back(event["part"]);
    } else if (type == "response.function_call_arguments.delta") {
      Json& call = output[event["output_index"].get<std::size_t>()];
      call["arguments"] = call["arguments"].get<std::string>() + event["delta"].get<std::string>();
    } else if (type == "response.custom_tool_call_input.delta") {
      Json& call = output[event["output_index"].get<std::size_t>()];
      call["input"] = call["input"].get<std::string>() + event["delta"].get<std::string>();
    } else if (type.ends_with(".delta")) {
      const char* name = type == "response.refusal.delta" ? "refusal" : "text";
      part(event)[name] = part(event)[name].get<std::string>() + event["delta"].get<std::string>();
    } else if (type == "response.content_part.done") {
      EXPECT_EQ(part(event), event["part"]);
    } else if (type == "response.output_item.done") {
      Json& item = output[event["output_index"].get<std::size_t>()];
      if (item.contains("status")) item["status"] = "completed";
      EXPECT_EQ(item, event["item"]);
    }
  }
  return output;
}

TEST_F(ResponsesTranslationTest, TheOrderOfEvents) {
  const auto events = events_of(
      streamed(chunk(R"({"role":"assistant","content":""})") + chunk(R"({"content":"He"})") +
               chunk(R"({"content":"y"})") + chunk("{}", R"("stop")") + last()));
  EXPECT_THAT(
      types_of(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta",
                  "response.output_text.delta", "response.output_text.done",
                  "response.content_part.done", "response.output_item.done", "response.completed"));
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[6]["text"], "Hey");
  EXPECT_EQ(
      events[9]["response"]["usage"],
      Json::parse(
          R"({"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":5,)"
          R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":15})"));
}

TEST_F(ResponsesTranslationTest, AStreamAddsUpToTheWholeAnswer) {
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
      {"text and a refusal",
       chunk(R"({"content":"Well."})") + chunk(R"({"refusal":"No."})", R"("content_filter")"),
       body(R"({"content":"Well.","refusal":"No."})", "content_filter")},
      {"nothing", chunk("{}", R"("stop")"), body(R"({"content":""})", "stop")},
  };
  for (const auto& c : kCases) {
    const Json whole = whole_of(c.whole);
    const auto events = events_of(streamed(c.events + last()));
    Json same = events.back()["response"];
    EXPECT_EQ(same, whole) << c.name;
    Json output = accumulated(events);
    ASSERT_EQ(output.size(), whole["output"].size()) << c.name;
    for (std::size_t i = 0; i < output.size(); ++i) {
      if (output[i].contains("status")) output[i]["status"] = whole["output"][i]["status"];
    }
    EXPECT_EQ(output, whole["output"]) << c.name;
    // Whatever the server sends, the client gets what it asked for.
    EXPECT_EQ(Json::parse(streamed(c.events + last(), "")), whole) << c.name;
  }
}

TEST_F(ResponsesTranslationTest, TheResponseRepeatsTheRequest) {
  const Json said =
      whole_of(body(R"({"content":"x"})", "stop"),
               R"(,"metadata":{"a":"b"},"temperature":0.50,"instructions":"I","store":false)");
  EXPECT_EQ(said["id"], "resp_7");
  EXPECT_EQ(said["object"], "response");
  EXPECT_EQ(said["created_at"], 12);
  EXPECT_EQ(said["status"], "completed");
  EXPECT_EQ(said["model"], "up");
  EXPECT_EQ(said["metadata"]["a"], "b");
  EXPECT_EQ(said["temperature"], 0.5);
  EXPECT_EQ(said["instructions"], "I");
  EXPECT_EQ(said["store"], false);
  EXPECT_EQ(said["top_p"], nullptr);
  EXPECT_EQ(said["tools"], Json::array());
  EXPECT_EQ(said["text"]["format"]["type"], "text");
  EXPECT_EQ(said["output"][0]["content"][0]["annotations"], Json::array());
  const Json cut = whole_of(body(R"({"content":"x"})", "length"));
  EXPECT_EQ(cut["status"], "incomplete");
  EXPECT_EQ(cut["incomplete_details"]["reason"], "max_output_tokens");
}

TEST_F(ResponsesTranslationTest, AStoredResponseGoesOn) {
  whole_of(
      body(R"({"content":"1","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]})",
           "tool_calls"));
  const auto stored = store.find("t", "resp_7");
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(Json::parse((*stored)->response)["id"], "resp_7");
  ResponsesTranslation next("8", 13, store);
  const auto chat = next.request(
      R"({"model":"m","previous_response_id":"resp_7","input":[{"type":"function_call_output","call_id":"a","output":"2"}]})",
      kClient);
  ASSERT_TRUE(chat.has_value()) << chat.error().message;
  EXPECT_EQ(
      Json::parse(*chat)["messages"],
      Json::parse(
          R"([{"role":"user","content":"Q"},{"role":"assistant","content":"1","tool_calls":[{"id":"a","type":"function",)"
          R"("function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"2"}])"));
  // Another tenant has no such response.
  ResponsesTranslation other("9", 14, store);
  const auto refused = other.request(R"({"model":"m","previous_response_id":"resp_7","input":"x"})",
                                     {.tenant = "u", .files = kClient.files});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
}

TEST_F(ResponsesTranslationTest, AConversationKeepsTheInstructionsOfItsFirstItems) {
  ResponsesTranslation first("7", 12, store);
  ASSERT_TRUE(
      first
          .request(
              R"({"model":"m","instructions":"I","input":[{"role":"developer","content":"D"},{"role":"user","content":"Q"}]})",
              kClient)
          .has_value());
  ASSERT_TRUE(first.whole(body(R"({"content":"1"})", "stop")).has_value());
  ResponsesTranslation next("8", 13, store);
  const auto chat =
      next.request(R"({"model":"m","previous_response_id":"resp_7","input":"R"})", kClient);
  ASSERT_TRUE(chat.has_value()) << chat.error().message;
  EXPECT_EQ(Json::parse(*chat)["messages"],
            Json::parse(R"([{"role":"system","content":"D"},{"role":"user","content":"Q"},)"
                        R"({"role":"assistant","content":"1"},{"role":"user","content":"R"}])"));
}

TEST_F(ResponsesTranslationTest, NothingIsStoredThatFailedOrIsNotToBe) {
  whole_of(body(R"({"content":"x"})", "stop"), R"(,"store":false)");
  EXPECT_FALSE(store.find("t", "resp_7").has_value());
  streamed(chunk(R"({"content":"x"})"));
  EXPECT_FALSE(store.find("t", "resp_7").has_value());
  streamed(chunk(R"({"content":"x"})", R"("stop")") + last());
  EXPECT_TRUE(store.find("t", "resp_7").has_value());
}

TEST_F(ResponsesTranslationTest, CacheDiagnosticsAreSaidToWhoAsksForThem) {
  PromptDiagnosis diagnosis{.state = PromptDiagnosis::State::kCompared};
  diagnosis.divergence = {.shared_bytes = 20, .total_bytes = 100, .lost_bytes = 80};
  diagnosis.divergence.part = PartPlace{.kind = PartKind::kSystem, .index = 0};
  const auto translation = asked(R"(,"prompt_cache_options":{"comparison_response_id":"resp_1"})");
  EXPECT_EQ(translation->comparison()->response_id, "resp_1");
  translation->diagnose(diagnosis);
  const std::string chat = body(R"({"content":"hi"})", "stop");
  EXPECT_EQ(
      Json::parse(translation->whole(chat).value())["prompt_cache_diagnostics"],
      Json::parse(
          R"({"type":"cache_miss","reason":"input_changed","cache_missed_tokens":8,"comparison_reusable_tokens":2})"));
  EXPECT_FALSE(whole_of(chat).contains("prompt_cache_diagnostics"));
}

TEST_F(ResponsesTranslationTest, AStreamThatFailsSaysSo) {
  const std::string begun = chunk(R"({"content":"He"})");
  for (const std::string& rest :
       {std::string(), std::string("data: {\"error\":{\"message\":\"tired\"}}\n\n"),
        std::string("data: {\"id\": \n\n")}) {
    const auto events = events_of(streamed(begun + rest));
    EXPECT_EQ(events.back()["type"], "response.failed") << rest;
    EXPECT_EQ(events.back()["response"]["status"], "failed");
    EXPECT_EQ(events.back()["response"]["error"]["code"], "server_error");
    EXPECT_EQ(events.back()["response"]["output"].back()["status"], "incomplete") << "it was cut";
  }
}

// The client knows a tool by its own name, its namespace and its kind, not by the chat's function.
TEST_F(ResponsesTranslationTest, CallsComeBackAsTheClientsTools) {
  const std::string tools =
      R"(,"tools":[{"type":"custom","name":"apply_patch"},{"type":"tool_search","parameters":{"type":"object"}},)"
      R"({"type":"namespace","name":"mcp__files","tools":[{"type":"function","name":"read"}]}])";
  const std::string calls =
      R"({"content":null,"tool_calls":[{"index":0,"id":"a","function":{"name":"apply_patch","arguments":"{\"input\":\"*** \\\"x\\\"\"}"}},)"
      R"({"index":1,"id":"b","function":{"name":"mcp__files__read","arguments":"{\"p\":1}"}},)"
      R"({"index":2,"id":"c","function":{"name":"tool_search","arguments":"{\"query\":\"q\"}"}}]})";
  const Json whole = whole_of(body(calls, "tool_calls"), tools);
  EXPECT_EQ(
      whole["output"],
      Json::parse(
          R"([{"id":"ctc_7_0","type":"custom_tool_call","status":"completed","call_id":"a","name":"apply_patch","input":"*** \"x\""},)"
          R"({"id":"fc_7_1","type":"function_call","status":"completed","call_id":"b","name":"read","namespace":"mcp__files","arguments":"{\"p\":1}"},)"
          R"({"id":"tsc_7_2","type":"tool_search_call","execution":"client","status":"completed","call_id":"c","arguments":{"query":"q"}}])"));
  const auto events =
      events_of(streamed(chunk(calls, R"("tool_calls")") + last(), R"(,"stream":true)" + tools));
  EXPECT_THAT(
      types_of(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
                  "response.output_item.done", "response.output_item.added",
                  "response.function_call_arguments.delta", "response.function_call_arguments.done",
                  "response.output_item.done", "response.output_item.added",
                  "response.output_item.done", "response.completed"));
  EXPECT_EQ(events.back()["response"]["output"], whole["output"]);
  // The conversation goes on with the chat's names.
  const auto stored = store.find("t", "resp_7");
  ASSERT_TRUE(stored.has_value());
  EXPECT_THAT((*stored)->messages, HasSubstr("mcp__files__read"));
}

TEST_F(ResponsesTranslationTest, AModelMayWriteTheTextOfACustomToolItself) {
  const std::string tools = R"(,"tools":[{"type":"custom","name":"run"}])";
  const Json whole =
      whole_of(body(R"({"tool_calls":[{"id":"a","function":{"name":"run","arguments":"ls -l"}}]})",
                    "tool_calls"),
               tools);
  EXPECT_EQ(whole["output"][0]["input"], "ls -l");
}

}  // namespace
}  // namespace afterimage
