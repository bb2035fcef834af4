// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/anthropic/messages_translation.h"

#include <algorithm>
#include <utility>

#include "foundation/json/json_writer.h"

namespace afterimage {
namespace {

std::string_view error_type_of(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 402:
      return "billing_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string error_json(std::string_view type, std::string_view message) {
  return JsonObject().add_text("type", type).add_text("message", message).text();
}

bool is_object(std::string_view json) {
  JsonReader reader;
  const auto root = reader.read(json);
  return root.has_value() && root->is(JsonKind::kObject);
}

}  // namespace

std::string anthropic_error(unsigned status, std::string_view message,
                            std::string_view request_id) {
  JsonObject body;
  body.add_text("type", "error").add("error", error_json(error_type_of(status), message));
  if (!request_id.empty()) body.add_text("request_id", request_id);
  return body.text();
}

Result<std::string> MessagesTranslation::request(std::string_view body,
                                                 const ClientContext& context) {
  AFI_TRY(asked_, read_messages_request(body, context.files, MessagesUse::kAnswer,
                                        context.keeps_billing_lines));
  return std::exchange(asked_.chat, {});
}

std::optional<Translation::Comparison> MessagesTranslation::comparison() const {
  if (!asked_.diagnosed_with.has_value()) return std::nullopt;
  return Comparison{.response_id = *asked_.diagnosed_with};
}

std::string MessagesTranslation::error_body(unsigned status, std::string_view message,
                                            std::string_view /*code*/,
                                            std::string_view request_id) const {
  return anthropic_error(status, message, request_id);
}

void MessagesTranslation::on_begin(std::string_view model) {
  model_ = model.empty() ? asked_.model : std::string(model);
  say("message_start",
      JsonObject().add_text("type", "message_start").add("message", message_json(false)).text());
}

void MessagesTranslation::on_reasoning(std::string_view text) {
  if (asked_.shows_reasoning && !asked_.only_prefills) add_text(BlockKind::kThinking, text);
}

void MessagesTranslation::on_text(std::string_view text) {
  if (!asked_.only_prefills) add_text(BlockKind::kText, text);
}

void MessagesTranslation::on_usage(const TokenUsage& usage) {
  usage_ = usage;
  if (asked_.only_prefills) usage_.output = 0;
}

void MessagesTranslation::on_refusal(std::string_view text) {
  if (asked_.only_prefills) return;
  refused_ = true;
  add_text(BlockKind::kText, text);
}

void MessagesTranslation::add_text(BlockKind kind, std::string_view text) {
  if (!is_open_ || blocks_.back().kind != kind) open({.kind = kind});
  blocks_.back().text += text;
  if (kind == BlockKind::kText) {
    say_delta("text_delta", "text", text);
  } else {
    say_delta("thinking_delta", "thinking", text);
  }
}

Result<void> MessagesTranslation::on_call(const AnswerCall& call) {
  if (asked_.only_prefills) return {};
  const auto known = std::ranges::find_if(blocks_, [&](const Block& block) {
    return block.kind == BlockKind::kCall && block.call == call.index;
  });
  if (known == blocks_.end()) {
    open(
        {.kind = BlockKind::kCall,
         .text = {},
         .call = call.index,
         .id = call.id.empty() ? "toolu_" + id_ + std::to_string(call.index) : std::string(call.id),
         .name = std::string(call.name)});
  } else if (known + 1 != blocks_.end() || !is_open_) {
    return fail(ErrorCode::kInvalidArgument,
                "the model's server goes on with a tool call after other content");
  }
  if (call.arguments.empty()) return {};
  blocks_.back().text += call.arguments;
  say_delta("input_json_delta", "partial_json", call.arguments);
  return {};
}

void MessagesTranslation::on_finish(std::string_view reason, std::string_view stop) {
  reason_ = asked_.only_prefills ? "length" : reason;
  if (std::ranges::find(asked_.stops, stop) != asked_.stops.end()) stop_ = stop;
}

void MessagesTranslation::open(Block block) {
  close();
  blocks_.push_back(std::move(block));
  is_open_ = true;
  if (!asked_.stream) return;
  const Block& begun = blocks_.back();
  JsonObject content;
  if (begun.kind == BlockKind::kText) {
    content.add_text("type", "text").add_text("text", "");
  } else if (begun.kind == BlockKind::kThinking) {
    content.add_text("type", "thinking").add_text("thinking", "").add_text("signature", "");
  } else {
    content.add_text("type", "tool_use").add_text("id", begun.id).add_text("name", begun.name);
    content.add("input", "{}");
  }
  say("content_block_start", JsonObject()
                                 .add_text("type", "content_block_start")
                                 .add_number("index", blocks_.size() - 1)
                                 .add("content_block", content.text())
                                 .text());
  if (blocks_.size() == 1) say("ping", R"({"type":"ping"})");
}

void MessagesTranslation::close() {
  if (!std::exchange(is_open_, false)) return;
  say("content_block_stop", JsonObject()
                                .add_text("type", "content_block_stop")
                                .add_number("index", blocks_.size() - 1)
                                .text());
}

void MessagesTranslation::say_delta(std::string_view type, std::string_view member,
                                    std::string_view text) {
  if (!asked_.stream) return;
  say("content_block_delta",
      JsonObject()
          .add_text("type", "content_block_delta")
          .add_number("index", blocks_.size() - 1)
          .add("delta", JsonObject().add_text("type", type).add_text(member, text).text())
          .text());
}

void MessagesTranslation::say(std::string_view type, std::string_view data) {
  if (!asked_.stream) return;
  events_.append("event: ").append(type).append("\ndata: ").append(data).append("\n\n");
}

std::string MessagesTranslation::take_events() { return std::exchange(events_, {}); }

/// The arguments of each call are an object, as the input of a tool_use block must be.
Result<void> MessagesTranslation::check_calls() {
  for (const Block& block : blocks_) {
    if (block.kind != BlockKind::kCall || block.text.empty() || is_object(block.text)) continue;
    // The answer says that it was truncated; half a call is of no use.
    if (reason_ == "length") continue;
    return fail(ErrorCode::kInvalidArgument,
                "the model called " + block.name + " with arguments that are not a JSON object");
  }
  return {};
}

std::string MessagesTranslation::usage_json() const {
  return JsonObject()
      .add_number("input_tokens", usage_.prompt - std::min(usage_.cached, usage_.prompt))
      .add_number("cache_creation_input_tokens", 0)
      .add_number("cache_read_input_tokens", usage_.cached)
      .add_number("output_tokens", usage_.output)
      .text();
}

std::string MessagesTranslation::stop_json() const {
  std::string_view reason = "end_turn";
  if (refused_ || reason_ == "content_filter") reason = "refusal";
  if (reason_ == "length") reason = "max_tokens";
  if (reason_ == "tool_calls" || reason_ == "function_call") reason = "tool_use";
  if (!stop_.empty()) reason = "stop_sequence";
  JsonObject stop;
  stop.add_text("stop_reason", reason);
  stop.add("stop_sequence", stop_.empty() ? "null" : json_string(stop_));
  return stop.text();
}

std::string MessagesTranslation::message_json(bool is_complete) const {
  JsonArray content;
  for (const Block& block : blocks_) {
    JsonObject json;
    if (block.kind == BlockKind::kText) {
      json.add_text("type", "text").add_text("text", block.text);
    } else if (block.kind == BlockKind::kThinking) {
      json.add_text("type", "thinking").add_text("thinking", block.text).add_text("signature", "");
    } else {
      if (!block.text.empty() && !is_object(block.text)) continue;  // truncated
      json.add_text("type", "tool_use").add_text("id", block.id).add_text("name", block.name);
      json.add("input", block.text.empty() ? "{}" : block.text);
    }
    content.add(json.text());
  }
  JsonObject message;
  message.add_text("id", response_id())
      .add_text("type", "message")
      .add_text("role", "assistant")
      .add_text("model", model_)
      .add("content", content.text());
  const std::string stop =
      is_complete ? stop_json() : R"({"stop_reason":null,"stop_sequence":null})";
  // The members of both objects, and then the usage.
  std::string text = message.text();
  text.back() = ',';
  text.append(std::string_view(stop).substr(1, stop.size() - 2));
  text += ",\"usage\":" + usage_json();
  if (comparison().has_value()) {
    text += ",\"diagnostics\":" + messages_diagnostics(diagnosis(), usage_.prompt);
  }
  return text + "}";
}

Result<std::string> MessagesTranslation::finish() {
  AFI_TRY_VOID(check_calls());
  if (!asked_.stream) return message_json(true);
  close();
  say("message_delta", JsonObject()
                           .add_text("type", "message_delta")
                           .add("delta", stop_json())
                           .add("usage", usage_json())
                           .text());
  say("message_stop", R"({"type":"message_stop"})");
  return take_events();
}

std::string MessagesTranslation::failure_event(const Error& error) {
  if (!asked_.stream) return anthropic_error(502, error.message, "");
  say("error", JsonObject()
                   .add_text("type", "error")
                   .add("error", error_json("api_error", error.message))
                   .text());
  return take_events();
}

}  // namespace afterimage
