// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/anthropic/messages_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/protocol/testing/chat_identity.h"

namespace afterimage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::json;

Result<UploadedFile> find_file(std::string_view id) {
  const auto file = [](const char* type, const char* bytes) {
    return UploadedFile{.type = type, .bytes = std::make_shared<const std::string>(bytes)};
  };
  if (id == "file-picture") return file("image/png", "\x89PNG\r\n\x1a\n");
  if (id == "file-text") return file("text/plain", "some text");
  if (id == "file-pdf") return file("application/pdf", "%PDF-1.7");
  if (id == "file-zip") return file("application/zip", "PK");
  return fail(ErrorCode::kNotFound, "there is no file '" + std::string(id) + "'");
}

std::string with(const std::string& more) {
  return R"({"model":"m","max_tokens":8,"temperature":0,)" + more + "}";
}
std::string content(const std::string& blocks) {
  return with(R"("messages":[{"role":"user","content":)" + blocks + "}]");
}

std::string more(const std::string& fields) {
  return with(R"("messages":[{"role":"user","content":"x"}],)" + fields);
}

Json chat_of(const std::string& body) {
  const auto read = read_messages_request(body, find_file);
  EXPECT_TRUE(read.has_value()) << read.error().message << "\n" << body;
  return read.has_value() ? Json::parse(read->chat) : Json();
}

void expect_same_identity(const std::string& messages, const std::string& chat) {
  const auto read = read_messages_request(messages, find_file);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_TRUE(testing::identity_of(read->chat) == testing::identity_of(chat)) << read->chat << "\n"
                                                                              << chat;
}

TEST(MessagesRequest, HasTheIdentityOfTheEqualChat) {
  expect_same_identity(
      content(R"("What is it?")"),
      R"({"messages":[{"role":"user","content":"What is it?"}],"model":"m","temperature":0,"max_tokens":8})");
  expect_same_identity(
      content(R"([{"type":"text","text":"What is it?","cache_control":{"type":"ephemeral"}}])"),
      R"({"messages":[{"role":"user","content":"What is it?"}],"model":"m","temperature":0,"max_tokens":8})");
  const std::string chat_with_picture =
      R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"What?"},)"
      R"({"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}],)"
      R"("model":"m","temperature":0,"max_tokens":8,"stream":true,"stream_options":{"include_usage":true}})";
  for (const std::string& source :
       {std::string(R"({"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="})"),
        std::string(R"({"type":"file","file_id":"file-picture"})")}) {
    expect_same_identity(
        with(
            R"("system":"Be brief.","messages":[{"role":"user","content":[{"type":"text","text":"What?"},)"
            R"({"type":"image","source":)" +
            source + R"(}]}],"metadata":{"user_id":"u"})"),
        chat_with_picture);
  }
}

TEST(MessagesRequest, ADocumentOfPdfIsAFile) {
  const std::string chat =
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"Report"},)"
      R"({"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0xLjc="}}]}],)"
      R"("model":"m","temperature":0,"max_tokens":8})";
  for (const std::string& source :
       {std::string(R"({"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjc="})"),
        std::string(R"({"type":"file","file_id":"file-pdf"})")}) {
    EXPECT_EQ(chat_of(content(R"([{"type":"document","title":"Report","source":)" + source + "}]")),
              Json::parse(chat));
  }
}

TEST(MessagesRequest, CacheControlHasNoInfluence) {
  const std::string plain = with(
      R"("system":[{"type":"text","text":"s"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],)"
      R"("messages":[{"role":"user","content":[{"type":"text","text":"Q"}]}])");
  const std::string marked = with(
      R"("cache_control":{"type":"ephemeral"},"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}],)"
      R"("tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],)"
      R"("messages":[{"role":"user","content":[{"type":"text","text":"Q","cache_control":{"type":"ephemeral"}}]}])");
  EXPECT_EQ(chat_of(plain), chat_of(marked));
}

TEST(MessagesRequest, AToolsRoundTripBecomesAChats) {
  const Json chat = chat_of(with(
      R"("messages":[{"role":"user","content":"Weather?"},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"Let me see."},)"
      R"({"type":"tool_use","id":"t1","name":"weather","input":{"city": "Oslo", "n": 1.50}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"map:"},)"
      R"({"type":"image","source":{"type":"file","file_id":"file-picture"}}]},{"type":"text","text":"And now?"}]}],)"
      R"("tools":[{"name":"weather","description":"d","input_schema":{"type":"object"}}],)"
      R"("tool_choice":{"type":"any","disable_parallel_tool_use":true})"));
  const Json expected = Json::parse(
      R"([{"role":"user","content":"Weather?"},)"
      R"({"role":"assistant","content":"Let me see.","reasoning_content":"hm","tool_calls":[{"id":"t1","type":"function",)"
      R"("function":{"name":"weather","arguments":"{\"city\":\"Oslo\",\"n\":1.50}"}}]},)"
      R"({"role":"tool","tool_call_id":"t1","content":[{"type":"text","text":"map:"},)"
      R"({"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},)"
      R"({"role":"user","content":"And now?"}])");
  EXPECT_EQ(chat["messages"], expected);
  EXPECT_EQ(
      chat["tools"],
      Json::parse(
          R"([{"type":"function","function":{"name":"weather","description":"d","parameters":{"type":"object"}}}])"));
  EXPECT_EQ(chat["tool_choice"], "required");
  EXPECT_EQ(chat["parallel_tool_calls"], false);
}

