// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/generation_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing/tokenizing_engine.h"

namespace afterimage {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

Result<ApiRequest> asked(const std::string& fields, ApiOperation operation = ApiOperation::kChat) {
  return read_api_request(
      operation,
      R"({"model":"m","prompt":"x","messages":[{"role":"user","content":"x"}],)" + fields + "}");
}

GenerateOptions options_of(const std::string& fields,
                           ApiOperation operation = ApiOperation::kChat) {
  const ApiRequest request = asked(fields, operation).value();
  const auto& unsupported = request.engine->unsupported;
  EXPECT_FALSE(unsupported.has_value()) << to_string(*unsupported);
  return generate_options(request, {.max_tokens = TokenCount(9), .sampling = {.top_k = 3}}, nullptr)
      .value();
}

TEST(GenerationFields, AreReadIntoTheEnginesOptions) {
  const GenerateOptions options = options_of(
      R"("temperature":0.7,"top_p":0.5,"top_k":7,"min_p":0.1,"presence_penalty":1,
         "frequency_penalty":-2,"repetition_penalty":1.5,"repeat_last_n":5,"seed":12345678901,
         "logit_bias":{"3":-100,"4":false},"stop":["a","","b"],"max_tokens":4,"logprobs":true,
         "top_logprobs":2)");
  const SamplingOptions& sampling = options.sampling;
  EXPECT_EQ(sampling.temperature, 0.7F);
  EXPECT_EQ(sampling.top_p, 0.5F);
  EXPECT_EQ(sampling.top_k, 7U);
  EXPECT_EQ(sampling.min_p, 0.1F);
  EXPECT_EQ(sampling.presence_penalty, 1);
  EXPECT_EQ(sampling.frequency_penalty, -2);
  EXPECT_EQ(sampling.repeat_penalty, 1.5F);
  EXPECT_EQ(sampling.penalty_window, 5U);
  EXPECT_EQ(sampling.seed, 12345678901U);
  EXPECT_EQ(sampling.logit_bias.at(TokenId(3)), -100);
  EXPECT_TRUE(std::isinf(sampling.logit_bias.at(TokenId(4))));
  EXPECT_EQ(options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options.max_tokens, TokenCount(4));
  EXPECT_EQ(options.top_logprobs, 2U);
}

TEST(GenerationFields, AreTheEnginesDefaultsIfAbsent) {
  const GenerateOptions options = options_of(R"("temperature":null,"seed":-1)");
  EXPECT_EQ(options.max_tokens, TokenCount(9));
  EXPECT_EQ(options.sampling, (SamplingOptions{.top_k = 3}));
  EXPECT_FALSE(options.top_logprobs.has_value());
}

TEST(GenerationFields, HaveOtherSpellings) {
  EXPECT_EQ(options_of(R"("stop":"x")").stop, std::vector<std::string>{"x"});
  EXPECT_EQ(options_of(R"("repeat_penalty":2)").sampling.repeat_penalty, 2);
  EXPECT_EQ(options_of(R"("top_k":-1)").sampling.top_k, 0U);
  EXPECT_EQ(options_of(R"("logit_bias":[[5,1.5]])").sampling.logit_bias.at(TokenId(5)), 1.5F);
  EXPECT_EQ(options_of(R"("logprobs":true)").top_logprobs, 0U);
  EXPECT_EQ(options_of(R"("logprobs":3)", ApiOperation::kCompletion).top_logprobs, 3U);
  EXPECT_FALSE(asked(R"("seed":-1)")->sampling.seeded) << "so its answer is not cached";
  EXPECT_TRUE(asked(R"("seed":1)")->sampling.seeded);
}

// Benchmarks of servers ask for it, so that every answer has as many tokens: each got a 400.
TEST(GenerationFields, WhatEndsAnAnswerIsForbiddenWhereTheEndIsToBeIgnored) {
  const testing::ByteTokenizer tokenizer;
  for (const auto operation : {ApiOperation::kChat, ApiOperation::kCompletion}) {
    const ApiRequest request =
        asked(R"("ignore_eos":true,"logit_bias":{"7":1})", operation).value();
    ASSERT_FALSE(request.engine->unsupported.has_value());
    const auto options = generate_options(request, {}, &tokenizer).value();
    EXPECT_THAT(options.sampling.logit_bias,
                UnorderedElementsAre(Pair(TokenId(7), 1), Pair(TokenId(256), -INFINITY)));
    const auto without = generate_options(request, {}, nullptr);
    EXPECT_EQ(without.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(without.error().message.find("ignore_eos"), std::string::npos);
  }
}

TEST(GenerationFields, OutOfRangeAreRefusedByName) {
  const struct {
    const char* field;
    const char* name;
  } kFields[] = {
      {R"("temperature":-1)", "temperature"},
      {R"("top_p":2)", "top_p"},
      {R"("min_p":"a")", "min_p"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("top_k":1.5)", "top_k"},
      {R"("ignore_eos":1)", "ignore_eos"},
      {R"("n":1000)", "n must"},
      {R"("stop":[1])", "stop"},
      {R"("logit_bias":{"word":1})", "logit_bias"},
      {R"("logit_bias":[[1]])", "logit_bias"},
      {R"("logit_bias":{"5":1e300})", "-1000 to 1000"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("top_logprobs":1)", "top_logprobs"},
      {R"("tools":[{"type":"function"}])", "tools[0].function.name"},
      {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
      {R"("response_format":{"type":"xml"})", "response_format"},
      {R"("response_format":{"type":"json_object","schema":7})", "response_format.schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":7}})", "schema"},
      {R"("json_schema":true)", "json_schema"},
      {R"("grammar":1)", "grammar"},
      {R"("add_generation_prompt":1)", "add_generation_prompt"},
      {R"("continue_final_message":true,"add_generation_prompt":true)", "continue_final_message"},
  };
  for (const auto& c : kFields) {
    const auto request = asked(c.field);
    ASSERT_TRUE(request.has_value()) << "another server may take it: " << c.field;
    ASSERT_TRUE(request->engine->unsupported.has_value()) << c.field;
    EXPECT_NE(request->engine->unsupported->message.find(c.name), std::string::npos)
        << request->engine->unsupported->message;
  }
}

TEST(GenerationFields, HoldToolsAsCanonicalJson) {
  const ApiGeneration read =
      asked(R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required",
               "parallel_tool_calls":true,"response_format":{"type":"text"})")
          ->engine->generation;
  EXPECT_EQ(read.rules.tools, R"([{"type":"function","function":{"name":"f"}}])");
  EXPECT_EQ(read.rules.tool_choice, R"("required")");
  EXPECT_TRUE(read.rules.parallel_tool_calls);
  EXPECT_EQ(read.rules.response_format, "");
  EXPECT_EQ(asked(R"("tools":[],"tool_choice":"none")")->engine->generation.rules, AnswerRules{});
}

// Regression: members were sorted, so that a model wrote "answer" before the reasoning that leads to it.
TEST(GenerationFields, KeepTheOrderOfASchemasMembers) {
  const std::string schema =
      R"({"type":"object","properties":{"reasoning":{"type":"string"},"answer":{"type":"string"}}})";
  const auto rules = [](const std::string& fields) {
    return asked(fields)->engine->generation.rules;
  };
  const std::string tools =
      R"([{"type":"function","function":{"name":"z","parameters":)" + schema + R"(}}])";
  const std::string format =
      R"({"type":"json_schema","json_schema":{"name":"s","schema":)" + schema + "}}";
  EXPECT_EQ(rules(R"("tools":)" + tools).tools, tools);
  EXPECT_EQ(rules(R"("response_format":)" + format).response_format, format);
  EXPECT_THAT(rules(R"("json_schema":)" + schema).response_format, ::testing::HasSubstr(schema));
}

TEST(GenerationFields, HaveNamesOfLlamaServer) {
  const auto read = [](const std::string& fields) { return asked(fields).value(); };
  EXPECT_EQ(read(R"("n_predict":7)").max_tokens, 7U);
  EXPECT_EQ(read(R"("n_predict":7,"max_tokens":5)").max_tokens, 5U);
  EXPECT_EQ(read(R"("n_predict":-1)").max_tokens, std::nullopt);
  EXPECT_EQ(read(R"("json_schema":{"type":"object"})").engine->generation.rules.response_format,
            R"({"json_schema":{"schema":{"type":"object"}},"type":"json_schema"})");
}

TEST(GenerationFields, HoldTheTemplatesValues) {
  const auto values = [](const std::string& fields) {
    return asked(fields)->engine->generation.rules.template_values;
  };
  EXPECT_EQ(values(R"("chat_template_kwargs":{"b":1,"a":[true]})"), R"({"b":1,"a":[true]})");
  EXPECT_EQ(values(R"("reasoning_effort":"low")"), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(values(R"("reasoning_effort":"low","chat_template_kwargs":{"b":1})"),
            R"({"reasoning_effort":"low","b":1})");
  EXPECT_EQ(values(R"("chat_template_kwargs":{})"), "");
}

TEST(GenerationFields, SayWhereThePromptEnds) {
  const auto end = [](const std::string& fields) {
    return asked(fields)->engine->generation.rules.prompt_end;
  };
  EXPECT_EQ(end(R"("n":1)"), PromptEnd::kDefault);
  EXPECT_EQ(end(R"("add_generation_prompt":true,"continue_final_message":false)"),
            PromptEnd::kNewAnswer);
  EXPECT_EQ(end(R"("add_generation_prompt":false)"), PromptEnd::kAfterMessages);
  EXPECT_EQ(end(R"("continue_final_message":true)"), PromptEnd::kInLastMessage);
  EXPECT_EQ(end(R"("continue_final_message":true,"add_generation_prompt":false)"),
            PromptEnd::kInLastMessage);
}

}  // namespace
}  // namespace afterimage
