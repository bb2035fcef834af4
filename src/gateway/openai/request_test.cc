// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/request.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "caches/answers/eligibility.h"
#include "foundation/crypto/sha256.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using nlohmann::json;

constexpr std::string_view kPicture = "data:image/png;base64,iVBORw0K";

ApiRequest chat(std::string_view body) {
  auto request = read_api_request(ApiOperation::kChat, body);
  EXPECT_TRUE(request.has_value()) << request.error().message;
  return std::move(request).value_or(ApiRequest{});
}
/// One question of the user, and `fields`, which begin with a comma.
ApiRequest chat_with(std::string_view fields) {
  return chat(R"({"model":"m","messages":[{"role":"user","content":"q"}])" + std::string(fields) +
              "}");
}
std::string refusal(ApiOperation operation, std::string_view body) {
  const auto request = read_api_request(operation, body, ApiReader::kOtherServer);
  if (request.has_value()) return "read";
  EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument);
  return request.error().message;
}

using Identity = std::pair<ScopeKey, std::string>;

/// Every address is taken to have content of its own.
Identity identity_of(const ApiRequest& request) {
  static const Namespace space = Namespace::of({.model = "m", .encoder = "e"}, {}, {}).value();
  std::vector<ContentDigest> contents;
  for (const ApiMedia& media : request.media) {
    const std::string address = "at " + media.address;
    contents.push_back(
        {media.bytes ? sha256(*media.bytes) : sha256(std::as_bytes(std::span(address)))});
  }
  return {identify(scope_of(request, contents, {}), space).key, request.question};
}
Identity identity_of(ApiOperation operation, const json& body) {
  return identity_of(read_api_request(operation, body.dump()).value());
}

TEST(ApiRequest, ReadsEverythingThatCachingNeeds) {
  const ApiRequest request = chat(R"({"model":"gpt-4o","stream":true,
      "stream_options":{"include_usage":true},"temperature":0.0,"seed":-4,"n":2,"logprobs":true,
      "top_logprobs":3,"max_tokens":5,"max_completion_tokens":7,
      "tools":[{"type":"function","function":{"name":"f","parameters":{"b":1,"a":2.0}}}],
      "tool_choice":"auto","response_format":{"type":"json_object"},"reasoning_effort":"low",
      "cache":{"ttl":60,"s-maxage":2.5,"no-cache":true,"no-store":false,"namespace":"mine"},
      "messages":[{"role":"system","content":"Be brief."},
                  {"role":"user","content":[{"type":"text","text":"What is "},
                                            {"type":"text","text":"this?"}]}]})");
  EXPECT_EQ(request.model, "gpt-4o");
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(request.max_tokens, 7U);
  EXPECT_EQ(request.sampling.temperature, 0.0);
  EXPECT_TRUE(request.sampling.seeded);
  EXPECT_EQ(request.sampling.choices, 2U);
  EXPECT_TRUE(request.sampling.log_probabilities);
  EXPECT_TRUE(request.sampling.offers_tools);
  EXPECT_FALSE(request.sampling.has_tool_results);
  ASSERT_TRUE(request.cache.has_value());
  EXPECT_EQ(request.cache->ttl_s, 60.0);
  EXPECT_EQ(request.cache->max_age_s, 2.5);
  EXPECT_TRUE(request.cache->no_cache);
  EXPECT_FALSE(request.cache->no_store);
  EXPECT_EQ(request.cache->name_space, "mine");
  EXPECT_EQ(request.question, "this?");
  const Scope& scope = request.scope;
  EXPECT_EQ(
      scope.tools,
      R"({"tools":[{"type":"function","function":{"name":"f","parameters":{"b":1,"a":2.0}}}]})");
  EXPECT_EQ(scope.response_format, R"({"type":"json_object"})");
  EXPECT_EQ(scope.sampling, (std::map<std::string, std::string>{{"logprobs", "true"},
                                                                {"max_completion_tokens", "7"},
                                                                {"max_tokens", "5"},
                                                                {"n", "2"},
                                                                {"seed", "-4"},
                                                                {"temperature", "0"},
                                                                {"top_logprobs", "3"}}));
  EXPECT_EQ(scope.other, (std::map<std::string, std::string>{{"operation", "chat"},
                                                             {"/model", "\"gpt-4o\""},
                                                             {"/reasoning_effort", "\"low\""},
                                                             {"/messages/1/content", "[{},{}]"}}));
  ASSERT_EQ(scope.messages.size(), 2U);
  EXPECT_EQ(scope.messages[0].role, Role::kSystem);
  EXPECT_EQ(std::get<std::string>(scope.messages[0].parts.at(0)), "Be brief.");
  EXPECT_EQ(std::get<std::string>(scope.messages[1].parts.at(0)), "What is ");
  EXPECT_TRUE(std::holds_alternative<QuestionSlot>(scope.messages[1].parts.at(1)));
}