TEST(MessagesRequest, AFailedToolsResultSaysSo) {
  const Json chat = chat_of(
      content(R"([{"type":"tool_result","tool_use_id":"t","content":"no disk","is_error":true}])"));
  EXPECT_EQ(chat["messages"][0]["content"],
            Json::parse(R"([{"type":"text","text":"Error:"},{"type":"text","text":"no disk"}])"));
}

TEST(MessagesRequest, GenerationFields) {
  const Json chat = chat_of(with(
      R"("top_p":0.50,"top_k":3,"stop_sequences":["a","b"],"seed":4,"cache":{"ttl":9},"stream":true,)"
      R"("messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"The"}],)"
      R"("output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}},)"
      R"("thinking":{"type":"adaptive"},"service_tier":"auto","metadata":{"user_id":"u1"})"));
  EXPECT_EQ(chat["top_k"], 3);
  EXPECT_EQ(chat["stop"], Json::parse(R"(["a","b"])"));
  EXPECT_EQ(chat["max_tokens"], 8);
  EXPECT_EQ(chat["continue_final_message"], true);
  EXPECT_EQ(chat["add_generation_prompt"], false);
  EXPECT_EQ(chat["reasoning_effort"], "low");
  EXPECT_EQ(chat["response_format"]["json_schema"]["schema"]["type"], "object");
  EXPECT_EQ(chat["user"], "u1");
  EXPECT_EQ(chat["seed"], 4);
  EXPECT_EQ(chat["cache"]["ttl"], 9);
  EXPECT_EQ(chat["stream_options"]["include_usage"], true);
  for (const char* ignored : {"thinking", "service_tier", "metadata", "output_config"}) {
    EXPECT_FALSE(chat.contains(ignored)) << ignored;
  }
}

TEST(MessagesRequest, DocumentsOfTextAreTexts) {
  const Json chat = chat_of(content(
      R"([{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"body"}},)"
      R"({"type":"document","source":{"type":"file","file_id":"file-text"}}])"));
  EXPECT_EQ(
      chat["messages"][0]["content"],
      Json::parse(
          R"([{"type":"text","text":"T"},{"type":"text","text":"body"},{"type":"text","text":"some text"}])"));
}

