// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/anthropic/messages_request.h"

#include <algorithm>

#include "gateway/anthropic/content_blocks.h"
#include "gateway/protocol/fields.h"

namespace afterimage {
namespace {

/// Fields that have no influence on what the model says next: wishes about the client's own service,
/// which edits old turns.
constexpr auto kIgnored = std::to_array<std::string_view>({"betas", "context_management", "speed"});

/// Tools that Anthropic's servers run; a chat completion's server cannot.
constexpr auto kServerTools = std::to_array<std::string_view>(
    {"web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_"});

class Reading {
 public:
  Reading(const JsonValue& root, const FileLookup& files, MessagesUse use, bool keeps_billing_lines)
      : root_(root),
        context_{.files = files,
                 .ignored = request_.ignored,
                 .billing_lines = request_.billing_lines,
                 .keeps_billing_lines = keeps_billing_lines},
        use_(use) {}

  Result<MessagesRequest> run() && {
    AFI_TRY_VOID(check_fields());
    AFI_TRY(const std::string_view model, text_field(root_["model"], "model"));
    if (model.empty()) return wrong_field("model", "must be a non-empty string");
    request_.model = model;
    chat_.add_text("model", model);
    AFI_TRY_VOID(read_messages());
    AFI_TRY_VOID(read_generation());
    AFI_TRY_VOID(read_tools());
    AFI_TRY_VOID(read_output());
    AFI_TRY_VOID(read_thinking());
    AFI_TRY_VOID(read_metadata());
    AFI_TRY_VOID(read_diagnostics(root_["diagnostics"]));
    for (const JsonValue field : root_) {
      if (is_passed_on(field.key())) chat_.add_value(field.key(), field);
    }
    AFI_TRY(request_.stream, flag_field(root_["stream"], "stream"));
    if (request_.stream)
      chat_.add("stream", "true").add("stream_options", R"({"include_usage":true})");
    request_.chat = chat_.text();
    return std::move(request_);
  }

 private:
  Result<void> check_fields() {
    static constexpr auto kKnown = std::to_array<std::string_view>(
        {"model", "messages", "max_tokens", "system", "stop_sequences", "stream", "temperature",
         "top_p", "top_k", "tools", "tool_choice", "metadata", "thinking", "output_config",
         "output_format", "service_tier", "cache_control", "diagnostics"});
    for (const JsonValue field : root_) {
      const std::string_view name = field.key();
      if (field.is(JsonKind::kNull) || is_passed_on(name) ||
          std::ranges::find(kKnown, name) != kKnown.end()) {
        continue;
      }
      if (std::ranges::find(kIgnored, name) != kIgnored.end()) {
        ignore(std::string(name));
        continue;
      }
      return untranslatable(name, "a chat completion has no such field; leave it out");
    }
    return {};
  }
  void ignore(std::string place) { request_.ignored.push_back(std::move(place)); }

  Result<void> read_messages() {
    ChatMessages messages;
    AFI_TRY_VOID(add_system(root_["system"], context_, messages));
    const JsonValue list = root_["messages"];
    if (!list.is(JsonKind::kArray) || list.is_empty()) {
      return wrong_field("messages", "must be a non-empty list of messages");
    }
    std::size_t index = 0;
    std::string_view role;
    for (const JsonValue message : list) {
      AFI_TRY_VOID(add_message(message, element("messages", index++), context_, messages));
      role = message["role"].text();
    }
    chat_.add("messages", messages.text());
    // The answer goes on from the beginning that the last message gives.
    if (role == "assistant") {
      chat_.add("add_generation_prompt", "false").add("continue_final_message", "true");
    }
    return {};
  }

  Result<void> read_generation() {
    if (use_ == MessagesUse::kAnswer) {
      AFI_TRY_VOID(read_max_tokens(root_["max_tokens"]));
    }
    for (const std::string_view name : {"temperature", "top_p", "top_k"}) {
      const JsonValue value = root_[name];
      AFI_TRY_VOID(check_number(value, name));
      if (!value.is_none()) chat_.add_value(name, value);
    }
    const JsonValue stops = root_["stop_sequences"];
    if (stops.is_none()) return {};
    if (!stops.is(JsonKind::kArray)) return wrong_field("stop_sequences", "must be a list");
    for (const JsonValue stop : stops) {
      AFI_TRY(const std::string_view text, text_field(stop, "stop_sequences[]"));
      request_.stops.emplace_back(text);
    }
    if (!stops.is_empty()) chat_.add_value("stop", stops);
    return {};
  }