TEST(ApiRequest, AbsentAndNullFieldsKeepTheirDefaults) {
  for (const char* fields :
       {"", R"(,"stream":null,"temperature":null,"seed":null,"n":null,"logprobs":null,"cache":null,
                "top_logprobs":0,"tools":[],"functions":null,"stream_options":null,
                "max_tokens":null,"best_of":1)"}) {
    const ApiRequest request = chat_with(fields);
    EXPECT_FALSE(request.stream);
    EXPECT_FALSE(request.include_usage);
    EXPECT_FALSE(request.max_tokens.has_value());
    EXPECT_FALSE(request.cache.has_value());
    EXPECT_FALSE(request.sampling.temperature.has_value());
    EXPECT_FALSE(request.sampling.seeded);
    EXPECT_EQ(request.sampling.choices, 1U);
    EXPECT_FALSE(request.sampling.log_probabilities);
    EXPECT_FALSE(request.sampling.offers_tools);
  }
}

TEST(ApiRequest, AcceptsEverySpellingOfZero) {
  for (const char* zero : {"0", "0.0", "-0", "0e7", "0.000"}) {
    EXPECT_EQ(chat_with(",\"temperature\":" + std::string(zero)).sampling.temperature, 0.0);
  }
  EXPECT_EQ(chat_with(R"(,"temperature":1e-9)").sampling.temperature, 1e-9);
}

TEST(ApiRequest, DetectsSamplingThatLimitsReuse) {
  EXPECT_EQ(chat_with(R"(,"best_of":3)").sampling.choices, 3U);
  EXPECT_TRUE(chat_with(R"(,"top_logprobs":1)").sampling.log_probabilities);
  EXPECT_TRUE(chat_with(R"(,"logprobs":0)").sampling.log_probabilities);
  EXPECT_TRUE(chat_with(R"(,"prompt_logprobs":0)").sampling.log_probabilities);
  EXPECT_TRUE(chat_with(R"(,"functions":[{"name":"f"}])").sampling.offers_tools);
  EXPECT_TRUE(chat_with(R"(,"web_search_options":{})").sampling.offers_tools);
  EXPECT_TRUE(chat_with(R"(,"documents":[{"text":"d"}])").sampling.has_tool_results);
  for (const char* role : {"tool", "function"}) {
    EXPECT_TRUE(chat(R"({"model":"m","messages":[{"role":")" + std::string(role) +
                     R"(","content":"42"},{"role":"user","content":"q"}]})")
                    .sampling.has_tool_results);
  }
}

TEST(ApiRequest, QuestionIsTheLastTextOfALastUserMessage) {
  const auto question = [](std::string_view messages) {
    return chat(R"({"model":"m","messages":)" + std::string(messages) + "}").question;
  };
  EXPECT_EQ(question(R"([{"role":"user","content":"a"},{"role":"user","content":"b"}])"), "b");
  EXPECT_EQ(question(R"([{"role":"user","content":[{"type":"text","text":"a"},
                         {"type":"image_url","image_url":"data:,x"}]}])"),
            "a");
  EXPECT_EQ(question(R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])"), "");
  EXPECT_EQ(question(R"([{"role":"user","content":"a"},{"role":"tool","content":"b"}])"), "");
  EXPECT_EQ(question(R"([{"role":"user","content":[{"type":"file","file":{}}]}])"), "");
  EXPECT_EQ(question(R"([{"role":"user","content":""}])"), "");
  EXPECT_EQ(question(R"([{"role":"USER","content":"a"}])"), "");
}

