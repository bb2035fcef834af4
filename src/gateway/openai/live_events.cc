// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/live_events.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "afterimage/check.h"

namespace afterimage {
namespace {

using Json = nlohmann::ordered_json;

std::string event_of(const Json& json) {
  return "data: " + json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n";
}

}  // namespace

LiveEvents::LiveEvents(ApiOperation operation, ApiStamp stamp, std::string model)
    : operation_(operation), stamp_(std::move(stamp)), model_(std::move(model)) {
  AFI_CHECK(operation != ApiOperation::kEmbedding);
}

std::string LiveEvents::event(std::string_view text, std::string_view finish_reason) const {
  const bool is_chat = operation_ == ApiOperation::kChat;
  Json choice{{"index", 0}};
  if (is_chat) {
    choice["delta"] = Json::object();
    if (!text.empty()) choice["delta"]["content"] = text;
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason.empty() ? Json() : Json(finish_reason);
  return event_of(around(Json::array({choice})));
}

nlohmann::ordered_json LiveEvents::around(nlohmann::ordered_json choices) const {
  const bool is_chat = operation_ == ApiOperation::kChat;
  return {{"id", stamp_.id},
          {"object", is_chat ? "chat.completion.chunk" : "text_completion"},
          {"created", stamp_.created},
          {"model", model_},
          {"choices", std::move(choices)}};
}

std::string LiveEvents::begin() {
  if (begun_ || operation_ != ApiOperation::kChat) return "";
  begun_ = true;
  const Json role{{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}};
  return event_of(around(Json::array(
      {{{"index", 0}, {"delta", role}, {"logprobs", nullptr}, {"finish_reason", nullptr}}})));
}

std::string LiveEvents::text(std::string_view more) {
  std::string events = begin();
  return events.append(event(more, ""));
}

std::string LiveEvents::end(const PlainAnswer& answer, bool include_usage) {
  std::string events = begin();
  events.append(event("", answer.finish_reason));
  if (include_usage) {
    Json usage = around(Json::array());
    const std::uint64_t prompt = answer.prompt_tokens.value();
    const std::uint64_t output = answer.output_tokens.value();
    usage["usage"] = {{"prompt_tokens", prompt},
                      {"completion_tokens", output},
                      {"total_tokens", prompt + output}};
    events.append(event_of(usage));
  }
  return events.append("data: [DONE]\n\n");
}

}  // namespace afterimage
