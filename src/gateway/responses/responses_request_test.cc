// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/responses/responses_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/protocol/testing/chat_identity.h"

namespace afterimage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

Result<UploadedFile> find_file(std::string_view id) {
  const auto file = [](const char* type, const char* bytes) {
    return UploadedFile{.type = type, .bytes = std::make_shared<const std::string>(bytes)};
  };
  if (id == "file-picture") return file("image/png", "\x89PNG\r\n\x1a\n");
  if (id == "file-text") return file("text/plain", "some text");
  return fail(ErrorCode::kNotFound, "there is no file '" + std::string(id) + "'");
}

Result<std::shared_ptr<const StoredResponse>> find_response(std::string_view id) {
  if (id != "resp_1") return fail(ErrorCode::kNotFound, "there is no response");
  return std::make_shared<const StoredResponse>(StoredResponse{
      .response = "{}",
      .items = "[]",
      .messages = R"({"role":"user","content":"One?"},{"role":"assistant","content":"1"})"});
}

Result<ResponsesRequest> read(const std::string& body) {
  return read_responses_request(body, find_file, find_response, "7");
}
std::string with(const std::string& more) {
  return R"({"model":"m","temperature":0,"max_output_tokens":8,)" + more + "}";
}
std::string input(const std::string& items) { return with(R"("input":)" + items); }
Json chat_of(const std::string& body) {
  const auto request = read(body);
  EXPECT_TRUE(request.has_value()) << request.error().message << "\n" << body;
  return request.has_value() ? Json::parse(request->chat) : Json();
}

TEST(ResponsesRequest, HasTheIdentityOfTheEqualChat) {
  const auto expect_same = [](const std::string& body, const std::string& chat) {
    const auto request = read(body);
    ASSERT_TRUE(request.has_value()) << request.error().message;
    EXPECT_TRUE(testing::identity_of(request->chat) == testing::identity_of(chat))
        << request->chat << "\n"
        << chat;
  };
  const std::string plain =
      R"({"messages":[{"role":"user","content":"What is it?"}],"model":"m","temperature":0,"max_tokens":8})";
  expect_same(input(R"("What is it?")"), plain);
  expect_same(input(R"([{"role":"user","content":"What is it?"}])"), plain);
  expect_same(
      with(
          R"("store":false,"metadata":{"a":"b"},"user":"u","stream":true,"input":[{"type":"message","role":"user",)"
          R"("content":[{"type":"input_text","text":"What is it?"}]}])"),
      plain);
  const std::string picture =
      R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"What?"},)"
      R"({"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}],"model":"m","temperature":0,"max_tokens":8})";
  for (const char* image :
       {R"("file_id":"file-picture")", R"("file_id":"file-picture","detail":"auto")",
        R"("image_url":"data:image/png;base64,iVBORw0KGgo=")"}) {
    expect_same(
        with(
            R"("instructions":"Be brief.","input":[{"role":"user","content":[{"type":"input_text","text":"What?"},)"
            R"({"type":"input_image",)" +
            std::string(image) + "}]}]"),
        picture);
  }
}

TEST(ResponsesRequest, TwoBillingLinesAreOnePrompt) {
  const std::string line = R"(x-anthropic-billing-header: cch=9f3c2;)";
  const std::string question = R"({"role":"user","content":"Q"}])";
  const auto without = read(with(R"("instructions":"Help.","input":[)" + question));
  const auto in_instructions =
      read(with(R"("instructions":")" + line + R"(\nHelp.","input":[)" + question));
  const auto in_item =
      read(with(R"("input":[{"role":"system","content":[{"type":"input_text","text":")" + line +
                R"("},{"type":"input_text","text":"Help."}]},)" + question));
  for (const auto* request : {&in_instructions, &in_item}) {
    ASSERT_TRUE(request->has_value()) << request->error().message;
    EXPECT_EQ((*request)->chat, without->chat);
  }
  EXPECT_THAT(in_instructions->ignored, ElementsAre("instructions"));
  EXPECT_THAT(in_item->ignored, ElementsAre("input[0].content"));
  const Json only = chat_of(with(R"("instructions":")" + line + R"(","input":[)" + question));
  EXPECT_EQ(only["messages"].size(), 1U);
}