TEST(ApiRequest, DecodesMediaAndRecordsTheirPositions) {
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":[
      {"type":"image_url","image_url":{"url":"data:image\/png;base64,Zm9v","detail":"low"}},
      {"type":"image_url","image_url":"https://example.com/a.png"},
      {"type":"input_audio","input_audio":{"data":"Zm9vYg==","format":"wav"}},
      {"type":"video_url","video_url":{"url":"data:video/mp4;base64,Zg==","fps":2}},
      {"type":"audio_url","audio_url":{"url":"http://example.com/\u0061.ogg"}},
      {"type":"text","text":"q"}]}]})";
  const ApiRequest request =
      read_api_request(ApiOperation::kChat, body, ApiReader::kOtherServer).value();
  ASSERT_EQ(request.media.size(), 5U);
  const auto bytes = [&](std::size_t i) {
    return std::string(reinterpret_cast<const char*>(request.media[i].bytes->data()),
                       request.media[i].bytes->size());
  };
  const auto source = [&](std::size_t i) {
    return body.substr(request.media[i].begin, request.media[i].end - request.media[i].begin);
  };
  using Options = std::map<std::string, std::string>;
  EXPECT_EQ(bytes(0), "foo");
  EXPECT_EQ(source(0), R"("data:image\/png;base64,Zm9v")");
  EXPECT_EQ(request.media[0].options, (Options{{"detail", "low"}, {"mime", "image/png"}}));
  EXPECT_EQ(request.media[1].bytes, nullptr);
  EXPECT_EQ(request.media[1].address, "https://example.com/a.png");
  EXPECT_EQ(source(1), R"("https://example.com/a.png")");
  EXPECT_EQ(request.media[2].modality, Modality::kAudio);
  EXPECT_EQ(bytes(2), "foob");
  EXPECT_EQ(request.media[2].options, (Options{{"format", "wav"}}));
  EXPECT_EQ(request.media[3].modality, Modality::kVideo);
  EXPECT_EQ(request.media[4].address, "http://example.com/a.ogg");

  const ContentDigest digests[] = {
      {sha256({})}, {}, {}, {}, {sha256(std::as_bytes(std::span("a")))}};
  const Scope scope = scope_of(request, digests, NamespaceId{sha256({})});
  EXPECT_EQ(scope.inputs.bytes, sha256({}));
  EXPECT_EQ(std::get<ScopeMedia>(scope.messages[0].parts[0]).content, digests[0]);
  EXPECT_EQ(std::get<ScopeMedia>(scope.messages[0].parts[4]).content, digests[4]);
}

TEST(ApiRequest, ReplacesAddressesWithFetchedMedia) {
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://a/b"}}, {"type":"image_url","image_url":"data:,x"},{"type":"image_url","image_url": "http:\/\/c"},{"type":"text","text":"http://a/b"}]}]})";
  ApiRequest request = chat(body);
  EXPECT_EQ(with_fetched_media(body, request.media), body) << "nothing was fetched";
  const auto bytes = std::make_shared<const std::vector<std::byte>>(4, std::byte{0xFF});
  request.media[0].bytes = bytes;
  request.media[0].options["mime"] = "image/webp";
  request.media[2].bytes = bytes;
  request.media[2].options["mime"] = "x\",\"y";
  const std::string fetched = with_fetched_media(body, request.media);
  EXPECT_EQ(
      fetched,
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/webp;base64,/////w=="}}, {"type":"image_url","image_url":"data:,x"},{"type":"image_url","image_url": "data:application/octet-stream;base64,/////w=="},{"type":"text","text":"http://a/b"}]}]})");
  EXPECT_EQ(*chat(fetched).media[2].bytes, *bytes);
}

TEST(ApiRequest, QuestionOfCompletionsAndEmbeddingsIsTheirText) {
  const auto completion = read_api_request(ApiOperation::kCompletion,
                                           R"({"model":"m","prompt":"Once","temperature":0})");
  EXPECT_EQ(completion.value().question, "Once");
  EXPECT_EQ(completion.value().sampling.temperature, 0.0);
  for (const char* prompt : {R"(["a","b"])", "[1,2]", "[[1],[2]]", R"(["a"])"}) {
    const auto request = read_api_request(ApiOperation::kCompletion,
                                          R"({"model":"m","prompt":)" + std::string(prompt) + "}");
    EXPECT_EQ(request.value().question, "");
    EXPECT_EQ(request.value().scope.other.at("/prompt"), prompt);
  }
  const auto embedding =
      read_api_request(ApiOperation::kEmbedding, R"({"model":"m","input":"the dogs"})");
  EXPECT_EQ(embedding.value().question, "the dogs");
  EXPECT_EQ(embedding.value().sampling.choices, 1U);
  EXPECT_EQ(eligibility(embedding.value().sampling, "the dogs").limit, ReuseLimit::kExact)
      << "similar text has another vector";
}

TEST(ApiRequest, ErrorsNameTheField) {
  using enum ApiOperation;
  const struct {
    ApiOperation operation;
    std::string body;
    const char* why;
  } kCases[] = {
      {kChat, "", "the body cannot be parsed: it is not JSON"},
      {kChat, "[]", "the body must be a JSON object"},
      {kChat, "{} x", "there is more text after its end"},
      {kChat, R"({"model":"m","model":"n"})", "\"model\" twice"},
      {kChat, R"({"messages":[]})", "model must be a non-empty string"},
      {kChat, R"({"model":"","messages":[]})", "model must be a non-empty string"},
      {kChat, R"({"model":"m"})", "messages must be a non-empty array of messages"},
      {kChat, R"({"model":"m","messages":[]})", "messages must be a non-empty array of messages"},
      {kChat, R"({"model":"m","messages":["hi"]})", "messages[0].role must be a string"},
      {kChat, R"({"model":"m","messages":[{"role":"user","content":5}]})",
       "messages[0].content must be"},
      {kChat, R"({"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]})",
       "messages[0].content[0].text must be a string"},
      {kChat, R"({"model":"m","messages":[{"role":"user","content":[{"x":1}]}]})",
       "messages[0].content[0].type must be a string"},
      {kChat,
       R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,??=="}}]}]})",
       "messages[0].content[0].image_url.url cannot be decoded: it is not base64"},
      {kChat,
       R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
       "image_url.url must be a non-empty string"},
      {kChat,
       R"({"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"http://a"}}]}]})",
       "input_audio.data cannot be decoded"},
      {kCompletion, R"({"model":"m","prompt":7})", "prompt must be a string"},
      {kCompletion, R"({"model":"m","prompt":"x","temperature":"0"})",
       "temperature must be a number"},
      {kCompletion, R"({"model":"m","prompt":"x","temperature":1e-400})",
       "temperature must be a number"},
      {kCompletion, R"({"model":"m","prompt":"x","n":0})", "n must be a whole number"},
      {kCompletion, R"({"model":"m","prompt":"x","n":1.0})", "n must be a whole number"},
      {kCompletion, R"({"model":"m","prompt":"x","best_of":4294967296})",
       "best_of must be a whole"},
      {kCompletion, R"({"model":"m","prompt":"x","seed":"1"})", "seed must be a number"},
      {kCompletion, R"({"model":"m","prompt":"x","stream":"yes"})", "stream must be true or false"},
      {kCompletion, R"({"model":"m","prompt":"x","logprobs":"yes"})", "logprobs must be true"},
      {kCompletion, R"({"model":"m","prompt":"x","max_tokens":"9"})",
       "max_tokens must be a number"},
      {kCompletion, R"({"model":"m","prompt":"x","stream_options":1})", "stream_options must be"},
      {kCompletion, R"({"model":"m","prompt":"x","cache":true})", "cache must be an object"},
      {kCompletion, R"({"model":"m","prompt":"x","cache":{"ttl":-1}})",
       "cache.ttl must be a number"},
      {kCompletion, R"({"model":"m","prompt":"x","cache":{"no-store":1}})",
       "cache.no-store must be"},
      {kCompletion, R"({"model":"m","prompt":"x","cache":{"namespace":1}})",
       "cache.namespace must be"},
      {kEmbedding, R"({"model":"m","input":[]})", "input must be a string"},
  };
  for (const auto& c : kCases) {
    EXPECT_NE(refusal(c.operation, c.body).find(c.why), std::string::npos)
        << c.body << ": " << refusal(c.operation, c.body);
  }
}

