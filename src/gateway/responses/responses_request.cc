// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/responses/responses_request.h"

#include <algorithm>
#include <array>

#include "gateway/protocol/fields.h"
#include "gateway/protocol/volatile_blocks.h"
#include "gateway/responses/input_items.h"

namespace afterimage {
namespace {

constexpr auto kKnown = std::to_array<std::string_view>({"model",
                                                         "input",
                                                         "instructions",
                                                         "tools",
                                                         "tool_choice",
                                                         "parallel_tool_calls",
                                                         "text",
                                                         "max_output_tokens",
                                                         "temperature",
                                                         "top_p",
                                                         "reasoning",
                                                         "metadata",
                                                         "stream",
                                                         "stream_options",
                                                         "store",
                                                         "previous_response_id",
                                                         "include",
                                                         "truncation",
                                                         "background",
                                                         "service_tier",
                                                         "user",
                                                         "safety_identifier",
                                                         "prompt_cache_key",
                                                         "prompt_cache_retention",
                                                         "prompt_cache_options",
                                                         "top_logprobs"});
/// Fields that have no influence on what the model says: they are for the client's or OpenAI's accounts.
constexpr auto kIgnored = std::to_array<std::string_view>({"client_metadata", "max_tool_calls"});
/// Sampling fields that servers of chat completions have, and this API has not.
constexpr auto kAlsoPassedOn = std::to_array<std::string_view>({"top_k", "stop"});

bool is_one_of(std::string_view name, const auto& names) {
  return std::ranges::find(names, name) != names.end();
}

class Reading {
 public:
  Reading(const JsonValue& root, const FileLookup& files, const ResponseLookup& responses,
          std::string_view id, bool keeps_billing_lines)
      : root_(root),
        files_(files),
        responses_(responses),
        id_(id),
        keeps_billing_lines_(keeps_billing_lines) {}

  Result<ResponsesRequest> run() && {
    AFI_TRY_VOID(check_fields());
    AFI_TRY_VOID(check_what_is_not_offered());
    AFI_TRY(const std::string_view model, text_field(root_["model"], "model"));
    if (model.empty()) return wrong_field("model", "must be a non-empty string");
    request_.model = model;
    chat_.add_text("model", model);
    AFI_TRY_VOID(tools_.add_list(root_["tools"], "tools"));
    AFI_TRY_VOID(read_input());  // may bring more tools
    AFI_TRY_VOID(read_generation());
    AFI_TRY_VOID(read_tools());
    AFI_TRY_VOID(read_text());
    AFI_TRY_VOID(read_reasoning());
    AFI_TRY_VOID(read_metadata());
    AFI_TRY_VOID(read_cache_options(root_["prompt_cache_options"]));
    for (const JsonValue field : root_) {
      const bool passed = is_passed_on(field.key()) || is_one_of(field.key(), kAlsoPassedOn);
      if (passed && !field.is_none()) chat_.add_value(field.key(), field);
    }
    AFI_TRY(request_.stream, flag_field(root_["stream"], "stream"));
    AFI_TRY(request_.store, flag_field(root_["store"], "store", true));
    if (request_.stream)
      chat_.add("stream", "true").add("stream_options", R"({"include_usage":true})");
    request_.chat = chat_.text();
    return std::move(request_);
  }

 private:
  void ignore(std::string place) { request_.ignored.push_back(std::move(place)); }

  Result<void> check_fields() {
    for (const JsonValue field : root_) {
      const std::string_view name = field.key();
      if (field.is(JsonKind::kNull) || is_passed_on(name) || is_one_of(name, kKnown) ||
          is_one_of(name, kAlsoPassedOn)) {
        continue;
      }
      if (is_one_of(name, kIgnored)) {
        ignore(std::string(name));
        continue;
      }
      return untranslatable(name, "a chat completion has no such field; leave it out");
    }
    return {};
  }

  Result<void> check_what_is_not_offered() {
    AFI_TRY(const bool background, flag_field(root_["background"], "background"));
    if (background) return untranslatable("background", "ask without it, and read the response");
    const JsonValue truncation = root_["truncation"];
    // The model gets the whole conversation, or the answer is an error that says that it is too long.
    if (truncation.text() == "auto") {
      ignore("truncation");
    } else if (!truncation.is_none() && truncation.text() != "disabled") {
      return wrong_field("truncation", "must be auto or disabled");
    }
    if (root_["top_logprobs"].count().value_or(0) > 0) {
      return untranslatable("top_logprobs", "ask /v1/chat/completions for log probabilities");
    }
    std::size_t index = 0;
    for (const JsonValue wanted : root_["include"]) {
      if (wanted.text() == "message.output_text.logprobs") {
        return untranslatable("include", "ask /v1/chat/completions for log probabilities");
      }
      // Reasoning is returned in clear; the others are of tools that do not run here.
      const std::string place = element("include", index++);
      if (wanted.text() != "reasoning.encrypted_content") ignore(place);
    }
    return {};
  }

