// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/identity_rules.h"

#include <gtest/gtest.h>

#include <string>

#include "foundation/crypto/sha256.h"
#include "gateway/openai/request.h"

namespace afterimage {
namespace {

std::pair<ScopeKey, std::string> key_of(const std::string& body,
                                        ApiReader reader = ApiReader::kOtherServer) {
  static const Namespace space = Namespace::of({.model = "m", .encoder = "e"}, {}, {}).value();
  const auto request = read_api_request(ApiOperation::kChat, body, reader);
  EXPECT_TRUE(request.has_value()) << body;
  if (!request.has_value()) return {};
  std::vector<ContentDigest> contents;
  for (const ApiMedia& media : request->media) contents.push_back({sha256(*media.bytes)});
  return {identify(scope_of(*request, contents, {}), space).key, request->question};
}

/// A question, and fields that begin with a comma.
std::string with(const std::string& fields, const std::string& messages = "") {
  return R"({"model":"m","messages":[)" + messages + R"({"role":"user","content":"q"}])" + fields +
         "}";
}
std::string with_content(const std::string& content) {
  return R"({"model":"m","messages":[{"role":"user","content":)" + content + "}]}";
}
std::string picture(const std::string& type, const std::string& more = "") {
  return with_content(R"([{"type":"image_url","image_url":{"url":"data:)" + type +
                      R"(;base64,/9j/4AAQ")" + more + R"(}},{"type":"text","text":"q"}])");
}
std::string calls(const std::string& first, const std::string& second,
                  const std::string& text = "t") {
  const auto call = [](const std::string& id, const char* name) {
    return R"({"id":")" + id + R"(","type":"function","function":{"name":")" + name +
           R"(","arguments":"{}"}})";
  };
  const auto result = [](const std::string& id, const std::string& said) {
    return R"({"role":"tool","tool_call_id":")" + id + R"(","content":")" + said + "\"},";
  };
  return with("", R"({"role":"assistant","content":null,"tool_calls":[)" + call(first, "f") + "," +
                      call(second, "g") + "]}," + result(first, text) + result(second, "u"));
}

struct Pair {
  const char* name;
  std::string one;
  std::string other;
};

