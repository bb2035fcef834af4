// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "foundation/documents/document_reader.h"
#include "foundation/platform/environment.h"
#include "foundation/text/data_url.h"
#include "gateway/openai/request.h"
#include "testing/pdf_files.h"

namespace afterimage {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kTalk =
    R"("messages":[{"role":"developer","content":"Be brief."},
                   {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,Zm9v","detail":"auto"}},
                                             {"type":"text","text":"What is it?"}]},
                   {"role":"assistant","content":"A cat.","refusal":null,"tool_calls":[]},
                   {"role":"user","content":"Sure?"}])";

Result<Request> asked(std::string_view fields, ApiOperation operation = ApiOperation::kChat) {
  const std::string body = R"({"model":"m",)" + std::string(fields) + "}";
  const auto request = read_api_request(operation, body);
  if (!request.has_value()) return std::unexpected(request.error());
  return engine_request(*request);
}

TEST(EngineRequest, HoldsTheConversationWithItsMedia) {
  const Request request = asked(kTalk).value();
  ASSERT_EQ(request.messages.size(), 4U);
  EXPECT_EQ(request.messages[0].role, Role::kSystem);
  EXPECT_EQ(request.messages[1].role, Role::kUser);
  EXPECT_EQ(request.messages[2].role, Role::kAssistant);
  const auto& picture = std::get<MediaItem>(request.messages[1].parts.at(0));
  EXPECT_EQ(picture.modality, Modality::kImage);
  EXPECT_EQ(picture.files.at(0)->size(), 3U);
  EXPECT_EQ(picture.name, "messages[1].content[0].image_url");
  EXPECT_EQ(std::get<std::string>(request.messages[1].parts.at(1)), "What is it?");
  EXPECT_EQ(std::get<std::string>(request.messages[3].parts.at(0)), "Sure?");
}

TEST(EngineRequest, AcceptsOnePromptOfACompletion) {
  for (const char* prompt :
       {R"("prompt":"Once")", R"("prompt":["Once"],"echo":false,"suffix":null)"}) {
    const Request request = asked(prompt, ApiOperation::kCompletion).value();
    ASSERT_EQ(request.messages.size(), 1U);
    EXPECT_EQ(std::get<std::string>(request.messages[0].parts.at(0)), "Once");
  }
}

TEST(EngineRequest, EachPromptOfACompletionIsARequest) {
  const auto read =
      read_api_request(ApiOperation::kCompletion, R"({"prompt":["Once","Twice"],"grammar":"g"})")
          .value();
  EXPECT_EQ(read.engine->prompts, (std::vector<ApiPrompt>{{"Once"}, {"Twice"}}));
  const Request second = engine_request(read, 1).value();
  EXPECT_EQ(std::get<std::string>(second.messages.at(0).parts.at(0)), "Twice");
  EXPECT_TRUE(second.is_completion);
  EXPECT_EQ(second.rules.grammar, "g");
}

using Tokens = std::vector<TokenId>;
constexpr TokenId kFirst{12};
constexpr TokenId kSecond{34};

TEST(EngineRequest, APromptIsTextsAndTokensInOrder) {
  const struct {
    const char* name;
    const char* input;
    std::vector<ApiPrompt> prompts;
  } kCases[] = {
      {"tokens", "[12,34]", {{Tokens{kFirst, kSecond}}}},
      {"both", R"([12,34,"a",12])", {{Tokens{kFirst, kSecond}, "a", Tokens{kFirst}}}},
      {"a list of both", R"(["a",[12,"b"]])", {{"a"}, {Tokens{kFirst}, "b"}}},
      {"an object of llama-server", R"({"prompt_string":"a","multimodal_data":[]})", {{"a"}}},
      {"the parts of a message",
       R"([{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},"c"])",
       {{"ab"}, {"c"}}},
  };
  for (const auto& c : kCases) {
    const auto read =
        read_api_request(ApiOperation::kEmbedding, R"({"input":)" + std::string(c.input) + "}");
    ASSERT_TRUE(read.has_value()) << c.name << ": " << read.error().message;
    EXPECT_FALSE(read->engine->unsupported.has_value()) << c.name;
    EXPECT_TRUE(read->engine->prompts == c.prompts) << c.name;
  }
}