TEST(ApiRequest, AnEngineIsItsOnlyModel) {
  constexpr auto kBody = R"({"messages":[{"role":"user","content":"x"}]})";
  EXPECT_EQ(read_api_request(ApiOperation::kChat, kBody)->model, "");
  EXPECT_FALSE(read_api_request(ApiOperation::kChat, R"({"model":7,"messages":[]})").has_value());
}

TEST(ApiRequest, WhatOnlyAnEngineNeedsIsNotReadForAnotherServer) {
  constexpr auto kBody =
      R"({"model":"m","unheard_of":1,"messages":[{"role":"user","content":"x"}]})";
  const auto forwarded = read_api_request(ApiOperation::kChat, kBody, ApiReader::kOtherServer);
  const auto answered = read_api_request(ApiOperation::kChat, kBody, ApiReader::kEngine);
  EXPECT_EQ(forwarded->engine, nullptr);
  ASSERT_NE(answered->engine, nullptr);
  EXPECT_TRUE(answered->engine->unsupported.has_value());
  EXPECT_EQ(identity_of(*forwarded), identity_of(*answered));
}

constexpr std::string_view kChangesNothing[] = {"stream",
                                                "user",
                                                "metadata",
                                                "store",
                                                "cache",
                                                "safety_identifier",
                                                "prompt_cache_key",
                                                "client_metadata",
                                                "prompt_cache_options",
                                                "prompt_cache_retention",
                                                "request_id"};

