// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/generation_fields.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "foundation/json/json_fields.h"
#include "gateway/openai/engine_limits.h"

namespace afterimage {
namespace {

constexpr std::size_t kMaxStops = 64;
constexpr std::uint32_t kMaxTop = 20;
constexpr std::uint32_t kMaxChoices = 128;
constexpr double kMaxBias = 1000;

Result<std::optional<float>> number_of(const JsonValue& value, std::string_view field, double from,
                                       double to) {
  if (value.is_none()) return std::nullopt;
  const auto read = value.number();
  if (read.has_value() && *read >= from && *read <= to) return static_cast<float>(*read);
  return wrong_field(field, "must be a number from " + std::to_string(static_cast<int>(from)) +
                                " to " + std::to_string(static_cast<int>(to)));
}

/// A whole number; a negative one is `negative`.
Result<std::optional<std::uint32_t>> whole_number(const JsonValue& value, std::string_view field,
                                                  std::uint32_t negative) {
  if (value.is_none()) return std::nullopt;
  const auto read = value.number();
  if (!read.has_value() || *read != std::floor(*read) || *read > 1e9) {
    return wrong_field(field, "must be a whole number");
  }
  return *read < 0 ? negative : static_cast<std::uint32_t>(*read);
}

Result<std::optional<double>> read_sampling(const JsonValue& value, const SamplingNumber& field) {
  if (field.whole != nullptr) {
    AFI_TRY(const auto count, whole_number(value, field.name, field.negative));
    return count;
  }
  AFI_TRY(const auto number, number_of(value, field.name, field.least, field.most));
  if (field.real == &SamplingOptions::repeat_penalty && number == 0.0F) {
    return wrong_field(field.name, "must be more than 0");
  }
  return number;
}

/// -1 is llama.cpp's spelling of "any seed".
Result<std::optional<std::uint64_t>> read_seed(const JsonValue& value) {
  if (value.is_none() || value.number() == -1.0) return std::nullopt;
  if (const auto seed = value.count()) return seed;
  std::int64_t seed = 0;
  const std::string_view text = value.text();
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) {
    return static_cast<std::uint64_t>(seed);
  }
  return wrong_field("seed", "must be a whole number");
}

Result<std::vector<std::string>> read_stops(const JsonValue& value) {
  std::vector<std::string> stops;
  const auto add = [&](const JsonValue& stop) -> Result<void> {
    if (!stop.is(JsonKind::kString))
      return wrong_field("stop", "must be a string or a list of strings");
    if (!stop.text().empty()) stops.emplace_back(stop.text());
    return {};
  };
  if (value.is_none()) return stops;
  if (!value.is(JsonKind::kArray)) AFI_TRY_VOID(add(value));
  for (const JsonValue stop : value) AFI_TRY_VOID(add(stop));
  if (stops.size() > kMaxStops) return wrong_field("stop", "must have at most 64 texts");
  return stops;
}

/// {"42": -1} or [[42, -1]]; false instead of a number forbids the token.
Result<std::map<TokenId, float>> read_biases(const JsonValue& value) {
  std::map<TokenId, float> biases;
  const auto add = [&](std::string_view token, const JsonValue& bias) -> Result<void> {
    std::int32_t id = -1;
    const auto parsed = std::from_chars(token.data(), token.data() + token.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != token.data() + token.size() || id < 0) {
      return wrong_field("logit_bias", "must name tokens by their ids");
    }
    const auto read = bias.number();
    if (read.has_value() ? std::abs(*read) > kMaxBias : !bias.is(JsonKind::kFalse)) {
      return wrong_field("logit_bias",
                         "must give each token a number from -1000 to 1000, or false to forbid it");
    }
    biases[TokenId(id)] =
        read.has_value() ? static_cast<float>(*read) : -std::numeric_limits<float>::infinity();
    return {};
  };
  if (value.is(JsonKind::kArray)) {
    for (const JsonValue pair : value) {
      auto second = pair.begin();
      if (pair.is_empty() || ++second == pair.end()) {
        return wrong_field("logit_bias", "must be an object, or a list of pairs");
      }
      AFI_TRY_VOID(add(pair.front().text(), *second));
    }
    return biases;
  }
  if (!value.is_none() && !value.is(JsonKind::kObject)) {
    return wrong_field("logit_bias", "must be an object, or a list of pairs");
  }
  for (const JsonValue bias : value) AFI_TRY_VOID(add(bias.key(), bias));
  return biases;
}

Result<bool> read_flag(const JsonValue& value, std::string_view name) {
  const bool is_off = value.is_none() || value.is(JsonKind::kFalse) || value.number() == 0.0;
  if (!is_off && !value.is(JsonKind::kTrue)) return wrong_field(name, "must be true or false");
  return !is_off;
}

/// Chats: "logprobs" and "top_logprobs"; completions: the number in "logprobs".
Result<std::optional<std::uint32_t>> read_top_logprobs(ApiOperation operation,
                                                       const JsonValue& root) {
  const JsonValue wanted = root["logprobs"];
  AFI_TRY(const auto top, whole_number(root["top_logprobs"], "top_logprobs", 0));
  const bool is_number = wanted.is(JsonKind::kNumber);
  if (is_number && operation == ApiOperation::kChat) {
    return wrong_field("logprobs", "must be true or false");
  }
  AFI_TRY(auto number, is_number ? whole_number(wanted, "logprobs", 0) : top);
  if (!is_number && !wanted.is(JsonKind::kTrue)) {
    if (top.value_or(0) > 0) return wrong_field("top_logprobs", "needs \"logprobs\": true");
    return std::nullopt;
  }
  number = number.value_or(0);
  if (*number > kMaxTop) {
    return wrong_field(is_number ? "logprobs" : "top_logprobs", "must be from 0 to 20");
  }
  return number;
}

Result<std::string> read_tools(const JsonValue& tools) {
  if (tools.is_empty()) return "";
  if (!tools.is(JsonKind::kArray)) return wrong_field("tools", "must be a list of tools");
  std::size_t index = 0;
  for (const JsonValue tool : tools) {
    const std::string name = "tools[" + std::to_string(index++) + "]";
    if (tool["type"].text() != "function") {
      return not_offered(name + ".type", "only functions are supported");
    }
    if (!tool["function"]["name"].is(JsonKind::kString)) {
      return wrong_field(name + ".function.name", "must be a string");
    }
  }
  return canonical(tools);
}

/// As canonical JSON; empty: none.
Result<std::string> read_template_values(const JsonValue& root) {
  const JsonValue values = root["chat_template_kwargs"];
  if (!values.is_none() && !values.is(JsonKind::kObject)) {
    return wrong_field("chat_template_kwargs", "must be an object");
  }
  std::string text = values.is_empty() ? "" : canonical(values);
  const JsonValue effort = root["reasoning_effort"];
  if (effort.is_none()) return text;
  if (!effort.is(JsonKind::kString)) return wrong_field("reasoning_effort", "must be a string");
  if (!values["reasoning_effort"].is_none()) {
    return wrong_field("reasoning_effort", "is given beside chat_template_kwargs.reasoning_effort");
  }
  const std::string own = R"("reasoning_effort":)" + canonical(effort);
  return text.empty() ? "{" + own + "}" : "{" + own + "," + text.substr(1);
}

/// The names of transformers and vLLM.
Result<PromptEnd> read_prompt_end(const JsonValue& root) {
  constexpr std::string_view kContinues = "continue_final_message";
  constexpr std::string_view kStarts = "add_generation_prompt";
  AFI_TRY(const bool continues, flag_field(root[kContinues], kContinues));
  AFI_TRY(const bool starts, flag_field(root[kStarts], kStarts, !continues));
  if (!continues) {
    if (root[kStarts].is_none()) return PromptEnd::kDefault;
    return starts ? PromptEnd::kNewAnswer : PromptEnd::kAfterMessages;
  }
  if (!starts) return PromptEnd::kInLastMessage;
  return wrong_field("continue_final_message", "cannot be true if add_generation_prompt is");
}

Result<void> check_schema(const JsonValue& schema, std::string_view field) {
  if (schema.is_none() || schema.is(JsonKind::kObject)) return {};
  return wrong_field(field, "must be an object");
}

Result<AnswerRules> read_rules(const JsonValue& root) {
  AnswerRules rules;
  AFI_TRY(rules.tools, read_tools(root["tools"]));
  if (!rules.tools.empty()) {
    if (!root["tool_choice"].is_none()) rules.tool_choice = canonical(root["tool_choice"]);
    rules.parallel_tool_calls = root["parallel_tool_calls"].is(JsonKind::kTrue);
  }
  const JsonValue format = root["response_format"];
  const std::string_view type = format["type"].text();
  if (!format.is_none() && type != "text") {
    if (type != "json_object" && type != "json_schema") {
      return not_offered("response_format.type", "it supports text, json_object and json_schema");
    }
    AFI_TRY_VOID(check_schema(format["schema"], "response_format.schema"));
    AFI_TRY_VOID(
        check_schema(format["json_schema"]["schema"], "response_format.json_schema.schema"));
    rules.response_format = canonical(format);
  }
  const JsonValue schema = root["json_schema"];  // llama-server's name for it
  if (!schema.is_none()) {
    if (!format.is_none()) return wrong_field("json_schema", "is given beside response_format");
    AFI_TRY_VOID(check_schema(schema, "json_schema"));
    rules.response_format =
        R"({"json_schema":{"schema":)" + canonical(schema) + R"(},"type":"json_schema"})";
  }
  const JsonValue grammar = root["grammar"];
  if (!grammar.is_none() && !grammar.is(JsonKind::kString)) {
    return wrong_field("grammar", "must be a string");
  }
  rules.grammar = grammar.text();
  AFI_TRY(rules.template_values, read_template_values(root));
  AFI_TRY(rules.prompt_end, read_prompt_end(root));
  return rules;
}

/// The text of an object that holds one.
Result<std::string> read_prompt_object(const JsonValue& object, std::string_view name) {
  const JsonValue text = object["prompt_string"];
  if (text.is(JsonKind::kString) && object["multimodal_data"].is_empty()) {
    return std::string(text.text());
  }
  std::string joined;
  for (const JsonValue part : object["content"]) {
    if (part["type"].text() != "text" || !part["text"].is(JsonKind::kString)) {
      return not_offered(name, "it takes texts only; send media in a chat");
    }
    joined += part["text"].text();
  }
  if (object["content"].is(JsonKind::kArray)) return joined;
  return not_offered(name, "an object has a text in prompt_string, or a list of texts in content");
}

Result<void> append_prompt(const JsonValue& part, std::string_view name, ApiPrompt& prompt) {
  if (part.is(JsonKind::kString)) {
    prompt.emplace_back(std::string(part.text()));
    return {};
  }
  if (part.is(JsonKind::kObject)) {
    AFI_TRY(std::string text, read_prompt_object(part, name));
    prompt.emplace_back(std::move(text));
    return {};
  }
  if (part.is(JsonKind::kArray)) {
    for (const JsonValue one : part) {
      if (one.is(JsonKind::kArray)) return wrong_field(name, "must not have lists in a prompt");
      AFI_TRY_VOID(append_prompt(one, name, prompt));
    }
    return {};
  }
  const auto id = part.count();
  if (!id.has_value() || *id > std::numeric_limits<std::int32_t>::max()) {
    return wrong_field(name, "must be texts and tokens");
  }
  const bool continues = !prompt.empty() && prompt.back().index() == 1;
  if (!continues) prompt.emplace_back(std::vector<TokenId>());
  std::get<1>(prompt.back()).push_back(static_cast<TokenId>(*id));
  return {};
}

}  // namespace