TEST(EngineRequest, RefusesPromptsThatItCannotRead) {
  for (const char* input :
       {R"({"content":"a"})", R"({"content":[{"type":"unknown"}]})", R"({"text":"a"})", "[[]]",
        R"({"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]})",
        R"({"prompt_string":"a","multimodal_data":["AAAA"]})", "[-1]", "[12,[34]]", "[true]"}) {
    const auto read =
        read_api_request(ApiOperation::kEmbedding, R"({"input":)" + std::string(input) + "}");
    ASSERT_TRUE(read.has_value()) << input;
    EXPECT_TRUE(read->engine->unsupported.has_value()) << input;
  }
  const auto mixed = read_api_request(ApiOperation::kCompletion, R"({"prompt":[12,"a"]})").value();
  EXPECT_THAT(engine_request(mixed).error().message, HasSubstr("/completion"));
}

TEST(EngineRequest, OnlyACompletionHasNoTemplate) {
  EXPECT_TRUE(asked(R"("prompt":"Once")", ApiOperation::kCompletion)->is_completion);
  EXPECT_FALSE(asked(kTalk)->is_completion);
}

TEST(EngineRequest, AcceptsWhatClientsSend) {
  for (const char* field : {R"("temperature":0)",
                            R"("temperature":0.7)",
                            R"("top_p":0.5)",
                            R"("seed":7)",
                            R"("n":2)",
                            R"("max_tokens":9)",
                            R"("stream":true)",
                            R"("user":"u")",
                            R"("stop":null)",
                            R"("stop":[])",
                            R"("stop":"x")",
                            R"("tools":[])",
                            R"("logit_bias":{"1":2})",
                            R"("presence_penalty":0.5)",
                            R"("logprobs":true,"top_logprobs":3)",
                            R"("response_format":{"type":"json_object"})",
                            R"("tools":[{"type":"function","function":{"name":"f"}}])",
                            R"("cache":{"ttl":1})",
                            R"("functions":[])",
                            R"("best_of":1)",
                            R"("n_predict":7)",
                            R"("json_schema":{"type":"object"})",
                            R"("chat_template_kwargs":{"enable_thinking":false})",
                            R"("reasoning_effort":"low")",
                            R"("audio":null)"}) {
    EXPECT_TRUE(asked(std::string(kTalk) + "," + field).has_value()) << field;
  }
}

TEST(EngineRequest, RefusesFieldsThatContradictEachOther) {
  for (const char* field :
       {R"("reasoning_effort":1)",
        R"("reasoning_effort":"a","chat_template_kwargs":{"reasoning_effort":"b"})",
        R"("chat_template_kwargs":[])", R"("json_schema":{},"response_format":{"type":"text"})",
        R"("repeat_penalty":1,"repetition_penalty":1)"}) {
    const auto request = asked(std::string(kTalk) + "," + field);
    ASSERT_FALSE(request.has_value()) << field;
    EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument) << field;
  }
}

TEST(EngineRequest, RefusesUnsupportedFieldsByName) {
  const struct {
    const char* field;
    const char* name;
  } kFields[] = {
      {R"("best_of":2)", "best_of"},
      {R"("echo":true)", "echo"},
      {R"("suffix":"x")", "suffix"},
      {R"("functions":[{"name":"f"}])", "functions"},
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("modalities":["audio"])", "modalities"},
      {R"("echo":7)", "echo"},
      {R"("unheard_of":false)", "unheard_of"},
      {R"("verbosity":"low")", "verbosity"},
      {R"("modalities":["text","audio"])", "modalities"},
      {R"("typical_p":0.5)", "typical_p"},
      {R"("mirostat":2)", "mirostat"},
      {R"("min_tokens":4)", "min_tokens"},
      {R"("skip_special_tokens":false)", "skip_special_tokens"},
      {R"("stop_token_ids":[1])", "stop_token_ids"},
      {R"("reasoning":{"effort":"low"})", "reasoning"},
  };
  for (const auto& c : kFields) {
    const auto request = asked(std::string(kTalk) + "," + c.field);
    ASSERT_FALSE(request.has_value()) << c.field;
    EXPECT_EQ(request.error().code, ErrorCode::kUnsupported) << c.field;
    EXPECT_NE(request.error().message.find("'" + std::string(c.name) + "'"), std::string::npos)
        << request.error().message;
  }
}