TEST(ResponsesRequest, ItemsOfOneTurnBecomeOneMessage) {
  const Json chat = chat_of(input(
      R"([{"role":"user","content":"Weather?"},)"
      R"({"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},)"
      R"({"type":"message","role":"assistant","id":"a","status":"completed","content":[{"type":"output_text","text":"Let me see.","annotations":[]}]},)"
      R"({"type":"function_call","call_id":"c1","name":"weather","arguments":"{\"city\": 1}"},)"
      R"({"type":"function_call","call_id":"c2","name":"clock","arguments":"{}"},)"
      R"({"type":"function_call_output","call_id":"c1","output":"rain"},)"
      R"({"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"noon"},{"type":"input_image","file_id":"file-picture"}]},)"
      R"({"type":"function_call","call_id":"c3","name":"clock","arguments":"{}"},)"
      R"({"role":"developer","content":"Be brief."}])"));
  const Json expected = Json::parse(
      R"([{"role":"user","content":"Weather?"},)"
      R"({"role":"assistant","content":"Let me see.","reasoning_content":"hm","tool_calls":[)"
      R"({"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\": 1}"}},)"
      R"({"id":"c2","type":"function","function":{"name":"clock","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"rain"},)"
      R"({"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"noon"},)"
      R"({"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"c3","type":"function","function":{"name":"clock","arguments":"{}"}}]},)"
      R"({"role":"user","content":"<system-reminder>\nBe brief.\n</system-reminder>"}])");
  EXPECT_EQ(chat["messages"], expected);
}

TEST(ResponsesRequest, AConversationGoesOnWithoutItsInstructions) {
  const auto request =
      read(with(R"("instructions":"New.","previous_response_id":"resp_1","input":"Two?")"));
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(Json::parse(request->chat)["messages"],
            Json::parse(R"([{"role":"system","content":"New."},{"role":"user","content":"One?"},)"
                        R"({"role":"assistant","content":"1"},{"role":"user","content":"Two?"}])"));
  // What is stored has no instructions.
  EXPECT_EQ(Json::parse("[" + request->messages + "]").size(), 3U);
  const auto missing = read(with(R"("previous_response_id":"resp_2","input":"Two?")"));
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, StartsWith("previous_response_id"));
}

// Templates take one system message, at the beginning; Codex sends two items of the role developer there.
TEST(ResponsesRequest, TheFirstInstructionsAreOneSystemMessage) {
  const std::string items =
      R"([{"role":"developer","content":[{"type":"input_text","text":"A"},{"type":"input_text","text":"B"}]},)"
      R"({"role":"system","content":"C"},{"role":"user","content":"Q"},{"role":"developer","content":"Late."}])";
  const Json system = Json::parse(R"({"role":"system","content":"A\n\nB\n\nC"})");
  const Json chat = chat_of(input(items));
  ASSERT_EQ(chat["messages"].size(), 3U);
  EXPECT_EQ(chat["messages"][0], system);
  EXPECT_EQ(chat["messages"][2]["role"], "user");
  const Json instructed = chat_of(with(R"("instructions":"I","input":)" + items));
  EXPECT_EQ(instructed["messages"][0]["content"], "I\n\nA\n\nB\n\nC");
  EXPECT_EQ(instructed["messages"].size(), 3U);
  // In a conversation that goes on they stand where they are said.
  const Json later = chat_of(with(R"("previous_response_id":"resp_1","input":)" + items));
  EXPECT_EQ(later["messages"][2]["content"], "<system-reminder>\nA\n\nB\n</system-reminder>");
  // A picture is no instruction: the message stays as it is.
  const Json shown = chat_of(input(
      R"([{"role":"developer","content":[{"type":"input_image","file_id":"file-picture"}]}])"));
  EXPECT_EQ(shown["messages"][0]["role"], "developer");
}