json rich_request() {
  return json::parse(R"({"model":"m","stream":true,
      "stream_options":{"include_usage":true,"include_obfuscation":false,"continuous_usage_stats":true},
      "user":"u","metadata":{"a":"b"},"store":true,"safety_identifier":"s","prompt_cache_key":"p",
      "client_metadata":{"a":"b"},"prompt_cache_options":{"a":1},"prompt_cache_retention":"24h",
      "request_id":"r",
      "cache":{"ttl":60,"namespace":"n"},"service_tier":"auto",
      "temperature":0.5,"seed":7,"n":2,"best_of":3,"logprobs":true,"top_logprobs":2,"top_p":0.9,
      "top_k":4,"min_p":0.1,"max_tokens":10,"max_completion_tokens":11,"stop":["a","b"],
      "presence_penalty":0.25,"frequency_penalty":0.75,"repetition_penalty":1.5,
      "logit_bias":{"50256":-100},
      "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","required":["a"]}}}],
      "tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,
      "functions":[{"name":"g"}],"function_call":"auto",
      "response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true}},
      "chat_template_kwargs":{"enable_thinking":false},"a/b":1,"a~b":2,"a~1b":3,"":4,
      "messages":[
        {"role":"system","content":"s","name":"boss"},
        {"role":"developer","content":[{"type":"text","text":"d","cache_control":{"type":"ephemeral"}}]},
        {"role":"assistant","content":null,"refusal":"no","tool_calls":[
            {"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
        {"role":"tool","content":"t","tool_call_id":"c1"},
        {"role":"assistant","content":"x","tool_calls":[
            {"id":"call_0123","type":"function","function":{"name":"f","arguments":"{}"}},
            {"id":"call_4567","type":"function","function":{"name":"f","arguments":"{}"}}]},
        {"role":"tool","content":"t","tool_call_id":"call_4567"},
        {"role":"tool","content":"t","tool_call_id":"call_0123"},
        {"role":"function","content":"t","name":"g"},
        {"role":"assistant","content":"x","audio":{"id":"a1"}},
        {"role":"user","content":[
            {"type":"text","text":"t1"},
            {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K","detail":"low","x":1},"uuid":"u1"},
            {"type":"image_url","image_url":"https://example.com/a"},
            {"type":"input_audio","input_audio":{"data":"Zm9v","format":"wav"}},
            {"type":"video_url","video_url":{"url":"https://example.com/v","fps":1.5}},
            {"type":"audio_url","audio_url":{"url":"https://example.com/s"}},
            {"type":"file","file":{"file_id":"f1"}},
            "bare",
            {"type":"text","text":"t2","y":[1]}]}]})");
}

/// Whether `id` stands alone in a text of `value`.
bool is_mentioned(const std::string& id, const json& value) {
  if (value.is_string()) {
    const auto is_letter = [](char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
    const std::string text = value;
    for (std::size_t at = text.find(id); at != std::string::npos; at = text.find(id, at + 1)) {
      const std::size_t end = at + id.size();
      if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end]))) {
        return true;
      }
    }
    return false;
  }
  return value.is_structured() &&
         std::ranges::any_of(value, [&](const json& inner) { return is_mentioned(id, inner); });
}

/// The ids of tool calls and results, in order.
std::vector<json*> ids_of(json& body) {
  std::vector<json*> ids;
  const auto add = [&](json& holder, const char* name) {
    if (!holder.is_object() || !holder.contains(name) || !holder[name].is_string()) return;
    const std::string id = holder[name];
    const bool is_random = id.size() >= 8 && std::ranges::all_of(id, [](char c) {
                             return std::isalnum(c) != 0 || c == '_' || c == '-';
                           });
    if (is_random) ids.push_back(&holder[name]);
  };
  for (json& message : body["messages"]) {
    if (message.contains("tool_calls") && message["tool_calls"].is_array()) {
      for (json& call : message["tool_calls"]) add(call, "id");
    }
    add(message, "tool_call_id");
  }
  return ids;
}

void number_ids(json& body) {
  json rest = body;
  for (json* id : ids_of(rest)) *id = nullptr;
  std::map<std::string, std::size_t> numbers;
  for (json* id : ids_of(body)) {
    const std::size_t next = numbers.try_emplace(*id, numbers.size()).first->second;
    if (!is_mentioned(*id, rest)) *id = json::array({"number", next});
  }
}

void drop_defaults(json& body) {
  const auto drop = [&](const char* name, const auto& is_default) {
    if (body.contains(name) && is_default(body[name])) body.erase(name);
  };
  const auto is = [](const json& value) {
    return [value](const json& field) { return field == value; };
  };
  for (const char* name : {"temperature",
                           "seed",
                           "n",
                           "best_of",
                           "logprobs",
                           "top_logprobs",
                           "top_p",
                           "top_k",
                           "min_p",
                           "max_tokens",
                           "max_completion_tokens",
                           "stop",
                           "presence_penalty",
                           "frequency_penalty",
                           "repetition_penalty",
                           "logit_bias",
                           "tools",
                           "tool_choice",
                           "parallel_tool_calls",
                           "functions",
                           "function_call",
                           "response_format",
                           "service_tier"}) {
    drop(name, is(nullptr));
  }
  for (const char* name : {"temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty",
                           "repetition_penalty"}) {
    if (body.contains(name) && body[name].is_number()) body[name] = body[name].get<double>() + 0.0;
  }
  const bool is_greedy = body.contains("temperature") && body["temperature"] == 0 &&
                         (!body.contains("logprobs") || body["logprobs"] == false);
  if (is_greedy) drop("top_p", is(1.0));
  if (is_greedy) drop("min_p", is(0.0));
  drop("n", is(1));
  drop("best_of", is(1));
  drop("service_tier", is("auto"));
  drop("logprobs", is(false));
  drop("logit_bias", is(json::object()));
  drop("stop", is(json::array()));
  drop("response_format", is({{"type", "text"}}));
  const bool has_tools = body.contains("tools") && !body["tools"].empty() && body["tools"] != "";
  if (!body.contains("functions")) drop("tool_choice", is(has_tools ? "auto" : "none"));
}