Result<ApiGeneration> read_generation(ApiOperation operation, const JsonValue& root) {
  ApiGeneration read;
  for (const SamplingNumber& field : kSamplingNumbers) {
    AFI_TRY(const auto said, read_sampling(root[field.name], field));
    if (said.has_value()) read.sampling[field.name] = *said;
  }
  if (read.sampling.contains("repetition_penalty") && read.sampling.contains("repeat_penalty")) {
    return wrong_field("repeat_penalty", "is given beside repetition_penalty");
  }
  AFI_TRY(read.seed, read_seed(root["seed"]));
  read.any_seed = root["seed"].number() == -1.0;
  AFI_TRY(read.logit_bias, read_biases(root["logit_bias"]));
  AFI_TRY(read.stop, read_stops(root["stop"]));
  AFI_TRY(read.top_logprobs, read_top_logprobs(operation, root));
  AFI_TRY(const auto choices, whole_number(root["n"], "n", 0));
  read.choices = choices.value_or(1);
  if (read.choices == 0 || read.choices > kMaxChoices)
    return wrong_field("n", "must be from 1 to 128");
  AFI_TRY(read.rules, read_rules(root));
  AFI_TRY(read.ignores_end, read_flag(root["ignore_eos"], "ignore_eos"));
  return read;
}