TEST(EngineRequest, RefusesUnsupportedMessageFieldsByName) {
  const struct {
    const char* message;
    const char* name;
  } kMessages[] = {
      {R"({"role":"function","content":"x"})", "messages[0].role"},
      {R"({"role":"user","content":"x","tool_calls":[{}]})", "messages[0].tool_calls"},
      {R"({"role":"user","content":[{"type":"file"}]})", "messages[0].content[0]"},
      {R"({"role":"user","content":["x"]})", "messages[0].content[0]"},
      {R"({"role":"user","content":[{"type":"text","text":"x","weight":2}]})",
       "messages[0].content[0].weight"},
      {R"({"role":"user","content":"x","reasoning":"y"})", "messages[0].reasoning"},
      {R"({"role":"user","content":"x","audio":{"id":"y"}})", "messages[0].audio"},
      {R"({"role":"user","content":[{"type":"video_url","video_url":{"url":"data:,x","fps":2}}]})",
       "messages[0].content[0].video_url.fps"},
  };
  for (const auto& c : kMessages) {
    const auto request = asked(R"("messages":[)" + std::string(c.message) + "]");
    ASSERT_FALSE(request.has_value()) << c.message;
    EXPECT_EQ(request.error().code, ErrorCode::kUnsupported) << request.error().message;
    EXPECT_NE(request.error().message.find(c.name), std::string::npos) << request.error().message;
  }
}

// What newer clients send to every server. Nothing of it changes what an engine of this process says, so
// it is neither refused nor part of the identity.
TEST(EngineRequest, TakesAndNamesWhatHasNoInfluence) {
  const std::string question = R"("messages":[{"role":"user","content":"x"}])";
  const struct {
    std::string fields;
    std::vector<std::string> ignored;
  } kCases[] = {
      {R"("service_tier":"priority",)" + question, {"service_tier"}},
      {R"("verbosity":"medium",)" + question, {"verbosity"}},
      {R"("modalities":["text"],)" + question, {"modalities"}},
      {R"("prompt_cache_retention":"24h",)" + question, {"prompt_cache_retention"}},
      {R"("ignore_eos":false,)" + question, {"ignore_eos"}},
      {R"("typical_p":1,)" + question, {"typical_p"}},
      {R"("typ_p":1.0,)" + question, {"typ_p"}},
      {R"("mirostat":0,"xtc_probability":0.0,)" + question, {"mirostat", "xtc_probability"}},
      {R"("skip_special_tokens":true,)" + question, {"skip_special_tokens"}},
      {R"("keep_alive":"5m",)" + question, {"keep_alive"}},
      {R"("session_id":"s",)" + question, {"session_id"}},
      {R"("prediction":{"type":"content","content":"x"},)" + question, {"prediction"}},
      {R"("client_metadata":{"a":"b"},)" + question, {"client_metadata"}},
      {R"("messages":[{"role":"user","content":"x","name":"bob"}])", {"messages[0].name"}},
      {R"("messages":[{"role":"user","content":"x","cache_control":{"type":"ephemeral"}}])", {}},
      {R"("messages":[{"role":"user","content":"x","provider_specific_fields":{"a":1}}])",
       {"messages[0].provider_specific_fields"}},
      {R"("messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{}}]}])",
       {}},
  };
  const auto read = [](const std::string& fields) {
    return read_api_request(ApiOperation::kChat, R"({"model":"m",)" + fields + "}").value();
  };
  const ApiRequest plain = read(question);
  for (const auto& c : kCases) {
    const auto request = asked(c.fields);
    EXPECT_TRUE(request.has_value()) << c.fields << ": " << request.error().message;
    const ApiRequest api = read(c.fields);
    EXPECT_EQ(api.engine->ignored, c.ignored) << c.fields;
    EXPECT_EQ(api.scope.other, plain.scope.other) << c.fields;
    EXPECT_EQ(api.scope.sampling, plain.scope.sampling) << c.fields;
  }
}

TEST(EngineRequest, TheDetailOfAPictureIsNamedAndHasNoInfluence) {
  const auto read = [](const std::string& detail) {
    return read_api_request(
               ApiOperation::kChat,
               R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,x")" +
                   detail + "}}]}]}")
        .value();
  };
  const ApiRequest low = read(R"(,"detail":"low")");
  EXPECT_EQ(low.engine->ignored,
            std::vector<std::string>{"messages[0].content[0].image_url.detail"});
  EXPECT_EQ(low.media[0].options, read("").media[0].options);
  EXPECT_TRUE(read(R"(,"detail":"auto")").engine->ignored.empty());
}

TEST(EngineRequest, ReasoningHasTwoNames) {
  for (const char* name : {"reasoning", "reasoning_content"}) {
    const auto request = asked(R"("messages":[{"role":"assistant","content":"x",")" +
                               std::string(name) + R"(":"why"},{"role":"user","content":"y"}])");
    ASSERT_TRUE(request.has_value()) << request.error().message;
    EXPECT_EQ(request->messages[0].reasoning, "why") << name;
  }
}