  /// 0 asks for the prefill alone. Servers generate at least one token, and a stored answer would
  /// prefill nothing.
  Result<void> read_max_tokens(const JsonValue& value) {
    if (value.count() == 0U) {
      request_.only_prefills = true;
      chat_.add("max_tokens", "1");
      if (root_["cache"].is_none()) chat_.add("cache", R"({"no-cache":true,"no-store":true})");
      return {};
    }
    AFI_TRY_VOID(check_count(value, "max_tokens"));
    chat_.add_value("max_tokens", value);
    return {};
  }

  Result<void> read_tools() {
    const JsonValue tools = root_["tools"];
    if (!tools.is_none()) {
      if (!tools.is(JsonKind::kArray)) return wrong_field("tools", "must be a list of tools");
      JsonArray list;
      std::size_t index = 0;
      for (const JsonValue tool : tools) {
        AFI_TRY_VOID(add_tool(tool, element("tools", index++), list));
      }
      if (!list.is_empty()) chat_.add("tools", list.text());
    }
    return read_tool_choice(root_["tool_choice"]);
  }

  Result<void> add_tool(const JsonValue& tool, const std::string& place, JsonArray& list) {
    const JsonValue type = tool["type"];
    if (std::ranges::any_of(kServerTools, [&](auto own) { return type.text().starts_with(own); })) {
      ignore(place);
      return {};
    }
    if (!type.is_none() && type.text() != "custom") {
      return untranslatable(place + ".type", "the tool " + std::string(type.text()) +
                                                 " has a schema of Anthropic's; define a tool with "
                                                 "an input_schema");
    }
    AFI_TRY_VOID(check_members(
        tool, place,
        {"type", "name", "description", "input_schema", "cache_control", "strict",
         "eager_input_streaming", "defer_loading", "allowed_callers", "input_examples"}));
    for (const std::string_view member : {"defer_loading", "allowed_callers", "input_examples"}) {
      if (!tool[member].is_none()) ignore(place + "." + std::string(member));
    }
    AFI_TRY(const std::string_view name, text_field(tool["name"], place + ".name"));
    if (!tool["input_schema"].is(JsonKind::kObject)) {
      return wrong_field(place + ".input_schema", "must be an object");
    }
    JsonObject function;
    function.add_text("name", name);
    if (!tool["description"].is_none()) function.add_value("description", tool["description"]);
    function.add_value("parameters", tool["input_schema"]);
    if (!tool["strict"].is_none()) function.add_value("strict", tool["strict"]);
    list.add(JsonObject().add_text("type", "function").add("function", function.text()).text());
    tools_.push_back(name);
    return {};
  }
  [[nodiscard]] bool has_tool(std::string_view name) const {
    return std::ranges::find(tools_, name) != tools_.end();
  }

  Result<void> read_tool_choice(const JsonValue& choice) {
    if (choice.is_none()) return {};
    AFI_TRY_VOID(
        check_members(choice, "tool_choice", {"type", "name", "disable_parallel_tool_use"}));
    const std::string_view type = choice["type"].text();
    if (type == "tool") {
      AFI_TRY(const std::string_view name, text_field(choice["name"], "tool_choice.name"));
      if (!has_tool(name)) {
        return untranslatable("tool_choice.name", "no tool that a chat completion can have is '" +
                                                      std::string(name) + "'");
      }
      chat_.add("tool_choice", JsonObject()
                                   .add_text("type", "function")
                                   .add("function", JsonObject().add_text("name", name).text())
                                   .text());
    } else if (type == "auto" || type == "none") {
      // Without tools there is nothing to choose, and servers refuse the field.
      if (!tools_.empty()) chat_.add_text("tool_choice", type);
    } else if (type == "any") {
      chat_.add_text("tool_choice", "required");
    } else {
      return wrong_field("tool_choice.type", "must be auto, any, tool or none");
    }
    AFI_TRY(const bool one_only, flag_field(choice["disable_parallel_tool_use"],
                                            "tool_choice.disable_parallel_tool_use"));
    if (one_only) chat_.add("parallel_tool_calls", "false");
    return {};
  }