Result<ApiPrompt> read_prompt(const JsonValue& prompt, std::string_view name) {
  ApiPrompt read;
  AFI_TRY_VOID(append_prompt(prompt, name, read));
  if (!read.empty()) return read;
  return not_offered(name, "a prompt is a text, or a list of texts and tokens that is not empty");
}

Result<Message> read_message_fields(const JsonValue& message, const std::string& name) {
  Message read;
  // vLLM's name before 2026, and the name since.
  const JsonValue older = message["reasoning_content"];
  read.reasoning = older.is_empty() ? message["reasoning"].text() : older.text();
  read.tool_call_id = message["tool_call_id"].text();
  if (message["role"].text() == "tool") read.name = message["name"].text();
  std::size_t index = 0;
  for (const JsonValue call : message["tool_calls"]) {
    const std::string place = name + ".tool_calls[" + std::to_string(index++) + "].function";
    const JsonValue function = call["function"];
    if (!function["name"].is(JsonKind::kString))
      return wrong_field(place + ".name", "must be a string");
    if (!function["arguments"].is(JsonKind::kString)) {
      return wrong_field(place + ".arguments", "must be a string");
    }
    read.tool_calls.push_back({.id = std::string(call["id"].text()),
                               .name = std::string(function["name"].text()),
                               .arguments = std::string(function["arguments"].text())});
  }
  return read;
}