TEST(MessagesRequest, RefusesWhatAChatCannotSayByName) {
  const struct {
    const char* place;
    std::string body;
  } kCases[] = {
      {"model", R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}]})"},
      {"max_tokens", R"({"model":"m","messages":[{"role":"user","content":"x"}]})"},
      {"max_tokens", R"({"model":"m","max_tokens":-1,"messages":[{"role":"user","content":"x"}]})"},
      {"messages ", with(R"("messages":[])")},
      {"messages[0].role", with(R"("messages":[{"role":"tool","content":"x"}])")},
      {"messages[0].content[0] must be a text block",
       with(R"("messages":[{"role":"system","content":[{"type":"image"}]}])")},
      {"messages[0].content ", content("7")},
      {"messages[0].content ", content("[]")},
      {"messages[0].content[0].type", content("[{}]")},
      {"messages[0].content[0] ", content(R"([{"type":"search_result"}])")},
      {"messages[0].content[0].text", content(R"([{"type":"text","text":7}])")},
      {"messages[0].content[0].more", content(R"([{"type":"text","text":"x","more":1}])")},
      {"messages[0].content[0].source.type",
       content(R"([{"type":"image","source":{"type":"x"}}])")},
      {"messages[0].content[0].source.media_type",
       content(R"([{"type":"image","source":{"type":"base64","media_type":"a,b","data":""}}])")},
      {"messages[0].content[0].source.file_id: there is no file 'file-x'",
       content(R"([{"type":"image","source":{"type":"file","file_id":"file-x"}}])")},
      {"messages[0].content[0].source.file_id",
       content(R"([{"type":"image","source":{"type":"file","file_id":"file-text"}}])")},
      {"messages[0].content[0].source ",
       content(R"([{"type":"document","source":{"type":"url","url":"http://x/y.pdf"}}])")},
      {"messages[0].content[0].source.media_type",
       content(
           R"([{"type":"document","source":{"type":"base64","media_type":"application/zip","data":""}}])")},
      {"messages[0].content[0].source.file_id",
       content(R"([{"type":"document","source":{"type":"file","file_id":"file-zip"}}])")},
      {"messages[0].content[0].citations",
       content(
           R"([{"type":"document","citations":{"enabled":true},"source":{"type":"text","data":"x"}}])")},
      {"messages[0].content[1] must come before",
       content(R"([{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"t"}])")},
      {"messages[0].content[0] ",
       with(R"("messages":[{"role":"assistant","content":[{"type":"server_tool_use"}]}])")},
      {"tools[0].type", more(R"("tools":[{"type":"bash_20250124","name":"bash"}])")},
      // A choice of a tool that is left out would have the model call nothing.
      {"tool_choice.name", more(R"("tools":[{"type":"web_search_20250305","name":"web_search"}],)"
                                R"("tool_choice":{"type":"tool","name":"web_search"})")},
      {"tools[0].input_schema", more(R"("tools":[{"name":"f"}])")},
      {"tool_choice.type", more(R"("tool_choice":{"type":"all"})")},
      {"thinking.type", more(R"("thinking":{"type":"often"})")},
      {"metadata ", more(R"("metadata":1)")},
      {"mcp_servers", more(R"("mcp_servers":[{"a":1}])")},
      {"container", more(R"("container":"c")")},
      {"output_config.effort", more(R"("output_config":{"effort":"most"})")},
      {"the body", "["},
      {"the body", "[]"},
      {"the body", R"({"model":"m","model":"n"})"},
  };
  for (const auto& c : kCases) {
    const auto read = read_messages_request(c.body, find_file);
    ASSERT_FALSE(read.has_value()) << c.body;
    EXPECT_THAT(read.error().message, StartsWith(c.place)) << c.body;
  }
}

TEST(MessagesRequest, CountingNeedsNoLimit) {
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"x"}]})";
  const auto read = read_messages_request(body, find_file, MessagesUse::kCount);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_FALSE(Json::parse(read->chat).contains("max_tokens"));
}

TEST(MessagesRequest, ThinkingIsShownUnlessItIsOff) {
  const auto shows = [](const std::string& thinking) {
    return read_messages_request(with(R"("messages":[{"role":"user","content":"x"}])" + thinking),
                                 find_file)
        ->shows_reasoning;
  };
  EXPECT_FALSE(shows(""));
  EXPECT_FALSE(shows(R"(,"thinking":{"type":"disabled"})"));
  EXPECT_TRUE(shows(R"(,"thinking":{"type":"adaptive"})"));
  EXPECT_TRUE(shows(R"(,"thinking":{"type":"enabled","budget_tokens":2000})"));
  EXPECT_FALSE(shows(R"(,"thinking":{"type":"adaptive","display":"omitted"})"));
}

// What current coding agents send with nearly every request. Each is answered as without it.
TEST(MessagesRequest, WhatHasNoInfluenceIsLeftOutAndNamed) {
  const auto plain = read_messages_request(
      more(R"("tools":[{"name":"Read","input_schema":{"type":"object"}}])"), find_file);
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_THAT(plain->ignored, IsEmpty());
  const auto all = read_messages_request(
      more(
          R"("context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},)"
          R"("diagnostics":{"previous_message_id":null},"betas":["b"],"thinking":{"type":"enabled","budget_tokens":2000},)"
          R"("tools":[{"type":"web_search_20250305","name":"web_search","max_uses":2},)"
          R"({"name":"Read","input_schema":{"type":"object"},"defer_loading":true}],"metadata":{"user_id":"u","more":1})"),
      find_file);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_THAT(all->ignored, ElementsAre("context_management", "betas", "tools[0]",
                                        "tools[1].defer_loading", "thinking.budget_tokens"));
  EXPECT_TRUE(testing::identity_of(plain->chat) == testing::identity_of(all->chat)) << all->chat;
}

