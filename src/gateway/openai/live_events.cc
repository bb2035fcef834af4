// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/live_events.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "foundation/text/valid_text.h"

namespace afterimage {
namespace {

std::string json_text_of(std::string_view text) {
  std::string json;
  append_json_string(json, valid_text(text, std::numeric_limits<std::size_t>::max()));
  return json;
}

std::string usage_of(const Answer& answer, TokenCount cached) {
  const std::uint64_t prompt = answer.prompt_tokens.value();
  const std::uint64_t output = answer.output_tokens.value();
  return fmt::format(R"("usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                     R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
                     prompt, output, prompt + output, cached.value());
}

/// What follows the text of an event, up to its last brace. Both are JSON.
std::string closing(std::string_view finish_reason, std::string_view logprobs = "null") {
  return R"(,"logprobs":)" + std::string(logprobs) + R"(,"finish_reason":)" +
         std::string(finish_reason) + "}]";
}

std::string joined(const std::vector<std::string>& elements) {
  std::string list;
  for (const std::string& element : elements) list += (list.empty() ? "" : ",") + element;
  return list;
}

std::string json_list(const std::vector<std::string>& elements) {
  return "[" + joined(elements) + "]";
}

/// JSON has no infinity; a probability of 0 is as unlikely as OpenAI's API can say.
std::string number_json(float logprob) {
  return fmt::format("{}", std::isfinite(logprob) ? logprob : -9999.0F);
}

std::string token_json(const TokenLogprob& token) {
  std::vector<std::string> bytes;
  for (const char byte : token.bytes) {
    bytes.push_back(std::to_string(static_cast<unsigned char>(byte)));
  }
  return R"({"token":)" + json_text_of(token.bytes) + R"(,"logprob":)" +
         number_json(token.logprob) + R"(,"bytes":)" + json_list(bytes);
}

/// As chats report it.
std::string chat_logprobs(std::span<const TokenLogprobs> tokens) {
  std::vector<std::string> content;
  for (const TokenLogprobs& token : tokens) {
    std::vector<std::string> top;
    for (const TokenLogprob& other : token.top) top.push_back(token_json(other) + "}");
    content.push_back(token_json(token.chosen) + R"(,"top_logprobs":)" + json_list(top) + "}");
  }
  return R"({"content":)" + json_list(content) + "}";
}

/// As completions report it. The lists are in the order in which a stream is folded.
std::string completion_logprobs(std::span<const TokenLogprobs> tokens, std::size_t offset) {
  std::vector<std::string> offsets;
  std::vector<std::string> logprobs;
  std::vector<std::string> texts;
  std::vector<std::string> tops;
  for (const TokenLogprobs& token : tokens) {
    offsets.push_back(std::to_string(offset));
    offset += token.chosen.bytes.size();
    logprobs.push_back(number_json(token.chosen.logprob));
    texts.push_back(json_text_of(token.chosen.bytes));
    std::map<std::string, std::string> top;  // two tokens may be spelled alike
    for (const TokenLogprob& other : token.top) {
      top.emplace(json_text_of(other.bytes), number_json(other.logprob));
    }
    std::string object = "{";
    for (const auto& [text, logprob] : top) {
      if (object.size() > 1) object += ',';
      object.append(text).append(":").append(logprob);
    }
    tops.push_back(object + "}");
  }
  return R"({"text_offset":)" + json_list(offsets) + R"(,"token_logprobs":)" + json_list(logprobs) +
         R"(,"tokens":)" + json_list(texts) + R"(,"top_logprobs":)" + json_list(tops) + "}";
}

std::string envelope(std::string_view id, std::string_view object, std::string_view created,
                     std::string_view about) {
  return R"({"id":)" + std::string(id) + R"(,"object":")" + std::string(object) +
         R"(","created":)" + std::string(created) + std::string(about) + R"(,"choices":[)";
}

constexpr std::string_view kIdMark(&kIdPlaceholder, 1);
constexpr std::string_view kCreatedMark(&kCreatedPlaceholder, 1);

}  // namespace

