// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/responses/responses_translation.h"

#include <algorithm>
#include <utility>

#include "gateway/openai/record.h"
#include "gateway/responses/input_items.h"

namespace afterimage {
namespace {

std::string_view error_type_of(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

/// The text for a custom tool. A model that wrote no such object meant the text itself.
std::string input_of(std::string_view arguments) {
  JsonReader reader;
  const auto root = reader.read(arguments);
  if (!root.has_value()) return std::string(arguments);
  const JsonValue input = (*root)["input"];
  return std::string(input.is(JsonKind::kString) ? input.text() : arguments);
}

bool is_object(std::string_view json) {
  JsonReader reader;
  const auto root = reader.read(json);
  return root.has_value() && root->is(JsonKind::kObject);
}

/// The members of an object without its braces.
std::string inside(const JsonObject& object) {
  const std::string text = object.text();
  return text.substr(1, text.size() - 2);
}

}  // namespace

Result<std::string> ResponsesTranslation::request(std::string_view body,
                                                  const ClientContext& context) {
  tenant_ = context.tenant;
  const auto find = [&](std::string_view id) { return store_.find(tenant_, id); };
  AFI_TRY(asked_,
          read_responses_request(body, context.files, find, id_, context.keeps_billing_lines));
  return std::exchange(asked_.chat, {});
}

std::string ResponsesTranslation::error_body(unsigned status, std::string_view message,
                                             std::string_view code,
                                             std::string_view /*request_id*/) const {
  return api_error(message, error_type_of(status), code);
}

void ResponsesTranslation::on_begin(std::string_view model) {
  model_ = model.empty() ? asked_.model : std::string(model);
  const std::string begun = response_json("in_progress", "null");
  say_response("response.created", begun);
  say_response("response.in_progress", begun);
}

void ResponsesTranslation::on_reasoning(std::string_view text) {
  add_text(ItemKind::kReasoning, {.type = "reasoning_text", .member = "text", .text = {}}, text);
}

void ResponsesTranslation::on_text(std::string_view text) {
  add_text(ItemKind::kMessage, {.type = "output_text", .member = "text", .text = {}}, text);
}

void ResponsesTranslation::on_refusal(std::string_view text) {
  add_text(ItemKind::kMessage, {.type = "refusal", .member = "refusal", .text = {}}, text);
}

void ResponsesTranslation::add_text(ItemKind kind, const Part& part, std::string_view text) {
  if (!is_open_ || items_.back().kind != kind) {
    const std::string_view prefix = kind == ItemKind::kMessage ? "msg_" : "rs_";
    open({.kind = kind, .id = std::string(prefix) + id_ + "_" + std::to_string(items_.size())});
  }
  Item& item = items_.back();
  if (!part_is_open_ || item.parts.back().type != part.type) {
    close_part();
    item.parts.push_back(part);
    part_is_open_ = true;
    say("response.content_part.added", place(true) + ",\"part\":" + part_json(item.parts.back()));
  }
  item.parts.back().text += text;
  JsonObject delta;
  delta.add_text("delta", text);
  if (part.type == "output_text") delta.add("logprobs", "[]");
  say("response." + std::string(part.type) + ".delta", place(true) + "," + inside(delta));
}

Result<void> ResponsesTranslation::on_call(const AnswerCall& call) {
  const auto known = std::ranges::find_if(items_, [&](const Item& item) {
    return item.kind == ItemKind::kCall && item.call == call.index;
  });
  if (known == items_.end()) {
    open(new_call(call));
  } else if (known + 1 != items_.end() || !is_open_) {
    return fail(ErrorCode::kInvalidArgument,
                "the model's server goes on with a tool call after other content");
  }
  if (call.arguments.empty()) return {};
  items_.back().arguments += call.arguments;
  // The text of a custom tool is within the arguments: it is said when they are complete.
  if (items_.back().tool.kind != ResponsesTool::Kind::kFunction) return {};
  say("response.function_call_arguments.delta",
      place(false) + "," + inside(JsonObject().add_text("delta", call.arguments)));
  return {};
}

ResponsesTranslation::Item ResponsesTranslation::new_call(const AnswerCall& call) const {
  const auto known = asked_.tools.find(call.name);
  // The server checks names, or the client does: an unknown one is a function's.
  ResponsesTool tool = known != asked_.tools.end()
                           ? known->second
                           : ResponsesTool{.space = {}, .name = std::string(call.name)};
  const std::string_view prefix = tool.kind == ResponsesTool::Kind::kCustom   ? "ctc_"
                                  : tool.kind == ResponsesTool::Kind::kSearch ? "tsc_"
                                                                              : "fc_";
  return {.kind = ItemKind::kCall,
          .id = std::string(prefix) + id_ + "_" + std::to_string(items_.size()),
          .parts = {},
          .call = call.index,
          .call_id =
              call.id.empty() ? "call_" + id_ + std::to_string(call.index) : std::string(call.id),
          .name = std::string(call.name),
          .tool = std::move(tool),
          .arguments = {}};
}

void ResponsesTranslation::on_finish(std::string_view reason, std::string_view /*stop*/) {
  reason_ = reason;
}

void ResponsesTranslation::on_usage(const TokenUsage& usage) {
  has_usage_ = true;
  usage_ = usage;
}

void ResponsesTranslation::open(Item item) {
  close();
  items_.push_back(std::move(item));
  is_open_ = true;
  say("response.output_item.added", "\"output_index\":" + std::to_string(items_.size() - 1) +
                                        ",\"item\":" + item_json(items_.back(), "in_progress"));
}

void ResponsesTranslation::close_part() {
  if (!std::exchange(part_is_open_, false)) return;
  const Part& part = items_.back().parts.back();
  JsonObject done;
  done.add_text(part.member, part.text);
  if (part.type == "output_text") done.add("logprobs", "[]");
  say("response." + std::string(part.type) + ".done", place(true) + "," + inside(done));
  say("response.content_part.done", place(true) + ",\"part\":" + part_json(part));
}

void ResponsesTranslation::close() {
  close_part();
  if (!std::exchange(is_open_, false)) return;
  const Item& item = items_.back();
  if (item.kind == ItemKind::kCall) close_call(item);
  say("response.output_item.done", "\"output_index\":" + std::to_string(items_.size() - 1) +
                                       ",\"item\":" + item_json(item, "completed"));
}

void ResponsesTranslation::close_call(const Item& item) {
  JsonObject done;
  if (item.tool.kind == ResponsesTool::Kind::kFunction) {
    done.add_text("name", item.tool.name).add_text("arguments", item.arguments);
    say("response.function_call_arguments.done", place(false) + "," + inside(done));
  } else if (item.tool.kind == ResponsesTool::Kind::kCustom) {
    const std::string input = input_of(item.arguments);
    say("response.custom_tool_call_input.delta",
        place(false) + "," + inside(JsonObject().add_text("delta", input)));
    done.add_text("input", input);
    say("response.custom_tool_call_input.done", place(false) + "," + inside(done));
  }
}

void ResponsesTranslation::say(std::string_view type, std::string_view members) {
  if (!asked_.stream) return;
  events_.append("event: ").append(type).append("\ndata: {\"type\":\"").append(type);
  events_.append("\",\"sequence_number\":").append(std::to_string(sequence_++)).append(",");
  events_.append(members).append("}\n\n");
}

std::string ResponsesTranslation::place(bool of_part) const {
  std::string text = "\"item_id\":" + json_string(items_.back().id) +
                     ",\"output_index\":" + std::to_string(items_.size() - 1);
  if (of_part) text += ",\"content_index\":" + std::to_string(items_.back().parts.size() - 1);
  return text;
}

std::string ResponsesTranslation::part_json(const Part& part) {
  JsonObject json;
  json.add_text("type", part.type).add_text(part.member, part.text);
  if (part.type == "output_text") json.add("annotations", "[]").add("logprobs", "[]");
  return json.text();
}

void ResponsesTranslation::add_call(JsonObject& json, const Item& item, std::string_view status) {
  const bool is_begun = status == "in_progress";
  switch (item.tool.kind) {
    case ResponsesTool::Kind::kFunction:
      json.add_text("type", "function_call");
      break;
    case ResponsesTool::Kind::kCustom:
      json.add_text("type", "custom_tool_call");
      break;
    case ResponsesTool::Kind::kSearch:
      json.add_text("type", "tool_search_call").add_text("execution", "client");
      break;
  }
  json.add_text("status", status).add_text("call_id", item.call_id);
  if (item.tool.kind == ResponsesTool::Kind::kSearch) {
    json.add("arguments", is_begun || !is_object(item.arguments) ? "{}" : item.arguments);
    return;
  }
  json.add_text("name", item.tool.name);
  if (!item.tool.space.empty()) json.add_text("namespace", item.tool.space);
  if (item.tool.kind == ResponsesTool::Kind::kCustom) {
    json.add_text("input", is_begun ? "" : input_of(item.arguments));
  } else {
    json.add_text("arguments", item.arguments);
  }
}

std::string ResponsesTranslation::item_json(const Item& item, std::string_view status) {
  JsonObject json;
  json.add_text("id", item.id);
  JsonArray parts;
  for (const Part& part : item.parts) parts.add(part_json(part));
  switch (item.kind) {
    case ItemKind::kReasoning:
      json.add_text("type", "reasoning").add("summary", "[]").add("content", parts.text());
      break;
    case ItemKind::kMessage:
      json.add_text("type", "message").add_text("status", status).add_text("role", "assistant");
      json.add("content", parts.text());
      break;
    case ItemKind::kCall:
      add_call(json, item, status);
      break;
  }
  return json.text();
}

std::string ResponsesTranslation::response_json(std::string_view status,
                                                std::string_view error) const {
  JsonArray output;
  for (const Item& item : items_) {
    const bool is_cut = status != "completed" && &item == &items_.back();
    output.add(item_json(item, is_cut ? "incomplete" : "completed"));
  }
  std::string incomplete = "null";
  if (status == "incomplete") {
    incomplete = reason_ == "length" ? R"({"reason":"max_output_tokens"})"
                                     : R"({"reason":"content_filter"})";
  }
  JsonObject head;
  head.add_text("id", response_id())
      .add_text("object", "response")
      .add_number("created_at", static_cast<std::uint64_t>(created_))
      .add_text("status", status)
      .add("error", error)
      .add("incomplete_details", incomplete)
      .add_text("model", model_)
      .add("output", output.text())
      .add("store", asked_.store && store_.is_enabled() ? "true" : "false");
  std::string usage = "null";
  if (has_usage_) {
    usage = JsonObject()
                .add_number("input_tokens", usage_.prompt)
                .add("input_tokens_details", JsonObject()
                                                 .add_number("cached_tokens", usage_.cached)
                                                 .add_number("cache_write_tokens", 0)
                                                 .text())
                .add_number("output_tokens", usage_.output)
                .add("output_tokens_details",
                     JsonObject().add_number("reasoning_tokens", usage_.reasoning).text())
                .add_number("total_tokens", usage_.prompt + usage_.output)
                .text();
  }
  std::string diagnostics;
  if (comparison().has_value()) {
    diagnostics =
        ",\"prompt_cache_diagnostics\":" + responses_diagnostics(diagnosis(), usage_.prompt);
  }
  return "{" + inside(head) + "," + asked_.echo + diagnostics + ",\"usage\":" + usage + "}";
}

std::optional<Translation::Comparison> ResponsesTranslation::comparison() const {
  if (asked_.comparison_id.empty()) return std::nullopt;
  return Comparison{.response_id = asked_.comparison_id};
}

void ResponsesTranslation::say_response(std::string_view type, const std::string& response) {
  say(type, "\"response\":" + response);
}

std::string ResponsesTranslation::take_events() { return std::exchange(events_, {}); }

/// With what the assistant said as the next message of the conversation.
void ResponsesTranslation::keep(const std::string& response) {
  if (!asked_.store) return;
  ChatContent content;
  std::string text;
  std::string refusal;
  std::string reasoning;
  JsonArray calls;
  for (const Item& item : items_) {
    for (const Part& part : item.parts) {
      (part.type == "output_text" ? text
       : part.type == "refusal"   ? refusal
                                  : reasoning) += part.text;
    }
    if (item.kind == ItemKind::kCall) calls.add(chat_call(item.call_id, item.name, item.arguments));
  }
  if (!text.empty()) content.add_text(text);
  std::string messages = asked_.messages;
  if (!content.is_empty() || !refusal.empty() || !calls.is_empty()) {
    messages += "," + assistant_message(content.json(), refusal, reasoning, calls);
  }
  store_.put(tenant_, response_id(),
             {.response = response,
              .items = asked_.items,
              .messages = std::move(messages),
              .first_instructions = asked_.first_instructions});
}

Result<std::string> ResponsesTranslation::finish() {
  close();
  const bool is_complete = reason_ != "length" && reason_ != "content_filter";
  const std::string_view status = is_complete ? "completed" : "incomplete";
  std::string response = response_json(status, "null");
  // Before the client reads the end: it may name the response at once.
  keep(response);
  if (!asked_.stream) return response;
  say_response("response." + std::string(status), response);
  return take_events();
}

std::string ResponsesTranslation::failure_event(const Error& error) {
  if (!asked_.stream) return error_body(502, error.message, "upstream_failed", "");
  const std::string why =
      JsonObject().add_text("code", "server_error").add_text("message", error.message).text();
  say_response("response.failed", response_json("failed", why));
  return take_events();
}

}  // namespace afterimage