void simplify_part(json& part) {
  if (!part.is_object()) return;
  if (part["type"] == "text") part.erase("cache_control");
  for (const char* field : {"image_url", "video_url", "audio_url", "input_audio"}) {
    if (part["type"] != field || !part.contains(field)) continue;
    part.erase("cache_control");
    json& value = part[field];
    const char* option = field == std::string("input_audio") ? "format" : "detail";
    if (value.is_object() && value.contains(option) &&
        (value[option].is_null() || value[option] == "auto")) {
      value.erase(option);
    }
    if (value.is_object() && !value.contains("url")) continue;
    json& url = value.is_object() ? value["url"] : value;
    constexpr std::string_view kPng = "data:image/png;base64,iVBORw";
    if (field == std::string("image_url") && url.is_string() &&
        url.get<std::string>().starts_with(kPng)) {
      url = "data:;base64,iVBORw" + url.get<std::string>().substr(kPng.size());
    }
  }
}

/// The part of a request that changes its answer.
json meaning(json body) {
  number_ids(body);
  for (const std::string_view field : kChangesNothing) body.erase(std::string(field));
  if (body.contains("stream_options") && body["stream_options"].is_null()) {
    body.erase("stream_options");
  }
  if (body.contains("stream_options")) {
    body["stream_options"].erase("include_usage");
    body["stream_options"].erase("include_obfuscation");
    if (body["stream_options"].empty()) body.erase("stream_options");
  }
  drop_defaults(body);
  for (json& message : body["messages"]) {
    message.erase("cache_control");
    for (const char* name : {"name", "refusal", "tool_calls", "tool_call_id", "audio"}) {
      if (message.contains(name) && message[name].is_null()) message.erase(name);
    }
    if (!message.contains("content") || !message["content"].is_array()) continue;
    json& content = message["content"];
    for (json& part : content) simplify_part(part);
    const bool is_text = content.size() == 1 && content[0].is_object() && content[0].size() == 2 &&
                         content[0]["type"] == "text";
    if (is_text) content = json(content[0]["text"]);
  }
  return body;
}

std::vector<json> changed(const json& leaf) {
  if (leaf.is_string()) {
    const std::string text = leaf;
    std::vector<json> others{text + "A", text + " ", "Zg==", nullptr, json::array({leaf})};
    for (std::size_t at = 0; at < text.size(); ++at) {
      std::string other = text;
      other[at] = other[at] == 'q' ? 'Q' : 'q';
      others.push_back(other);
      others.push_back(text.substr(0, at));
    }
    return others;
  }
  if (leaf.is_number_integer())
    return {leaf.get<int>() + 1, -1, 0, 1, "1", 1.0, 99999999999, nullptr};
  if (leaf.is_number()) return {leaf.get<double>() + 0.125, 0, 1, 0.0, "0", nullptr};
  if (leaf.is_boolean()) return {!leaf.get<bool>(), 0, 1, "true", nullptr};
  return {"null", 0, false, json::object(), json::array()};
}

void collect_places(const json& value, const json::json_pointer& at,
                    std::vector<json::json_pointer>& places) {
  places.push_back(at);
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) collect_places(member, at / key, places);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) collect_places(value[i], at / i, places);
  }
}

/// Checks that requests have equal identities if and only if they have equal meanings.
class Identities {
 public:
  bool add(const json& body) {
    const auto request =
        read_api_request(ApiOperation::kChat, body.dump(), ApiReader::kOtherServer);
    if (!request.has_value()) return false;  // not identified, so not cached
    const std::string means = meaning(body).dump();
    const Identity identity = identity_of(*request);
    const auto [known, is_new] = meanings_.emplace(identity, means);
    EXPECT_EQ(known->second, means);
    const auto [same, is_new_meaning] = identities_.emplace(means, identity);
    EXPECT_EQ(same->second, identity) << "two identities for one meaning: " << means;
    return true;
  }
  std::size_t size() const { return meanings_.size(); }