OpenEvents& OpenEvents::operator+=(const OpenEvents& more) {
  text_ = is_empty() ? more.text_ : more.is_empty() ? text_ : text() + more.text_;
  return *this;
}

std::string OpenEvents::text(std::string_view members) const {
  return is_empty() ? "" : text_ + std::string(members) + "}\n\n";
}

LiveEvents::LiveEvents(ApiOperation operation, const ResponseStamp& stamp, std::string_view model,
                       std::string_view fingerprint)
    : about_(R"(,"model":)" + json_text_of(model)) {
  if (!fingerprint.empty()) about_ += R"(,"system_fingerprint":)" + json_text_of(fingerprint);
  AFI_CHECK(generates_text(operation));
  parts_.operation = operation;
  parts_.facts.model = model;
  const std::string_view object = is_chat() ? "chat.completion.chunk" : "text_completion";
  sent_ = envelope(json_text_of(stamp.id), object, std::to_string(stamp.created), about_);
  kept_ = envelope(kIdMark, object, kCreatedMark, about_);
}

LiveEvents::Choice& LiveEvents::choice_at(std::uint32_t index) {
  if (index >= choices_.size()) choices_.resize(index + 1);
  return choices_[index];
}

OpenEvents LiveEvents::event(std::uint32_t choice, std::string inner, const std::string& end) {
  const std::string opening =
      R"({"index":)" + std::to_string(choice) + (is_chat() ? R"(,"delta":)" : R"(,"text":)");
  OpenEvents said(sent_ + opening + inner + end);
  parts_.add_event({.before = kept_ + opening, .after = end + "}"}, std::move(inner), false);
  return said;
}

// As llama-server: the role comes alone, because a choice may have no content at all.
OpenEvents LiveEvents::begin(std::uint32_t index) {
  Choice& choice = choice_at(index);
  if (std::exchange(choice.begun, true) || !is_chat()) return {};
  return event(index, R"({"role":"assistant","content":null,"refusal":null})", closing("null"));
}

std::string LiveEvents::logprobs_json(std::span<const TokenLogprobs> tokens,
                                      std::size_t text_offset) const {
  if (tokens.empty()) return "null";
  return is_chat() ? chat_logprobs(tokens) : completion_logprobs(tokens, text_offset);
}

OpenEvents LiveEvents::add(const EngineDelta& delta) {
  OpenEvents events = begin(delta.choice);
  Choice& choice = choice_at(delta.choice);
  if (!delta.reasoning.empty()) {
    choice.reasoning += delta.reasoning;
    events += event(delta.choice, R"({"reasoning_content":)" + json_text_of(delta.reasoning) + "}",
                    closing("null"));
  }
  if (!delta.content.empty() || !delta.logprobs.empty()) {
    if (!choice.content.has_value()) choice.content.emplace();
    choice.content->append(delta.content);
    const std::string json = json_text_of(delta.content);
    const std::string logprobs = logprobs_json(delta.logprobs, choice.text_offset);
    for (const TokenLogprobs& token : delta.logprobs) {
      choice.text_offset += token.chosen.bytes.size();
      choice.tokens.push_back(token);
    }
    events += event(delta.choice, is_chat() ? R"({"content":)" + json + "}" : json,
                    closing("null", logprobs));
  }
  if (delta.call.has_value()) events += add_call(delta.choice, *delta.call);
  return events;
}

OpenEvents LiveEvents::add_call(std::uint32_t index, const EngineDelta::Call& call) {
  std::vector<ToolCall>& calls = choice_at(index).calls;
  if (call.index >= calls.size()) calls.resize(call.index + 1);
  ToolCall& known = calls[call.index];
  std::string json = R"({"tool_calls":[{"index":)" + std::to_string(call.index);
  if (!call.id.empty()) json += R"(,"id":)" + json_text_of(call.id) + R"(,"type":"function")";
  json += R"(,"function":{)";
  if (!call.name.empty()) json += R"("name":)" + json_text_of(call.name) + ",";
  json += R"("arguments":)" + json_text_of(call.arguments) + "}}]}";
  known.id += call.id;
  known.name += call.name;
  known.arguments += call.arguments;
  return event(index, std::move(json), closing("null"));
}