TEST(MessagesRequest, DiagnosticsNameAnEarlierMessage) {
  const auto with = [](const std::string& diagnostics) {
    return read_messages_request(more("\"diagnostics\":" + diagnostics), find_file);
  };
  EXPECT_EQ(with(R"({"previous_message_id":"msg_1"})")->diagnosed_with, "msg_1");
  EXPECT_EQ(with(R"({"previous_message_id":null})")->diagnosed_with, "");
  EXPECT_EQ(with("{}")->diagnosed_with, "");
  EXPECT_EQ(with("null")->diagnosed_with, std::nullopt);
  EXPECT_EQ(with(R"({"previous_message_id":7})").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(with("7").error().code, ErrorCode::kInvalidArgument);
}

TEST(MessagesRequest, TheMostEffortIsAChatsMost) {
  const auto read = read_messages_request(more(R"("output_config":{"effort":"max"})"), find_file);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(Json::parse(read->chat)["reasoning_effort"], "xhigh");
  EXPECT_THAT(read->ignored, ElementsAre("output_config.effort"));
}

// Without tools a choice among them is left out: servers refuse it.
TEST(MessagesRequest, AChoiceWithoutToolsIsLeftOut) {
  const Json chat = chat_of(more(R"("tools":[{"type":"web_fetch_20250910","name":"web_fetch"}],)"
                                 R"("tool_choice":{"type":"auto"})"));
  EXPECT_FALSE(chat.contains("tools"));
  EXPECT_FALSE(chat.contains("tool_choice"));
}

// The first block of some agents' system prompts changes with every request, and no prefix was ever
// found again.
TEST(MessagesRequest, TwoBillingLinesAreOnePrompt) {
  const auto asked = [](const std::string& system) {
    return read_messages_request(
        with(R"("messages":[{"role":"user","content":"Q"}],"system":)" + system), find_file);
  };
  const auto block = [](const std::string& text) {
    return R"({"type":"text","text":")" + text + R"("})";
  };
  const std::string one = "x-anthropic-billing-header: cc_version=2.1; cch=00a1b;";
  const std::string two = "x-anthropic-billing-header: cc_version=2.1; cch=9f3c2;";
  const auto without = asked("[" + block("You help.") + "]");
  const auto first = asked("[" + block(one) + "," + block("You help.") + "]");
  const auto second = asked("[" + block(two) + "," + block("You help.") + "]");
  const auto in_one_text = asked("\"" + two + "\\nYou help.\"");
  for (const auto* read : {&first, &second, &in_one_text}) {
    ASSERT_TRUE(read->has_value()) << read->error().message;
    EXPECT_EQ((*read)->chat, without->chat);
  }
  EXPECT_THAT(first->ignored, ElementsAre("system[0]"));
  EXPECT_THAT(in_one_text->ignored, ElementsAre("system"));
  // Said elsewhere it is text like any other.
  const auto quoted = asked("[" + block("See: " + one) + "]");
  EXPECT_THAT(quoted->ignored, IsEmpty());
  EXPECT_NE(quoted->chat.find(one), std::string::npos);
  // Nothing but such a line is no system message.
  EXPECT_EQ(Json::parse(asked("[" + block(one) + "]")->chat)["messages"].size(), 1U);
}

// Many templates take a system message at the beginning only, and others want turns to alternate.
TEST(MessagesRequest, InstructionsWithinAConversationAreTheUsers) {
  const Json chat = chat_of(with(
      R"("system":"Be brief.","messages":[{"role":"user","content":"Hello"},{"role":"system","content":"Skills: none."},)"
      R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]},)"
      R"({"role":"system","content":[{"type":"text","text":"Be careful."}]}])"));
  EXPECT_EQ(
      chat["messages"],
      Json::parse(
          R"([{"role":"system","content":"Be brief."},)"
          R"({"role":"user","content":[{"type":"text","text":"Hello"},)"
          R"({"type":"text","text":"<system-reminder>\nSkills: none.\n</system-reminder>"}]},)"
          R"({"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
          R"({"role":"tool","tool_call_id":"t","content":"ok"},)"
          R"({"role":"user","content":"<system-reminder>\nBe careful.\n</system-reminder>"}])"));
}

TEST(MessagesRequest, BlocksOfOtherServersAndReferencesToTools) {
  const auto read = read_messages_request(
      with(
          R"("messages":[{"role":"user","content":"Q"},{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},)"
          R"({"type":"text","text":"A","citations":[{"type":"char_location"}]},{"type":"tool_use","id":"t","name":"find","input":{}}]},)"
          R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_reference","tool_name":"Read"}]}]}])"),
      find_file);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_THAT(read->ignored,
              ElementsAre("messages[1].content[0]", "messages[1].content[1].citations"));
  const Json chat = Json::parse(read->chat);
  EXPECT_EQ(chat["messages"][1]["content"], "A");
  EXPECT_EQ(chat["messages"][2]["content"], R"({"type":"tool_reference","tool_name":"Read"})");
}

TEST(MessagesRequest, NoTokensAreAPrefill) {
  const auto read = read_messages_request(
      R"({"model":"m","max_tokens":0,"messages":[{"role":"user","content":"x"}]})", find_file);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_TRUE(read->only_prefills);
  const Json chat = Json::parse(read->chat);
  EXPECT_EQ(chat["max_tokens"], 1);
  EXPECT_EQ(chat["cache"]["no-store"], true);
}

}  // namespace
}  // namespace afterimage