 private:
  std::map<Identity, std::string> meanings_;
  std::map<std::string, Identity> identities_;
};

TEST(ApiRequestIdentity, DependsOnEveryFieldThatChangesTheAnswer) {
  Identities identities;
  const json body = rich_request();
  ASSERT_TRUE(identities.add(body));
  std::vector<json::json_pointer> places;
  collect_places(body, json::json_pointer(), places);
  std::size_t read = 0;
  for (const json::json_pointer& place : places) {
    if (place.empty()) continue;
    json without = body;
    json& parent = without[place.parent_pointer()];
    if (parent.is_object()) {
      parent.erase(place.back());
    } else {
      parent.erase(std::stoul(place.back()));
    }
    read += identities.add(without) ? 1 : 0;
    json more = body;
    if (more[place].is_object()) more[place]["added"] = nullptr;
    if (more[place].is_array()) more[place].push_back("added");
    if (more[place].is_array() || more[place].is_object()) identities.add(more);
    if (body[place].is_primitive()) {
      for (const json& other : changed(body[place])) {
        json mutant = body;
        mutant[place] = other;
        read += identities.add(mutant) ? 1 : 0;
      }
    }
    if (::testing::Test::HasFailure()) FAIL() << place;
  }
  EXPECT_GT(read, 900U);
  EXPECT_GT(identities.size(), 800U);
}

TEST(ApiRequestIdentityProperty, EqualOnlyForRequestsOfEqualMeaning) {
  Identities identities;
  const json rich = rich_request();
  std::vector<json::json_pointer> places;
  collect_places(rich, json::json_pointer(), places);
  testing::for_each_seed(1'500, [&](Rng& rng) {
    json body = rich;
    for (std::uint64_t edits = 1 + rng.below(4); edits > 0; --edits) {
      // Move a value to another place of the request.
      const json value = rich[places[1 + rng.below(places.size() - 1)]];
      const json::json_pointer& to = places[1 + rng.below(places.size() - 1)];
      if (body.contains(to) && (body[to].type() == value.type() || rng.chance(0.2))) {
        body[to] = value;
      }
    }
    identities.add(body);
  });
  if (std::getenv("AFTERIMAGE_TEST_SEED") == nullptr) {
    EXPECT_GT(identities.size(), 300U);
  }
}

TEST(ApiRequestIdentity, DiffersWhenAValueMovesToAnotherField) {
  const auto of = [](std::string_view messages, std::string_view fields = "") {
    const std::string body =
        R"({"model":"m","messages":)" + std::string(messages) + std::string(fields) + "}";
    return identity_of(
        read_api_request(ApiOperation::kChat, body, ApiReader::kOtherServer).value());
  };
  const std::string picture =
      R"({"type":"image_url","image_url":")" + std::string(kPicture) + "\"}";
  const std::string as_object =
      R"({"type":"image_url","image_url":{"url":")" + std::string(kPicture) + "\"}}";
  const std::string file = R"({"type":"file","file":{}})";
  const std::string text = R"({"type":"text","text":"q"})";
  const auto user = [](const std::string& content) {
    return R"([{"role":"user","content":)" + content + "}]";
  };
  const std::vector<Identity> all = {
      of(user("\"q\"")),
      of(user("[" + text + "," + text + "]")),
      of(user("[\"q\"]")),
      of(user("[" + picture + "," + text + "]")),
      of(user("[" + text + "," + picture + "]")),
      of(user("[" + as_object + "," + text + "]")),
      of(user("[" + file + "," + text + "]")),
      of(user("[" + text + "," + file + "]")),
      of(user("[" + picture + "," + file + "," + text + "]")),
      of(user("[" + file + "," + picture + "," + text + "]")),
      of(user("\"\"")),
      of(user("null")),
      of(user("[]")),
      of(R"([{"role":"user"}])"),
      of(R"([{"role":"system","content":"q"}])"),
      of(R"([{"role":"developer","content":"q"}])"),
      of(R"([{"role":"tool","content":"q"}])"),
      of(R"([{"role":"function","content":"q"}])"),
      of(R"([{"role":"ipython","content":"q"}])"),
      of(user("\"q\""), R"(,"messages/0":{"name":"x"})"),
      of(R"([{"role":"user","content":"q","name":"x"}])"),
      of(user("\"q\""), R"(,"operation":"chat")"),
      of(user("\"q\""), R"(,"temperature":0)"),
  };
  EXPECT_EQ(std::set<Identity>(all.begin(), all.end()).size(), all.size());
}

