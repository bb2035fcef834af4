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
      {"max_tokens", R"({"model":"m","max_tokens":0,"messages":[{"role":"user","content":"x"}]})"},
      {"messages ", with(R"("messages":[])")},
      {"messages[0].role", with(R"("messages":[{"role":"system","content":"x"}])")},
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
       with(
           R"("messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}]}])")},
      {"tools[0].type", more(R"("tools":[{"type":"web_search_20250305","name":"web_search"}])")},
      {"tools[0].input_schema", more(R"("tools":[{"name":"f"}])")},
      {"tool_choice.type", more(R"("tool_choice":{"type":"all"})")},
      {"thinking.budget_tokens", more(R"("thinking":{"type":"enabled","budget_tokens":2000})")},
      {"metadata.other", more(R"("metadata":{"other":1})")},
      {"mcp_servers", more(R"("mcp_servers":[{"a":1}])")},
      {"container", more(R"("container":"c")")},
      {"output_config.effort", more(R"("output_config":{"effort":"max"})")},
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

TEST(MessagesRequest, OnlyAdaptiveThinkingIsShown) {
  const auto shows = [](const std::string& thinking) {
    return read_messages_request(with(R"("messages":[{"role":"user","content":"x"}])" + thinking),
                                 find_file)
        ->shows_reasoning;
  };
  EXPECT_FALSE(shows(""));
  EXPECT_FALSE(shows(R"(,"thinking":{"type":"disabled"})"));
  EXPECT_TRUE(shows(R"(,"thinking":{"type":"adaptive"})"));
  EXPECT_FALSE(shows(R"(,"thinking":{"type":"adaptive","display":"omitted"})"));
}

}  // namespace
}  // namespace afterimage
