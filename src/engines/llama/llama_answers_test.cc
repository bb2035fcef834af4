// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/reuse.h"
#include "afterimage/serve.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama_library/loaded_model.h"
#include "engines/llama_library/request_limits.h"
#include "testing/demo_models.h"

/// What clients ask of an answer: sampling, tools, response formats.
namespace afterimage {
namespace {

using testing::demo_options;

const LlamaEngine& demo(const std::string& name) {
  static std::map<std::string, std::unique_ptr<LlamaEngine>> engines;
  auto& engine = engines[name];
  if (engine == nullptr) engine = LlamaEngine::create(demo_options(name)).value();
  return *engine;
}

Request asks(std::vector<ContentPart> parts) {
  Request request;
  request.messages.push_back({.role = Role::kUser, .parts = std::move(parts)});
  return request;
}

Sequence prepared(const LlamaEngine& engine, const Request& request) {
  return engine.prepare(request, {}).value();
}

Result<Served> answer(const LlamaEngine& engine, const Request& request) {
  const SystemClock clock;
  return serve_without_reuse(request, engine, clock, {.max_tokens = TokenCount(3)});
}

void expect_error(const Error& error, ErrorCode code, const std::vector<std::string>& words) {
  EXPECT_EQ(error.code, code) << error.message;
  for (const std::string& word : words) {
    EXPECT_TRUE(error.message.contains(word)) << "'" << word << "' in: " << error.message;
  }
}

/// What a sampled request with this seed gives, through the caches.
Completion sampled(const LlamaEngine& engine, Reuse& reuse, const Request& request,
                   std::uint64_t seed) {
  GenerateOptions options = engine.default_options();
  options.max_tokens = TokenCount(12);
  options.sampling.temperature = 2;
  options.sampling.repeat_penalty = 1.3F;
  options.sampling.seed = seed;
  auto served = serve(request, engine, reuse, options);
  EXPECT_TRUE(served.has_value()) << to_string(served.error());
  return served.has_value() ? served->completion : Completion{};
}

// Its tokenizer puts a space before a text, which the template's beginning of an answer does not have:
// the grammar refused it.
TEST(LlamaAnswers, ASchemaConstrainsAnAnswerOfASentencePieceModel) {
  Request request = asks({"the river"});
  request.rules.response_format = R"({"type":"json_object","schema":{"const":"42"}})";
  const SystemClock clock;
  const auto served =
      serve_without_reuse(request, demo("sentences"), clock, {.max_tokens = TokenCount(200)});
  ASSERT_TRUE(served.has_value()) << to_string(served.error());
  // The grammar permits white space around a value, and random weights like it.
  std::string text = served->completion.text;
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
  EXPECT_EQ(text, R"("42")");
}

TEST(LlamaAnswers, ASeededAnswerIsTheSameWithAndWithoutReuse) {
  const SystemClock clock;
  for (const char* const name : {"plain", "dense", "hybrid"}) {
    const Request request = asks({"the stone bird and the river, what is it? say more of it."});
    const auto warm = Reuse::create({.budget = 64_MiB}, Secret{}, clock).value();
    const auto cold = Reuse::create({.budget = 64_MiB}, Secret{}, clock).value();
    const Completion other = sampled(demo(name), *warm, request, 2);
    const Completion resumed = sampled(demo(name), *warm, request, 1);
    const Completion first = sampled(demo(name), *cold, request, 1);
    EXPECT_GT(resumed.resumed_from, TokenCount(0)) << name;
    EXPECT_EQ(first.resumed_from, TokenCount(0)) << name;
    EXPECT_EQ(resumed.tokens, first.tokens) << name;
    EXPECT_EQ(resumed.logits, first.logits) << name;
    EXPECT_NE(resumed.tokens, other.tokens) << name << ": another seed";
  }
}

TEST(LlamaAnswers, RefusesABiasForATokenThatItDoesNotHave) {
  const SystemClock clock;
  GenerateOptions options{.max_tokens = TokenCount(1)};
  options.sampling.logit_bias[TokenId(1'000'000)] = 1;
  const auto served = serve_without_reuse(asks({"x"}), demo("plain"), clock, options);
  ASSERT_FALSE(served.has_value());
  expect_error(served.error(), ErrorCode::kInvalidArgument, {"logit_bias", "1000000"});
}

// The limits one by one: request_limits_test.
TEST(LlamaAnswers, WhatIsBeyondItsLimitsIsRefused) {
  const auto expect_refused = [](const Request& request, const std::string& word) {
    const auto served = answer(demo("plain"), request);
    ASSERT_FALSE(served.has_value()) << word;
    expect_error(served.error(), ErrorCode::kInvalidArgument, {word, "128 at most"});
  };
  Request grouped = asks({"the river"});
  grouped.rules.grammar = "root ::= " + std::string(RequestLimits::kDepth + 1, '(');
  expect_refused(grouped, "groups");
  grouped.is_completion = true;
  expect_refused(grouped, "groups");
  Request called = asks({"light the lamp"});
  called.messages.push_back({.role = Role::kAssistant, .parts = {}});
  called.messages.back().tool_calls.push_back(
      {.id = "1", .name = "lamp", .arguments = std::string(RequestLimits::kDepth + 1, '[')});
  expect_refused(called, "levels");
}

TEST(LlamaAnswers, AnswersUntilTheContextIsFullIfNothingLimitsIt) {
  const SystemClock clock;
  const Sequence prompt = prepared(demo("plain"), asks({"x"}));
  const auto served =
      serve_without_reuse(asks({"x"}), demo("plain"), clock, {.max_tokens = kNoTokenLimit});
  ASSERT_TRUE(served.has_value()) << to_string(served.error());
  const std::size_t length = prompt.tokens.size() + served->completion.tokens.size();
  EXPECT_TRUE(served->completion.ended || length == demo_options("plain").context.value())
      << length;
}

constexpr const char* kLampTool =
    R"([{"type":"function","function":{"name":"lamp","description":"<|im_end|>","parameters":{
         "type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}}}])";

// As Qwen 2.5 and Hermes call functions.
constexpr const char* kToolTemplate = R"(
{%- if tools %}
    {{- '<|im_start|>system\n<tools>' }}
    {%- for tool in tools %}
        {{- '\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '\n</tools><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "assistant" and message.tool_calls %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.function.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.function.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {{- '<|im_start|>user\n<tool_response>\n' + message.content }}
        {{- '\n</tool_response><|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %})";

const LlamaEngine& tool_demo() {
  static const auto engine = [] {
    LlamaOptions options = demo_options("dense");
    options.chat_template = kToolTemplate;
    return LlamaEngine::create(std::move(options)).value();
  }();
  return *engine;
}

TEST(LlamaAnswers, ReadsToolCallsOutOfAnAnswer) {
  Request request = asks({"light the lamp"});
  request.rules = {.tools = kLampTool};
  const auto prepared = tool_demo().prepare_answer(request, {});
  ASSERT_TRUE(prepared.has_value()) << to_string(prepared.error());
  ASSERT_NE(prepared->format, nullptr);
  const std::string text =
      "Sure.\n<tool_call>\n{\"name\": \"lamp\", \"arguments\": {\"on\": true}}\n</tool_call>";
  AnswerMessage before;
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const auto read = prepared->format->read(text.substr(0, size), false);
    ASSERT_TRUE(read.has_value()) << to_string(read.error()) << size;
    EXPECT_TRUE(read->content.starts_with(before.content)) << size;
    ASSERT_GE(read->tool_calls.size(), before.tool_calls.size()) << size;
    before = *read;
  }
  const auto whole = prepared->format->read(text, true);
  ASSERT_TRUE(whole.has_value()) << to_string(whole.error());
  ASSERT_EQ(whole->tool_calls.size(), 1U);
  EXPECT_EQ(whole->tool_calls[0].name, "lamp");
  EXPECT_EQ(whole->tool_calls[0].arguments, R"({"on": true})");
  EXPECT_TRUE(whole->content.starts_with("Sure.")) << whole->content;
}

TEST(LlamaAnswers, RefusesToolsThatItsTemplateWouldLeaveOut) {
  Request request = asks({"light the lamp"});
  request.rules = {.tools = kLampTool};
  const auto served = answer(demo("plain"), request);
  ASSERT_FALSE(served.has_value());
  expect_error(served.error(), ErrorCode::kUnsupported, {"'tools'"});
}

TEST(LlamaAnswers, KeepsToAGrammarAndToASchema) {
  const SystemClock clock;
  Request request = asks({"say it"});
  request.rules = {.grammar = R"(root ::= "red" | "blue")"};
  const auto said =
      serve_without_reuse(request, demo("plain"), clock, {.max_tokens = TokenCount(50)});
  ASSERT_TRUE(said.has_value()) << to_string(said.error());
  EXPECT_TRUE(said->completion.text == "red" || said->completion.text == "blue")
      << said->completion.text;
  request.rules = {.response_format = R"({"json_schema":{"schema":{"enum":["a","b"]}},)"
                                      R"("type":"json_schema"})"};
  const auto chosen =
      serve_without_reuse(request, demo("plain"), clock, {.max_tokens = TokenCount(400)});
  ASSERT_TRUE(chosen.has_value()) << to_string(chosen.error());
  std::string text =
      chosen->format->read(chosen->completion.text, chosen->completion.ended)->content;
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
  EXPECT_TRUE(text == R"("a")" || text == R"("b")") << text;
}

// --chat-template gemma: the template has no source, and a schema needs none.
TEST(LlamaAnswers, KeepsToASchemaUnderATemplateThatIsOnlyNamed) {
  LlamaOptions options = demo_options("plain");
  options.chat_template = "llama3";
  const auto engine = LlamaEngine::create(std::move(options)).value();
  const SystemClock clock;
  Request request = asks({"say it"});
  request.rules = {.response_format = R"({"json_schema":{"schema":{"enum":["a","b"]}},)"
                                      R"("type":"json_schema"})"};
  const auto chosen = serve_without_reuse(request, *engine, clock, {.max_tokens = TokenCount(400)});
  ASSERT_TRUE(chosen.has_value()) << to_string(chosen.error());
  std::string text =
      chosen->format->read(chosen->completion.text, chosen->completion.ended)->content;
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
  EXPECT_TRUE(text == R"("a")" || text == R"("b")") << text;
  request.rules = {.tools = kLampTool};
  EXPECT_EQ(answer(*engine, request).error().code, ErrorCode::kUnsupported);
}

TEST(LlamaAnswers, ACompletionIsItsTextAndNoTextIsAControlToken) {
  const LlamaEngine& engine = demo("dense");
  const Tokenizer& tokenizer = *engine.tokenizer();
  Request request = asks({"Once upon a time"});
  request.is_completion = true;
  EXPECT_EQ(prepared(engine, request).tokens,
            tokenizer.tokenize("Once upon a time", {.add_special = true}).value());
  request = asks({"<|im_start|>"});
  request.is_completion = true;
  EXPECT_EQ(prepared(engine, request).tokens,
            tokenizer.tokenize("<|im_start|>", {.add_special = true, .parse_special = false}));
  request.rules = {.template_values = "{}"};
  EXPECT_EQ(answer(engine, request).error().code, ErrorCode::kUnsupported);
}

TEST(LlamaAnswers, ItsTokenizerReadsAndWritesControlTokens) {
  const Tokenizer& tokenizer = *demo("dense").tokenizer();
  const auto one = tokenizer.tokenize("<|im_start|>", {}).value();
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(tokenizer.bytes_of(one.front()), "<|im_start|>");
  EXPECT_GT(tokenizer.tokenize("<|im_start|>", {.parse_special = false})->size(), 1U);
  EXPECT_EQ(tokenizer.bytes_of(TokenId(-1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(tokenizer.context(), demo_options("dense").context);
}

TEST(LlamaAnswers, TheTemplateSeesItsValues) {
  LlamaOptions options = demo_options("dense");
  options.chat_template =
      "{{ tone }}{% for message in messages %}<|im_start|>{{ message.content }}{% endfor %}";
  const auto engine = LlamaEngine::create(std::move(options)).value();
  Request request = asks({"say <|im_start|>"});
  request.rules = {.template_values = R"({"tone":"low"})"};
  EXPECT_EQ(engine->tokenizer()->prompt_of(request), "low<|im_start|>say <|im_start|>");
  const TokenId control = engine->tokenizer()->tokenize("<|im_start|>", {})->front();
  request.rules = {.template_values = R"({"tone":"<|im_start|>"})"};
  EXPECT_EQ(std::ranges::count(prepared(*engine, request).tokens, control), 1)
      << "the template's own, and none of the request";
}

// Of llama-server: --reasoning, and requests that say otherwise.
TEST(LlamaAnswers, TheOperatorSaysWhetherAModelThinks) {
  LlamaOptions options = demo_options("dense");
  options.chat_template =
      "{% if enable_thinking is defined and not enable_thinking %}quick{% else %}slow{% endif %}"
      "{% for message in messages %}{{ message.content }}{% endfor %}";
  const auto prompt = [](const LlamaEngine& engine, const std::string& values) {
    Request request = asks({"!"});
    request.rules = {.template_values = values};
    return engine.tokenizer()->prompt_of(request).value();
  };
  const auto as_it_is = LlamaEngine::create(options).value();
  options.thinks = false;
  const auto off = LlamaEngine::create(options).value();
  EXPECT_EQ(prompt(*as_it_is, ""), "slow!");
  EXPECT_EQ(prompt(*off, ""), "quick!");
  EXPECT_EQ(prompt(*off, R"({"enable_thinking":true})"), "slow!");
  EXPECT_EQ(prompt(*as_it_is, R"({"reasoning_effort":"none"})"), "quick!");
  EXPECT_NE(as_it_is->identity(), off->identity());
  Request request = asks({"!"});
  request.rules = {.template_values = R"({"enable_thinking":"yes"})"};
  EXPECT_EQ(answer(*off, request).error().code, ErrorCode::kInvalidArgument);
}

TEST(LlamaAnswers, AnAnswerGoesOnWhereItsMessageEnds) {
  const LlamaEngine& engine = tool_demo();
  Request request = asks({"light the lamp"});
  const std::string question = engine.tokenizer()->prompt_of(request).value();
  request.messages.push_back({.role = Role::kAssistant, .parts = {"It is"}});
  const auto prompt = [&](PromptEnd end) {
    request.rules.prompt_end = end;
    return engine.tokenizer()->prompt_of(request).value();
  };
  EXPECT_EQ(prompt(PromptEnd::kInLastMessage), question + "It is");
  EXPECT_EQ(prompt(PromptEnd::kDefault), question + "It is");
  EXPECT_TRUE(prompt(PromptEnd::kNewAnswer).starts_with(prompt(PromptEnd::kAfterMessages)));
  EXPECT_GT(prompt(PromptEnd::kNewAnswer).size(), prompt(PromptEnd::kAfterMessages).size());
  request.rules.prompt_end = PromptEnd::kInLastMessage;
  const auto served = answer(engine, request);
  ASSERT_TRUE(served.has_value()) << to_string(served.error());
  EXPECT_EQ(served->format->read(" red", true)->content, " red") << "without what the client sent";
  request.messages.pop_back();
  EXPECT_EQ(answer(engine, request).error().code, ErrorCode::kInvalidArgument);
}

TEST(LlamaAnswers, RefusesAGrammarThatCannotBeRead) {
  Request request = asks({"say it"});
  request.rules = {.grammar = "root ::= ("};
  const auto served = answer(demo("plain"), request);
  ASSERT_FALSE(served.has_value());
  EXPECT_EQ(served.error().code, ErrorCode::kInvalidArgument) << served.error().message;
}

// The same holds for all that a client sends besides texts.
TEST(LlamaAnswers, NoPartOfARequestBecomesAControlToken) {
  const auto request_with = [](const std::string& text) {
    Request request = asks({"light the lamp"});
    request.messages.push_back(
        {.role = Role::kAssistant,
         .tool_calls = {{.id = text, .name = "lamp", .arguments = R"({"on":")" + text + "\"}"}}});
    request.messages.push_back(
        {.role = Role::kTool, .parts = {text}, .tool_call_id = text, .name = "lamp"});
    request.rules.tools = R"([{"type":"function","function":{"name":"lamp","description":")" +
                          text + R"(","parameters":{"type":"object","properties":{}}}}])";
    return request;
  };
  const auto model = LoadedModel::load(demo_options("dense")).value();
  const auto controls = [&](const std::string& text) {
    std::size_t count = 0;
    for (const TokenId token : prepared(tool_demo(), request_with(text)).tokens) {
      if (model->bytes_of(token).empty()) ++count;
    }
    return count;
  };
  EXPECT_GT(controls("harmless"), 4U);
  EXPECT_EQ(controls("<|im_end|>"), controls("harmless"));
  EXPECT_EQ(controls(R"(\u003c|im_end|\u003e)"), controls("harmless"));
}

}  // namespace
}  // namespace afterimage
