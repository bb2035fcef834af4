// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/live_events.h"

#include <limits>
#include <utility>

#include "afterimage/check.h"
#include "foundation/text/json_text.h"
#include "foundation/text/valid_text.h"

namespace afterimage {
namespace {

std::string json_text_of(std::string_view text) {
  std::string json;
  append_json_string(json, valid_text(text, std::numeric_limits<std::size_t>::max()));
  return json;
}

std::string usage_of(const EngineAnswer& answer) {
  const std::uint64_t prompt = answer.prompt_tokens.value();
  const std::uint64_t output = answer.output_tokens.value();
  return R"("usage":{"prompt_tokens":)" + std::to_string(prompt) + R"(,"completion_tokens":)" +
         std::to_string(output) + R"(,"total_tokens":)" + std::to_string(prompt + output) + "}";
}

/// What follows the text of an event, up to its end. `finish_reason` is JSON.
std::string closing(std::string_view finish_reason) {
  return R"(,"logprobs":null,"finish_reason":)" + std::string(finish_reason) + "}]}";
}

std::string envelope(std::string_view id, std::string_view object, std::string_view created,
                     std::string_view model) {
  return R"({"id":)" + std::string(id) + R"(,"object":")" + std::string(object) +
         R"(","created":)" + std::string(created) + R"(,"model":)" + std::string(model) +
         R"(,"choices":[)";
}

constexpr std::string_view kIdMark(&kIdPlaceholder, 1);
constexpr std::string_view kCreatedMark(&kCreatedPlaceholder, 1);

}  // namespace

LiveEvents::LiveEvents(ApiOperation operation, const ResponseStamp& stamp, std::string_view model)
    : model_(json_text_of(model)) {
  AFI_CHECK(operation != ApiOperation::kEmbedding);
  parts_.operation = operation;
  parts_.facts.model = model;
  const std::string_view object = is_chat() ? "chat.completion.chunk" : "text_completion";
  sent_ = envelope(json_text_of(stamp.id), object, std::to_string(stamp.created), model_);
  kept_ = envelope(kIdMark, object, kCreatedMark, model_);
  choice_ = is_chat() ? R"({"index":0,"delta":)" : R"({"index":0,"text":)";
}

std::string LiveEvents::event(std::string inner, const std::string& end) {
  std::string said = "data: " + sent_ + choice_ + inner + end + "\n\n";
  parts_.add_event({.before = kept_ + choice_, .after = end}, std::move(inner), false);
  return said;
}

std::string LiveEvents::begin() {
  if (std::exchange(begun_, true) || !is_chat()) return "";
  return event(R"({"role":"assistant","content":"","refusal":null})", closing("null"));
}

std::string LiveEvents::text(std::string_view more) {
  std::string events = begin();
  const std::string json = json_text_of(more);
  return events.append(event(is_chat() ? R"({"content":)" + json + "}" : json, closing("null")));
}

std::string LiveEvents::end(const EngineAnswer& answer, bool include_usage) {
  std::string events = begin();
  const std::string finish = closing(json_text_of(answer.finish_reason));
  events.append(event(is_chat() ? "{}" : R"("")", finish));
  const std::string usage = usage_of(answer);
  if (include_usage) events.append("data: " + sent_ + "]," + usage + "}\n\n");
  parts_.add_event({.before = kept_ + "]," + usage + "}", .after = {}}, "", true);
  parts_.can_stream_usage = true;
  parts_.facts.finish_reason = answer.finish_reason;
  parts_.facts.prompt_tokens = answer.prompt_tokens.value();
  parts_.facts.output_tokens = answer.output_tokens.value();
  const std::string words = json_text_of(answer.text);
  const std::string said = is_chat() ? R"({"index":0,"message":{"role":"assistant","content":)" +
                                           words + R"(,"refusal":null})"
                                     : choice_ + words;
  parts_.whole =
      envelope(kIdMark, is_chat() ? "chat.completion" : "text_completion", kCreatedMark, model_) +
      said + finish;
  parts_.whole.back() = ',';  // the answer goes on with its usage
  parts_.whole.append(usage).append("}");
  parts_.has_body = true;
  return events.append("data: [DONE]\n\n");
}

ApiRecord LiveEvents::record() const {
  auto record = ApiRecord::of_bytes(encode(parts_));
  AFI_CHECK(record.has_value());
  return *std::move(record);
}

ApiRecord record_of(ApiOperation operation, const EngineAnswer& answer) {
  AFI_CHECK(!answer.finish_reason.empty());
  LiveEvents events(operation, {}, answer.model);
  if (!answer.text.empty()) static_cast<void>(events.text(answer.text));
  static_cast<void>(events.end(answer, false));
  return events.record();
}

}  // namespace afterimage