Result<GenerateOptions> generate_options(const ApiRequest& request, const GenerateOptions& defaults,
                                         const Tokenizer* tokenizer) {
  const ApiGeneration& asked = request.engine->generation;
  GenerateOptions options = defaults;
  if (request.max_tokens.has_value()) options.max_tokens = TokenCount(*request.max_tokens);
  SamplingOptions& sampling = options.sampling;
  for (const SamplingNumber& field : kSamplingNumbers) {
    const auto said = asked.sampling.find(field.name);
    if (said == asked.sampling.end()) continue;
    if (field.real != nullptr) {
      sampling.*field.real = static_cast<float>(said->second);
    } else {
      sampling.*field.whole = static_cast<std::uint32_t>(said->second);
    }
  }
  if (asked.seed.has_value() || asked.any_seed) sampling.seed = asked.seed;
  sampling.logit_bias = asked.logit_bias;
  options.stop = asked.stop;
  options.top_logprobs = asked.top_logprobs;
  if (asked.ignores_end) {
    if (tokenizer == nullptr) return not_offered("ignore_eos", "leave it out");
    for (const TokenId token : tokenizer->end_tokens()) {
      sampling.logit_bias[token] = -std::numeric_limits<float>::infinity();
    }
  }
  return options;
}

}  // namespace afterimage