TEST(IdentityRules, TheseRequestsMeanTheSame) {
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  const Pair kPairs[] = {
      {"spellings of 0", with(R"(,"temperature":0)"), with(R"(,"temperature":-0.0)")},
      {"spellings of a number", with(R"(,"top_p":0.50)"), with(R"(,"top_p":5e-1)")},
      {"null", with(""), with(R"(,"temperature":null,"seed":null,"stop":null,"tools":null,
          "response_format":null,"reasoning_effort":null,"max_tokens":null)")},
      {"one choice", with(""), with(R"(,"n":1)")},
      {"no probabilities", with(""), with(R"(,"logprobs":false,"logit_bias":{},"stop":[])")},
      {"any tier", with(""), with(R"(,"service_tier":"auto")")},
      {"text", with(""), with(R"(,"response_format":{"type":"text"})")},
      {"automatic tools", with(tools), with(tools + R"(,"tool_choice":"auto")")},
      {"no tools", with(""), with(R"(,"tool_choice":"none")")},
      {"all tokens at temperature 0", with(R"(,"temperature":0)"),
       with(R"(,"temperature":0.0,"top_p":1.0,"min_p":0)")},
      {"one text", with_content(R"("q")"), with_content(R"([{"type":"text","text":"q"}])")},
      {"markers of caches", with_content(R"("q")"),
       with_content(R"([{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}])")},
      {"a dumped message", with("", R"({"role":"assistant","content":"x"},)"),
       with("", R"({"role":"assistant","content":"x","refusal":null,"audio":null,"name":null,
                    "function_call":null,"tool_calls":null},)")},
      {"ids of calls", calls("call_abcdefgh", "call_ijklmnop"),
       calls("toolu_01ABC", "toolu_02ABC")},
      {"jpg and jpeg", picture("image/jpg"), picture("image/jpeg")},
      {"no type", picture("image/jpeg"), picture("")},
      {"a wrong type", picture("image/png"), picture("IMAGE/JPEG")},
      {"the default detail", picture("image/jpeg"), picture("image/jpeg", R"(,"detail":"auto")")},
      {"no detail", picture("image/jpeg"), picture("image/jpeg", R"(,"detail":null)")},
  };
  for (const auto& pair : kPairs) {
    EXPECT_EQ(key_of(pair.one), key_of(pair.other)) << pair.name;
    EXPECT_EQ(key_of(pair.one, ApiReader::kEngine), key_of(pair.other, ApiReader::kEngine))
        << pair.name << ", for an engine";
  }
  for (const InertField& field : inert_fields()) {
    if (field.name == "stream" || field.name == "stream_options" || field.name == "cache") continue;
    EXPECT_EQ(key_of(with(",\"" + std::string(field.name) + "\":\"x\"")), key_of(with("")))
        << field.name;
  }
}

TEST(IdentityRules, TheseRequestsMayMeanSomethingElse) {
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  const Pair kPairs[] = {
      // generation_config.json, a Modelfile or llama-server's options have other defaults.
      {"all tokens, sampled", with(R"(,"temperature":1)"), with(R"(,"temperature":1,"top_p":1)")},
      {"a penalty of 0", with(""), with(R"(,"presence_penalty":0)")},
      {"parallel calls", with(tools), with(tools + R"(,"parallel_tool_calls":true)")},
      {"temperature 1", with(""), with(R"(,"temperature":1)")},
      {"probabilities of all tokens", with(R"(,"temperature":0,"logprobs":true)"),
       with(R"(,"temperature":0,"logprobs":true,"top_p":1)")},
      {"null of an unknown field", with(""), with(R"(,"unheard_of":null)")},
      {"a limit", with(R"(,"max_tokens":1)"), with(R"(,"max_tokens":1.0)")},
      {"a large seed", with(R"(,"seed":9007199254740993)"), with(R"(,"seed":9007199254740992)")},
      {"automatic tools of two kinds", with(R"(,"functions":[{"name":"f"}])"),
       with(R"(,"functions":[{"name":"f"}],"tool_choice":"none")")},
      {"a schema", with(""), with(R"(,"response_format":{"type":"text","schema":{}})")},
      {"no list of tools", with(""), with(R"(,"tools":[])")},
      {"another tier", with(""), with(R"(,"service_tier":"flex")")},
      {"a salt", with(""), with(R"(,"cache_salt":"x")")},
      {"a text with more", with_content(R"("q")"),
       with_content(R"([{"type":"text","text":"q","x":1}])")},
      {"two texts", with_content(R"("qq")"),
       with_content(R"([{"type":"text","text":"q"},{"type":"text","text":"q"}])")},
      {"results in another order", calls("call_abcdefgh", "call_ijklmnop"),
       calls("call_abcdefgh", "call_abcdefgh")},
      {"ids that say something", calls("functions.f:0", "functions.g:1"),
       calls("functions.f:2", "functions.g:3")},
      {"short ids", calls("1", "2"), calls("3", "4")},
      {"an id that a text names", calls("call_abcdefgh", "call_ijklmnop", "see call_ijklmnop!"),
       calls("call_ijklmnop", "call_abcdefgh", "see call_ijklmnop!")},
      {"another picture type", picture("image/jpeg"), picture("image/svg+xml")},
      {"a detail", picture("image/jpeg"), picture("image/jpeg", R"(,"detail":"low")")},
  };
  for (const auto& pair : kPairs) {
    EXPECT_NE(key_of(pair.one), key_of(pair.other)) << pair.name;
  }
}

TEST(IdentityRules, EachInertFieldHasAReason) {
  for (const InertField& field : inert_fields()) EXPECT_FALSE(field.reason.empty()) << field.name;
}

TEST(CallIds, AreThoseThatLookRandom) {
  const auto request =
      read_api_request(ApiOperation::kChat, calls("call_abcdefgh", "functions.g:1"));
  EXPECT_EQ(request->call_ids, std::vector<std::string>{"call_abcdefgh"});
}

}  // namespace
}  // namespace afterimage