TEST(ApiRequestIdentity, DependsOnMediaContentAndNotOnItsAddress) {
  const auto of = [](std::string_view url) {
    ApiRequest request = chat(
        R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":")" +
        std::string(url) + R"("},{"type":"text","text":"q"}]}]})");
    const ContentDigest same[] = {{sha256({})}};
    static const Namespace space = Namespace::of({.model = "m", .encoder = "e"}, {}, {}).value();
    return identify(scope_of(request, same, {}), space);
  };
  EXPECT_EQ(of("https://a/x"), of("https://b/y"));
}

TEST(ApiRequestIdentity, AFetchedPictureIsTheOneOfTheDataUrl) {
  const auto asked = [](std::string_view url) {
    return chat(
        R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" +
        std::string(url) + R"("}},{"type":"text","text":"q"}]}]})");
  };
  const auto key = [](const ApiRequest& request) {
    const ContentDigest same[] = {{sha256({})}};
    static const Namespace space = Namespace::of({.model = "m", .encoder = "e"}, {}, {}).value();
    return identify(scope_of(request, same, {}), space);
  };
  ApiRequest fetched = asked("https://a/x.png");
  fetched.media[0].options["mime"] = "image/png";  // as its server says
  fetched.media[0].bytes = asked("data:image/png;base64,iVBORw0KGgo=").media[0].bytes;
  EXPECT_EQ(key(fetched), key(asked("data:image/png;base64,iVBORw0KGgo=")));
  fetched.media[0].options["mime"] = "image/svg+xml";
  EXPECT_NE(key(fetched), key(asked("data:image/png;base64,iVBORw0KGgo=")));
}

// Regression: the answer for a schema that ends with "answer" was served for one that begins with it.
TEST(ApiRequestIdentity, DependsOnTheOrderOfMembersThatAModelSees) {
  const auto of = [](std::string_view fields) { return identity_of(chat_with(fields)); };
  const auto both = [](std::string text) {
    const std::string first = R"("reasoning":{"type":"string"})";
    const std::string second = R"("answer":{"type":"string"})";
    const std::size_t at = text.find('@');
    std::string other = text;
    text.replace(at, 1, first + "," + second);
    other.replace(at, 1, second + "," + first);
    return std::pair(text, other);
  };
  for (
      const char* fields :
      {R"(,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"properties":{@}}}})",
       R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{@}}}}])",
       R"(,"functions":[{"name":"f","parameters":{"properties":{@}}}])",
       R"(,"json_schema":{"properties":{@}})", R"(,"guided_json":{"properties":{@}})",
       R"(,"structured_outputs":{"json":{"properties":{@}}})",
       R"(,"chat_template_kwargs":{"documents":[{@}]})", R"(,"documents":[{@}])"}) {
    const auto [one, other] = both(fields);
    EXPECT_NE(of(one), of(other)) << fields;
    EXPECT_EQ(of(one), of(one)) << fields;
  }
  const auto [call, other] = both(
      R"({"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{@}}}]},
          {"role":"tool","tool_call_id":"c","content":"t"}]})");
  const auto forwarded = [](std::string_view body) {
    return identity_of(
        read_api_request(ApiOperation::kChat, body, ApiReader::kOtherServer).value());
  };
  EXPECT_NE(forwarded(call), forwarded(other));
}

TEST(ApiRequestIdentity, IgnoresTheOrderOfFieldsSpacesAndEscapes) {
  const json body = rich_request();
  const Identity identity = identity_of(ApiOperation::kChat, body);
  EXPECT_EQ(identity_of(read_api_request(ApiOperation::kChat, body.dump(3)).value()), identity);
  const nlohmann::ordered_json ordered = nlohmann::ordered_json::parse(body.dump());
  nlohmann::ordered_json reversed = nlohmann::ordered_json::object();
  std::vector<std::string> keys;
  for (const auto& [key, value] : ordered.items()) keys.push_back(key);
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) reversed[*key] = ordered[*key];
  EXPECT_EQ(identity_of(read_api_request(ApiOperation::kChat, reversed.dump()).value()), identity);
  EXPECT_EQ(
      identity_of(chat(R"({"model":"m","messages":[{"role":"user","content":"q"}]})")),
      identity_of(chat(R"({"messages":[{"content":"\u0071","role":"user"}],"model":"\u006d"})")));
}

TEST(ApiRequestIdentity, DependsOnTheOperation) {
  const json body = {{"model", "m"}, {"prompt", "q"}, {"input", "q"}};
  json completion = body;
  EXPECT_NE(identity_of(ApiOperation::kCompletion, body).first,
            identity_of(ApiOperation::kEmbedding, body).first);
  completion["prompt"] = "other";
  EXPECT_EQ(identity_of(ApiOperation::kCompletion, completion).first,
            identity_of(ApiOperation::kCompletion, body).first)
      << "another question in the same scope";
}

}  // namespace
}  // namespace afterimage