  /// The form of the answer, by either of its names, and the effort.
  Result<void> read_output() {
    const JsonValue config = root_["output_config"];
    JsonValue format = root_["output_format"];
    std::string place = "output_format";
    if (!config.is_none()) {
      AFI_TRY_VOID(check_members(config, "output_config", {"effort", "format"}));
      if (!config["effort"].is_none()) {
        AFI_TRY_VOID(read_effort(config["effort"].text()));
      }
      if (!config["format"].is_none()) {
        if (!format.is_none()) return wrong_field(place, "is given beside output_config.format");
        format = config["format"];
        place = "output_config.format";
      }
    }
    if (format.is_none()) return {};
    AFI_TRY_VOID(check_members(format, place, {"type", "schema"}));
    if (format["type"].text() != "json_schema" || !format["schema"].is(JsonKind::kObject)) {
      return wrong_field(place, R"(must be {"type": "json_schema", "schema": {…}})");
    }
    chat_.add("response_format", JsonObject()
                                     .add_text("type", "json_schema")
                                     .add("json_schema", JsonObject()
                                                             .add_text("name", "output")
                                                             .add_value("schema", format["schema"])
                                                             .add("strict", "true")
                                                             .text())
                                     .text());
    return {};
  }

  Result<void> read_effort(std::string_view effort) {
    if (effort == "max") {
      // The most that a chat completion can ask for.
      ignore("output_config.effort");
      effort = "xhigh";
    }
    if (effort != "low" && effort != "medium" && effort != "high" && effort != "xhigh") {
      return untranslatable("output_config.effort",
                            "a chat completion knows low, medium, high, xhigh and max");
    }
    chat_.add_text("reasoning_effort", effort);
    return {};
  }

  Result<void> read_thinking() {
    const JsonValue thinking = root_["thinking"];
    if (thinking.is_none()) return {};
    AFI_TRY_VOID(check_members(thinking, "thinking", {"type", "budget_tokens", "display"}));
    const std::string_view type = thinking["type"].text();
    if (type == "disabled") return {};
    // Nothing enforces it; max_tokens bounds both.
    if (!thinking["budget_tokens"].is_none()) ignore("thinking.budget_tokens");
    if (type != "adaptive" && type != "enabled") {
      return wrong_field("thinking.type", "must be adaptive, enabled or disabled");
    }
    const JsonValue display = thinking["display"];
    if (!display.is_none() && display.text() != "summarized" && display.text() != "omitted") {
      return wrong_field("thinking.display", "must be summarized or omitted");
    }
    request_.shows_reasoning = display.text() != "omitted";
    return {};
  }

  Result<void> read_metadata() {
    const JsonValue tier = root_["service_tier"];
    if (!tier.is_none() && tier.text() != "auto" && tier.text() != "standard_only") {
      return wrong_field("service_tier", "must be auto or standard_only");
    }
    const JsonValue metadata = root_["metadata"];
    if (metadata.is_none()) return {};
    if (!metadata.is(JsonKind::kObject)) return wrong_field("metadata", "must be an object");
    if (metadata["user_id"].is_none()) return {};
    AFI_TRY(const std::string_view user, text_field(metadata["user_id"], "metadata.user_id"));
    chat_.add_text("user", user);
    return {};
  }

  /// Null asks for nothing yet, and says that the next request may name this one's message.
  Result<void> read_diagnostics(const JsonValue& asked) {
    if (asked.is_none()) return {};
    AFI_TRY_VOID(check_members(asked, "diagnostics", {"previous_message_id"}));
    const JsonValue id = asked["previous_message_id"];
    if (id.is_none()) {
      request_.diagnosed_with = "";
      return {};
    }
    AFI_TRY(request_.diagnosed_with, text_field(id, "diagnostics.previous_message_id"));
    return {};
  }

  JsonValue root_;
  MessagesRequest request_;
  MessageContext context_;
  std::vector<std::string_view> tools_;  // names of those that the chat has
  MessagesUse use_;
  JsonObject chat_;
};

}  // namespace

Result<MessagesRequest> read_messages_request(std::string_view body, const FileLookup& files,
                                              MessagesUse use, bool keeps_billing_lines) {
  JsonReader json;
  const auto root = json.read(body);
  if (!root.has_value())
    return wrong_field("the body", "cannot be parsed: " + root.error().message);
  if (!root->is(JsonKind::kObject)) return wrong_field("the body", "must be a JSON object");
  return Reading(*root, files, use, keeps_billing_lines).run();
}

}  // namespace afterimage