TEST(EngineRequest, APictureMayBeBareBase64AndHaveLines) {
  for (const char* url : {R"(iVBORw0KGgo=)", R"(iVBO\r\nRw0K\nGgo=\n)",
                          R"(data:image/png;base64,iVBO\nRw0K\nGgo=)"}) {
    const auto request =
        asked(R"("messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" +
              std::string(url) + R"("}}]}])");
    ASSERT_TRUE(request.has_value()) << url << ": " << request.error().message;
    const auto& picture = std::get<MediaItem>(request->messages[0].parts.at(0));
    EXPECT_EQ(picture.files.at(0)->size(), 8U) << url;
  }
  // Another server gets the bytes of the body, and may not take these.
  const auto other = read_api_request(
      ApiOperation::kChat,
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":"iVBORw0KGgo="}]}]})",
      ApiReader::kOtherServer);
  EXPECT_EQ(other->media[0].address, "iVBORw0KGgo=");
}

TEST(EngineRequest, HoldsToolCallsAndTheirResults) {
  const Request request =
      asked(R"("tools":[{"type":"function","function":{"name":"f"}}],"messages":[
              {"role":"user","content":"x"},
              {"role":"assistant","content":null,"reasoning_content":"why",
               "tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
              {"role":"tool","tool_call_id":"1","name":"f","content":"4"}])")
          .value();
  EXPECT_EQ(request.rules.tools, R"([{"type":"function","function":{"name":"f"}}])");
  ASSERT_EQ(request.messages.size(), 3U);
  const Message& call = request.messages[1];
  EXPECT_TRUE(call.parts.empty());
  EXPECT_EQ(call.reasoning, "why");
  EXPECT_EQ(call.tool_calls, (std::vector<ToolCall>{{.id = "1", .name = "f", .arguments = "{}"}}));
  EXPECT_EQ(request.messages[2].role, Role::kTool);
  EXPECT_EQ(request.messages[2].tool_call_id, "1");
  EXPECT_EQ(request.messages[2].name, "f");
}

TEST(EngineRequest, RequiresBytesForEveryMediaItem) {
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":"http://a"}]}]})";
  ApiRequest request = read_api_request(ApiOperation::kChat, body).value();
  EXPECT_EQ(engine_request(request).error().code, ErrorCode::kInvalidArgument);
  request.media[0].bytes = std::make_shared<const std::vector<std::byte>>(1);
  EXPECT_FALSE(std::get<MediaItem>(engine_request(request)->messages[0].parts[0]).digest);
  request.media[0].digest = ContentDigest{};
  EXPECT_EQ(std::get<MediaItem>(engine_request(request)->messages[0].parts[0]).digest,
            ContentDigest{})
      << "the next identity needs no second hash";
}

std::string about_a_file(const std::vector<std::byte>& file, const std::string& more = "") {
  return R"("messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,)" +
         encode_base64(file) + "\"" + more + R"(}},{"type":"text","text":"What is it?"}]}])";
}

/// As a user's environment would; before any other thread.
bool has_pdfium() {
  const std::string library = testing::pdfium_library();
  if (library.empty()) return false;
  set_environment_default("AFTERIMAGE_PDFIUM", library);
  return true;
}

TEST(EngineRequest, APdfFileIsItsPages) {
  if (!has_pdfium()) GTEST_SKIP() << "no PDFium: scripts/fetch-pdfium.py build/pdfium";
  const auto file = testing::make_pdf({testing::text_page("one"), testing::text_page("two")});
  const auto request = asked(about_a_file(file, R"(,"filename":"report.pdf")"));
  ASSERT_TRUE(request.has_value()) << request.error().message;
  const auto& parts = request->messages.at(0).parts;
  ASSERT_EQ(parts.size(), 3U) << "two pages and the question";
  EXPECT_EQ(std::get<MediaItem>(parts[1]).name, "messages[0].content[0].file, page 2");
  EXPECT_FALSE(is_document(std::get<MediaItem>(parts[0])));
}