OpenEvents LiveEvents::finish(std::uint32_t choice, std::string_view finish_reason) {
  OpenEvents events = begin(choice);
  Choice& finished = choice_at(choice);
  finished.finish_reason = finish_reason;
  if (!finished.content.has_value() && finished.reasoning.empty() && finished.calls.empty()) {
    finished.content.emplace();
    if (is_chat()) events += event(choice, R"({"content":""})", closing("null"));
  }
  return events += event(choice, is_chat() ? "{}" : R"("")", closing(json_text_of(finish_reason)));
}

std::string LiveEvents::whole_choice(std::uint32_t index) const {
  const Choice& choice = choices_[index];
  const std::string content = choice.content.has_value() ? json_text_of(*choice.content) : "null";
  std::string json = R"({"index":)" + std::to_string(index);
  if (is_chat()) {
    json += R"(,"message":{"role":"assistant","content":)" + content + R"(,"refusal":null)";
    if (!choice.reasoning.empty()) {
      json += R"(,"reasoning_content":)" + json_text_of(choice.reasoning);
    }
    std::vector<std::string> calls;
    for (const ToolCall& call : choice.calls) {
      calls.push_back(R"({"id":)" + json_text_of(call.id) + R"(,"type":"function","function":)" +
                      R"({"name":)" + json_text_of(call.name) + R"(,"arguments":)" +
                      json_text_of(call.arguments) + "}}");
    }
    if (!calls.empty()) json += R"(,"tool_calls":)" + json_list(calls);
    json += "}";
  } else {
    json += R"(,"text":)" + content;
  }
  return json + R"(,"logprobs":)" + logprobs_json(choice.tokens, 0) + R"(,"finish_reason":)" +
         json_text_of(choice.finish_reason) + "}";
}

std::string LiveEvents::end(const Answer& answer, TokenCount cached, bool include_usage,
                            std::string_view details) {
  std::string events;
  if (choices_.empty() || choices_.front().finish_reason.empty()) {
    events = finish(0, answer.finish_reason).text();
  }
  const std::string usage = usage_of(answer, cached);
  if (include_usage || !details.empty()) {
    events += OpenEvents(sent_ + "]," + usage).text(details);
  }
  parts_.add_event({.before = kept_ + "]," + usage + "}", .after = {}}, "", true);
  parts_.can_stream_usage = true;
  parts_.facts.finish_reason = "stop";
  parts_.facts.prompt_tokens = static_cast<std::uint32_t>(answer.prompt_tokens.value());
  parts_.facts.output_tokens = static_cast<std::uint32_t>(answer.output_tokens.value());
  std::vector<std::string> wholes;
  for (std::uint32_t i = 0; i < choices_.size(); ++i) {
    wholes.push_back(whole_choice(i));
    if (parts_.facts.finish_reason == "stop")
      parts_.facts.finish_reason = choices_[i].finish_reason;
    parts_.facts.calls_tools = parts_.facts.calls_tools || !choices_[i].calls.empty();
  }
  parts_.whole =
      envelope(kIdMark, is_chat() ? "chat.completion" : "text_completion", kCreatedMark, about_) +
      joined(wholes) + "]," + usage + "}";
  parts_.has_body = true;
  return events.append("data: [DONE]\n\n");
}

ApiRecord LiveEvents::record() const {
  auto record = ApiRecord::of_bytes(std::make_shared<const std::string>(encode(parts_)));
  AFI_CHECK(record.has_value());
  return *std::move(record);
}

}  // namespace afterimage