  Result<void> read_input() {
    const JsonValue instructions = root_["instructions"];
    std::string system;
    bool is_said = !instructions.is_none();
    if (is_said) {
      AFI_TRY(const std::string_view text, text_field(instructions, "instructions"));
      system = keeps_billing_lines_ ? text : without_volatile_line(text);
      if (system.size() != text.size()) {
        ignore("instructions");
        ++request_.billing_lines;
      }
      is_said = system.size() == text.size() || !system.empty();
    }
    AFI_TRY_VOID(read_previous(root_["previous_response_id"]));
    InputItems items(files_, id_, !request_.previous_id.empty(), tools_, request_.ignored,
                     keeps_billing_lines_);
    AFI_TRY_VOID(items.read(root_["input"]));
    request_.billing_lines += items.billing_lines();
    request_.first_instructions += items.instructions();
    if (!request_.messages.empty() && !items.messages().empty()) request_.messages += ',';
    request_.messages += items.messages();
    request_.items = items.items();
    if (request_.messages.empty() && request_.first_instructions.empty()) {
      return wrong_field("input", "must not be empty");
    }
    if (!system.empty() && !request_.first_instructions.empty()) system += "\n\n";
    system += request_.first_instructions;
    JsonArray all;
    if (!system.empty() || is_said) {
      all.add(JsonObject().add_text("role", "system").add_text("content", system).text());
    }
    if (!request_.messages.empty()) all.add(request_.messages);
    chat_.add("messages", all.text());
    return {};
  }

  Result<void> read_previous(const JsonValue& previous) {
    if (previous.is_none()) return {};
    AFI_TRY(const std::string_view id, text_field(previous, "previous_response_id"));
    const auto found = responses_(id);
    if (!found.has_value()) {
      return fail(found.error().code, "previous_response_id: " + found.error().message);
    }
    request_.previous_id = id;
    request_.messages = (*found)->messages;
    request_.first_instructions = (*found)->first_instructions;
    return {};
  }

  Result<void> read_generation() {
    if (!root_["max_output_tokens"].is_none()) {
      AFI_TRY_VOID(check_count(root_["max_output_tokens"], "max_output_tokens"));
      chat_.add_value("max_tokens", root_["max_output_tokens"]);
    }
    for (const std::string_view name : {"temperature", "top_p"}) {
      AFI_TRY_VOID(check_number(root_[name], name));
      if (!root_[name].is_none()) chat_.add_value(name, root_[name]);
    }
    for (const std::string_view name : {"user", "safety_identifier", "prompt_cache_key"}) {
      if (root_[name].is_none()) continue;
      AFI_TRY_VOID(text_field(root_[name], name));
      chat_.add_value(name, root_[name]);
    }
    const std::string_view tier = root_["service_tier"].text();
    if (!tier.empty() && tier != "auto" && tier != "default") chat_.add_text("service_tier", tier);
    return {};
  }

  Result<void> read_tools() {
    if (!tools_.is_empty()) chat_.add("tools", tools_.json());
    request_.tools = tools_.tools();
    AFI_TRY_VOID(read_tool_choice(root_["tool_choice"]));
    const JsonValue parallel = root_["parallel_tool_calls"];
    AFI_TRY_VOID(flag_field(parallel, "parallel_tool_calls"));
    if (!parallel.is_none()) chat_.add_value("parallel_tool_calls", parallel);
    return {};
  }

  Result<void> read_tool_choice(const JsonValue& choice) {
    if (choice.is_none()) return {};
    if (choice.is(JsonKind::kString)) {
      const std::string_view text = choice.text();
      if (text != "auto" && text != "none" && text != "required") {
        return wrong_field("tool_choice", "must be auto, none, required or a function");
      }
      // Without tools there is nothing to choose, and servers refuse the field.
      if (!tools_.is_empty() || text == "required") chat_.add_text("tool_choice", text);
      return {};
    }
    const std::string_view type = choice["type"].text();
    if (type != "function" && type != "custom") {
      return untranslatable("tool_choice.type", "only functions and custom tools are offered");
    }
    AFI_TRY_VOID(check_members(choice, "tool_choice", {"type", "name", "namespace"}));
    AFI_TRY(const std::string_view own, text_field(choice["name"], "tool_choice.name"));
    const std::string name = chat_tool_name(choice["namespace"].text(), own);
    chat_.add("tool_choice", JsonObject()
                                 .add_text("type", "function")
                                 .add("function", JsonObject().add_text("name", name).text())
                                 .text());
    return {};
  }