TEST(ResponsesRequest, Fields) {
  const Json chat = chat_of(with(
      R"("input":"Q","top_p":0.5,"seed":3,"top_k":2,"parallel_tool_calls":false,"truncation":"disabled","background":false,)"
      R"("include":["reasoning.encrypted_content"],"service_tier":"auto","prompt_cache_key":"k","reasoning":{"effort":"low","summary":"auto"},)"
      R"("tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true}],)"
      R"("tool_choice":{"type":"function","name":"f"},)"
      R"("text":{"verbosity":"low","format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}})"));
  EXPECT_EQ(
      chat["tools"],
      Json::parse(
          R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}}])"));
  EXPECT_EQ(chat["tool_choice"], Json::parse(R"({"type":"function","function":{"name":"f"}})"));
  EXPECT_EQ(
      chat["response_format"],
      Json::parse(
          R"({"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}})"));
  EXPECT_EQ(chat["reasoning_effort"], "low");
  EXPECT_EQ(chat["verbosity"], "low");
  EXPECT_EQ(chat["parallel_tool_calls"], false);
  EXPECT_EQ(chat["max_tokens"], 8);
  EXPECT_EQ(chat["top_k"], 2);
  for (const char* absent :
       {"store", "metadata", "truncation", "background", "include", "service_tier", "stream"}) {
    EXPECT_FALSE(chat.contains(absent)) << absent;
  }
}

TEST(ResponsesRequest, FilesOfTextAreTexts) {
  const Json chat = chat_of(input(
      R"([{"role":"user","content":[{"type":"input_file","file_id":"file-text"},)"
      R"({"type":"input_file","filename":"a.txt","file_data":"data:text/plain;base64,aGV5"}]}])"));
  EXPECT_EQ(chat["messages"][0]["content"],
            Json::parse(R"([{"type":"text","text":"some text"},{"type":"text","text":"hey"}])"));
}

TEST(ResponsesRequest, FilesOfPdfAreFiles) {
  const Json chat = chat_of(input(
      R"([{"role":"user","content":[)"
      R"({"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERg=="}]}])"));
  EXPECT_EQ(
      chat["messages"][0]["content"],
      Json::parse(
          R"([{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERg=="}}])"));
}

TEST(ResponsesRequest, InputItemsGetIds) {
  const auto request = read(input(
      R"([{"role":"user","content":"Q"},{"type":"message","id":"mine","role":"user","content":"R"}])"));
  ASSERT_TRUE(request.has_value());
  const Json items = Json::parse(request->items);
  EXPECT_EQ(items[0],
            Json::parse(R"({"id":"msg_7_0","type":"message","role":"user","content":"Q"})"));
  EXPECT_EQ(items[1]["id"], "mine");
  EXPECT_EQ(Json::parse(read(input(R"("Q")"))->items)[0]["content"][0]["type"], "input_text");
}