TEST(EngineRequest, ThePdfAndItsRasterizerAreItsIdentityAndItsNameIsNot) {
  if (!has_pdfium()) GTEST_SKIP() << "no PDFium: scripts/fetch-pdfium.py build/pdfium";
  const auto read = [](const std::string& fields) {
    return read_api_request(ApiOperation::kChat, R"({"model":"m",)" + fields + "}").value();
  };
  const auto file = testing::make_pdf({testing::text_page("one")});
  const ApiRequest request = read(about_a_file(file));
  ASSERT_EQ(request.media.size(), 1U);
  EXPECT_EQ(*request.media[0].bytes, file);
  EXPECT_EQ(request.media[0].options.at("pages"), DocumentReader().rasterizer().value());
  const auto& place = std::get<ScopeMedia>(request.scope.messages.at(0).parts.at(0));
  EXPECT_EQ(place.options, request.media[0].options);
  EXPECT_EQ(request.scope.other, read(about_a_file(file, R"(,"filename":"b.pdf")")).scope.other);
}

TEST(EngineRequest, FilesThatAreNoPdfAreRefused) {
  const auto said = [](const std::string& file_part) {
    const auto request = asked(R"("messages":[{"role":"user","content":[)" + file_part + "]}]");
    return request.has_value() ? "" : request.error().message;
  };
  const auto with = [&](const std::string& file) {
    return said(R"({"type":"file","file":)" + file + "}");
  };
  EXPECT_THAT(with(R"({"file_data":"data:application/pdf;base64,Zm9v"})"),
              HasSubstr(", and not a PDF file"));
  EXPECT_THAT(with(R"({"file_data":"https://x/y.pdf"})"), HasSubstr("must be a data URL"));
  EXPECT_THAT(with(R"({"file_id":"file-7"})"), HasSubstr("file_id"));
  EXPECT_THAT(with(R"({"file_data":"data:application/pdf;base64,*"})"),
              HasSubstr("cannot be decoded"));
  EXPECT_THAT(
      said(
          R"({"type":"image_url","image_url":{"url":"data:application/pdf;base64,JVBERi0xLjc="}})"),
      HasSubstr("send it as a part of the type file"));
}

// Regression: an answer about a file behind another server could not be erased by the file.
TEST(EngineRequest, AFileForAnotherServerIsMediaWithItsName) {
  const auto read = [](const std::string& file) {
    return read_api_request(
               ApiOperation::kChat,
               R"({"model":"m","messages":[{"role":"user","content":[{"type":"file","file":)" +
                   file + R"(},{"type":"text","text":"q"}]}]})",
               ApiReader::kOtherServer)
        .value();
  };
  const std::string url = R"({"file_data":"data:application/pdf;base64,JVBERi0=","filename":"a"})";
  const ApiRequest request = read(url);
  ASSERT_EQ(request.media.size(), 1U);
  EXPECT_EQ(*request.media[0].bytes, *decode_base64("JVBERi0="));
  EXPECT_EQ(request.scope.other.at("/messages/0/content"), R"([["file",{},{"filename":"a"}],{}])");
  EXPECT_EQ(read(R"({"file_data":"JVBERi0="})").media.size(), 1U) << "without a URL";
  const ApiRequest named = read(R"({"file_id":"file-1"})");
  EXPECT_TRUE(named.media.empty());
  EXPECT_TRUE(named.attached.empty());
  EXPECT_THAT(named.scope.other.at("/messages/0/content"), HasSubstr("file-1"));
}

TEST(EngineRequest, APromptMayBeTokens) {
  EXPECT_EQ(asked(R"("prompt":[1,2])", ApiOperation::kCompletion)->prompt_tokens,
            (std::vector{TokenId(1), TokenId(2)}));
  const auto read =
      read_api_request(ApiOperation::kCompletion, R"({"prompt":[[7],"Twice"]})").value();
  EXPECT_EQ(engine_request(read, 0)->prompt_tokens, std::vector{TokenId(7)});
  EXPECT_EQ(engine_request(read, 1)->prompt_tokens, std::vector<TokenId>());
  const auto code_of = [](const std::string& prompt) {
    return asked(R"("prompt":)" + prompt, ApiOperation::kCompletion).error().code;
  };
  for (const char* prompt : {R"([1,"a"])", "[[]]", "[{}]"}) {
    EXPECT_EQ(code_of(prompt), ErrorCode::kUnsupported) << prompt;
  }
  for (const char* prompt : {"[-1]", "[4294967296]"}) {
    EXPECT_EQ(code_of(prompt), ErrorCode::kInvalidArgument) << prompt;
  }
}

TEST(EngineRequest, RefusesEmbeddings) {
  EXPECT_EQ(asked(R"("input":"x")", ApiOperation::kEmbedding).error().code,
            ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace afterimage