  Result<void> read_text() {
    const JsonValue text = root_["text"];
    if (text.is_none()) return {};
    AFI_TRY_VOID(check_members(text, "text", {"format", "verbosity"}));
    if (!text["verbosity"].is_none()) {
      AFI_TRY_VOID(text_field(text["verbosity"], "text.verbosity"));
      chat_.add_value("verbosity", text["verbosity"]);
    }
    const JsonValue format = text["format"];
    const std::string_view type = format["type"].text();
    if (format.is_none() || type == "text") return {};
    if (type == "json_object") {
      chat_.add("response_format", R"({"type":"json_object"})");
      return {};
    }
    if (type != "json_schema") {
      return wrong_field("text.format.type", "must be text, json_object or json_schema");
    }
    AFI_TRY_VOID(
        check_members(format, "text.format", {"type", "name", "schema", "strict", "description"}));
    AFI_TRY_VOID(text_field(format["name"], "text.format.name"));
    if (!format["schema"].is(JsonKind::kObject)) {
      return wrong_field("text.format.schema", "must be an object");
    }
    JsonObject schema;
    for (const std::string_view member : {"name", "description", "schema", "strict"}) {
      if (!format[member].is_none()) schema.add_value(member, format[member]);
    }
    chat_.add(
        "response_format",
        JsonObject().add_text("type", "json_schema").add("json_schema", schema.text()).text());
    return {};
  }

  Result<void> read_reasoning() {
    const JsonValue reasoning = root_["reasoning"];
    if (reasoning.is_none()) return {};
    AFI_TRY_VOID(check_members(reasoning, "reasoning", {"effort", "summary", "generate_summary"}));
    // Reasoning is returned as it is.
    for (const std::string_view member : {"summary", "generate_summary"}) {
      const bool asks = !reasoning[member].is_none() && reasoning[member].text() != "auto";
      if (asks) ignore("reasoning." + std::string(member));
    }
    if (reasoning["effort"].is_none()) return {};
    AFI_TRY_VOID(text_field(reasoning["effort"], "reasoning.effort"));
    chat_.add_value("reasoning_effort", reasoning["effort"]);
    return {};
  }

  /// The response repeats these members of the request.
  Result<void> read_metadata() {
    const JsonValue metadata = root_["metadata"];
    if (!metadata.is_none() && !metadata.is(JsonKind::kObject)) {
      return wrong_field("metadata", "must be an object");
    }
    constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kDefaults{
        {{"instructions", "null"},
         {"max_output_tokens", "null"},
         {"metadata", "{}"},
         {"parallel_tool_calls", "true"},
         {"previous_response_id", "null"},
         {"prompt_cache_key", "null"},
         {"reasoning", R"({"effort":null,"summary":null})"},
         {"safety_identifier", "null"},
         {"temperature", "null"},
         {"text", R"({"format":{"type":"text"}})"},
         {"tool_choice", "\"auto\""},
         {"tools", "[]"},
         {"top_p", "null"},
         {"user", "null"}}};
    JsonObject echo;
    for (const auto& [name, otherwise] : kDefaults) {
      const JsonValue value = root_[name];
      if (value.is_none()) {
        echo.add(name, otherwise);
      } else {
        echo.add_value(name, value);
      }
    }
    echo.add("truncation", "\"disabled\"").add("background", "false");
    const std::string text = echo.text();
    request_.echo = text.substr(1, text.size() - 2);
    return {};
  }

  /// Caches here need no breakpoints, and entries live as the operator says.
  Result<void> read_cache_options(const JsonValue& options) {
    if (options.is_none()) return {};
    if (!options.is(JsonKind::kObject)) {
      return wrong_field("prompt_cache_options", "must be an object");
    }
    for (const JsonValue option : options) {
      if (option.is_none()) continue;
      const std::string place = "prompt_cache_options." + std::string(option.key());
      if (option.key() == "comparison_response_id") {
        AFI_TRY(request_.comparison_id, text_field(option, place));
      } else {
        ignore(place);
      }
    }
    return {};
  }

  JsonValue root_;
  const FileLookup& files_;
  const ResponseLookup& responses_;
  std::string_view id_;
  bool keeps_billing_lines_;
  JsonObject chat_;
  ResponsesRequest request_;
  ChatTools tools_{request_.ignored};
};

}  // namespace

Result<ResponsesRequest> read_responses_request(std::string_view body, const FileLookup& files,
                                                const ResponseLookup& responses,
                                                std::string_view id, bool keeps_billing_lines) {
  JsonReader json;
  const auto root = json.read(body);
  if (!root.has_value())
    return wrong_field("the body", "cannot be parsed: " + root.error().message);
  if (!root->is(JsonKind::kObject)) return wrong_field("the body", "must be a JSON object");
  return Reading(*root, files, responses, id, keeps_billing_lines).run();
}

}  // namespace afterimage