TEST(ResponsesRequest, RefusesWhatAChatCannotSayByName) {
  const auto q = [](const std::string& more) { return with(R"("input":"Q",)" + more); };
  const auto part = [](const std::string& json) {
    return input(R"([{"role":"user","content":[)" + json + "]}]");
  };
  const struct {
    const char* place;
    std::string body;
  } kCases[] = {
      {"model", R"({"input":"Q"})"},
      {"input ", R"({"model":"m"})"},
      {"input ", R"({"model":"m","input":[]})"},
      {"input[0] ", input("[7]")},
      {"input[0].role", input(R"([{"role":"tool","content":"x"}])")},
      {"input[0] ", input(R"([{"type":"item_reference","id":"x"}])")},
      {"input[0] ", input(R"([{"type":"computer_call"}])")},
      {"input[0].content ", input(R"([{"role":"user"}])")},
      {"input[0].content[0].type", part("{}")},
      {"input[0].content[0] ", part(R"({"type":"input_audio"})")},
      {"input[0].content[0].image_url", part(R"({"type":"input_image"})")},
      {"input[0].content[0].file_id", part(R"({"type":"input_image","file_id":"file-text"})")},
      {"input[0].content[0].file_id: there is no file",
       part(R"({"type":"input_file","file_id":"x"})")},
      {"input[0].content[0].file_url",
       part(R"({"type":"input_file","file_url":"http://x/y.pdf"})")},
      {"input[0].content[0].file_data",
       part(R"({"type":"input_file","file_data":"data:application/zip;base64,JVBERg=="})")},
      {"tools[0].type", q(R"("tools":[{"type":"local_shell"}])")},
      {"tools[1].name",
       q(R"("tools":[{"type":"function","name":"f"},{"type":"custom","name":"f"}])")},
      {"tools[0].tools[0].type",
       q(R"("tools":[{"type":"namespace","name":"a","tools":[{"type":"namespace","name":"b"}]}])")},
      {"tools[0].tools ", q(R"("tools":[{"type":"namespace","name":"a","tools":7}])")},
      {"tools[0].name", q(R"("tools":[{"type":"function"}])")},
      {"tool_choice.type", q(R"("tool_choice":{"type":"file_search"})")},
      {"tool_choice ", q(R"("tool_choice":"some")")},
      {"background", q(R"("background":true)")},
      {"truncation", q(R"("truncation":"some")")},
      {"top_logprobs", q(R"("top_logprobs":2)")},
      {"include", q(R"("include":["message.output_text.logprobs"])")},
      {"conversation", q(R"("conversation":"c")")},
      {"prompt ", q(R"("prompt":{"id":"p"})")},
      {"reasoning.budget", q(R"("reasoning":{"budget":7})")},
      {"text.format.type", q(R"("text":{"format":{"type":"xml"}})")},
      {"metadata", q(R"("metadata":7)")},
      {"temperature", R"({"model":"m","input":"Q","temperature":"hot"})"},
      {"max_output_tokens", R"({"model":"m","input":"Q","max_output_tokens":0})"},
      {"the body", "{"},
      {"the body", R"({"model":"m","model":"m"})"},
  };
  for (const auto& c : kCases) {
    const auto request = read(c.body);
    ASSERT_FALSE(request.has_value()) << c.body;
    EXPECT_THAT(request.error().message, StartsWith(c.place)) << c.body;
  }
}

// What current coding agents send with every request. Each is answered as without it.
TEST(ResponsesRequest, WhatHasNoInfluenceIsLeftOutAndNamed) {
  const auto plain = read(with(R"("input":"Q","tools":[{"type":"function","name":"f"}])"));
  const auto all = read(with(
      R"("input":"Q","client_metadata":{"turn":"1"},"prompt_cache_options":{"comparison_response_id":"x"},)"
      R"("tools":[{"type":"web_search"},{"type":"function","name":"f"},{"type":"image_generation"}],"truncation":"auto",)"
      R"("include":["reasoning.encrypted_content","web_search_call.action.sources"],"reasoning":{"summary":"detailed"})"));
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_THAT(all->ignored, ElementsAre("client_metadata", "truncation", "include[1]", "tools[0]",
                                        "tools[2]", "reasoning.summary"));
  EXPECT_TRUE(testing::identity_of(plain->chat) == testing::identity_of(all->chat)) << all->chat;
}

TEST(ResponsesRequest, CacheOptionsNameAResponseToCompareWith) {
  const auto options = [](const std::string& json) {
    return read(with(R"("input":"Q","prompt_cache_options":)" + json));
  };
  const auto all = options(R"({"comparison_response_id":"resp_1","mode":"explicit","ttl":null})");
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_EQ(all->comparison_id, "resp_1");
  EXPECT_THAT(all->ignored, ElementsAre("prompt_cache_options.mode"));
  EXPECT_EQ(options("{}")->comparison_id, "");
  EXPECT_EQ(options(R"({"comparison_response_id":7})").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(options("7").error().code, ErrorCode::kInvalidArgument);
}

TEST(ResponsesRequest, ToolsOfOtherFormsAreFunctions) {
  const auto request = read(with(
      R"("input":"Q","tool_choice":{"type":"custom","name":"apply_patch"},"tools":[)"
      R"({"type":"custom","name":"apply_patch","description":"edits","format":{"type":"grammar","syntax":"lark","definition":"start: /.+/"}},)"
      R"({"type":"namespace","name":"mcp__files","description":"Files.","tools":[{"type":"function","name":"read","description":"reads","parameters":{"type":"object"}},)"
      R"({"type":"custom","name":"run"}]},)"
      R"({"type":"namespace","name":"mcp__web__","tools":[{"type":"function","name":"read"}]},)"
      R"({"type":"tool_search","execution":"client","description":"finds","parameters":{"type":"object"}}])"));
  ASSERT_TRUE(request.has_value()) << request.error().message;
  const Json chat = Json::parse(request->chat);
  ASSERT_EQ(chat["tools"].size(), 5U);
  EXPECT_EQ(
      chat["tools"][0]["function"],
      Json::parse(
          R"({"name":"apply_patch","description":"edits","parameters":{"type":"object","properties":{"input":{"type":"string",)"
          R"("description":"A text of this lark grammar:\nstart: /.+/"}},"required":["input"]}})"));
  EXPECT_EQ(
      chat["tools"][1]["function"],
      Json::parse(
          R"({"name":"mcp__files__read","description":"reads\n\nFiles.","parameters":{"type":"object"}})"));
  EXPECT_EQ(chat["tools"][2]["function"]["name"], "mcp__files__run");
  EXPECT_EQ(chat["tools"][3]["function"]["name"], "mcp__web__read");
  EXPECT_EQ(chat["tools"][4]["function"]["name"], "tool_search");
  EXPECT_EQ(chat["tool_choice"]["function"]["name"], "apply_patch");
  EXPECT_THAT(request->ignored, ElementsAre("tools[0].format"));
}

TEST(ResponsesRequest, CallsOfSuchToolsAreCallsOfTheirFunctions) {
  const auto request = read(input(
      R"([{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"}]}]},)"
      R"({"role":"user","content":"Q"},{"type":"custom_tool_call","call_id":"a","namespace":"functions","name":"exec","input":"ls \"x\""},)"
      R"({"type":"custom_tool_call_output","call_id":"a","output":"ok"},)"
      R"({"type":"function_call","call_id":"b","namespace":"mcp__files","name":"read","arguments":"{}"},)"
      R"({"type":"function_call_output","call_id":"b","output":"text"},)"
      R"({"type":"tool_search_call","call_id":"c","execution":"client","arguments":{"query": "mail"}},)"
      R"({"type":"tool_search_output","call_id":"c","execution":"client","status":"completed","tools":[{"type":"namespace","name":"mail","tools":[{"type":"function","name":"send"}]}]},)"
      R"({"type":"web_search_call","status":"completed"},)"
      R"({"type":"agent_message","author":"helper","recipient":"main","content":[{"type":"input_text","text":"done"}]}])"));
  ASSERT_TRUE(request.has_value()) << request.error().message;
  const Json chat = Json::parse(request->chat);
  EXPECT_EQ(
      chat["messages"],
      Json::parse(
          R"([{"role":"user","content":"Q"},)"
          R"({"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"functions__exec","arguments":"{\"input\":\"ls \\\"x\\\"\"}"}}]},)"
          R"({"role":"tool","tool_call_id":"a","content":"ok"},)"
          R"({"role":"assistant","content":null,"tool_calls":[{"id":"b","type":"function","function":{"name":"mcp__files__read","arguments":"{}"}}]},)"
          R"({"role":"tool","tool_call_id":"b","content":"text"},)"
          R"({"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"tool_search","arguments":"{\"query\":\"mail\"}"}}]},)"
          R"({"role":"tool","tool_call_id":"c","content":"{\"tools\":[\"mail__send\"]}"},)"
          R"({"role":"user","content":[{"type":"text","text":"Message from helper:"},{"type":"text","text":"done"}]}])"));
  EXPECT_EQ(chat["tools"][0]["function"]["name"], "functions__exec");
  EXPECT_EQ(chat["tools"][1]["function"]["name"], "mail__send");
  EXPECT_THAT(request->ignored, ElementsAre("input[8]"));
}

}  // namespace
}  // namespace afterimage
