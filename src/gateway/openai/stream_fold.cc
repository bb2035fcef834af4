// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/stream_fold.h"

#include <algorithm>
#include <utility>

#include "foundation/json/json_writer.h"

namespace afterimage {
namespace {

constexpr std::uint64_t kMaxFoldedChoices = 1'024;
constexpr std::array<std::string_view, 4> kMessageTexts{"content", "refusal", "reasoning_content",
                                                        "reasoning"};

std::unexpected<Error> no_event(std::string_view why) {
  return fail(ErrorCode::kInvalidArgument, "an event of the stream " + std::string(why));
}

std::string function_json(std::string_view name, std::string_view arguments) {
  return JsonObject().add_text("name", name).add_text("arguments", arguments).text();
}

std::string call_json(std::string_view id, std::string_view type, const std::string& function) {
  JsonObject call;
  if (!id.empty()) call.add_text("id", id);
  if (!type.empty()) call.add_text("type", type);
  return call.add("function", function).text();
}

}  // namespace

Result<void> StreamFold::add(const JsonValue& event) {
  if (!event.is(JsonKind::kObject)) return no_event("is not a JSON object");
  for (const JsonValue field : event) AFI_TRY_VOID(add_field(field));
  return {};
}

Result<void> StreamFold::add_field(const JsonValue& field) {
  const std::string_view name = field.key();
  if (name == "choices") {
    if (!field.is_none() && !field.is(JsonKind::kArray)) return no_event("has no array of choices");
    for (const JsonValue choice : field) AFI_TRY_VOID(add_choice(choice));
  } else if (name == "usage") {
    if (!field.is(JsonKind::kObject)) return {};
    usage_ = field.source();
    prompt_tokens_ = field["prompt_tokens"].count_or_zero();
    output_tokens_ = field["completion_tokens"].count_or_zero();
  } else if (name == "id") {
    if (field.text().empty()) return {};
    if (!id_.empty() && id_ != field.text()) return no_event("belongs to another answer");
    id_ = field.text();
  } else if (name == "error") {
    if (field.is_none()) return {};
    return no_event("reports an error: " + std::string(field.source().substr(0, 200)));
  } else if (name == "created") {
    has_created_ = has_created_ || field.count().value_or(0) > 0;
  } else if (name == "object") {
    has_object_ = true;
  } else if (name == "model") {
    // Some servers begin with an event without a model.
    if (!model_ || model_->empty()) model_ = std::string(field.text());
  } else if (name == "system_fingerprint" || name == "service_tier") {
    Other& latest = latest_[std::string(name)];
    if (!field.is_none()) latest = {.value = std::string(field.source()), .is_said = true};
  } else if (name != "obfuscation") {  // padding that hides the size of events
    Other& other = others_[std::string(name)];
    if (field.is_none()) return {};
    std::string value = canonical(field);
    if (other.is_said && other.value != value) is_foldable_ = false;
    other = {.value = std::move(value), .is_said = true};
  }
  return {};
}

Result<void> StreamFold::add_choice(const JsonValue& choice) {
  const JsonValue index = choice["index"];
  if (!choice.is(JsonKind::kObject) ||
      (!index.is_none() && index.count().value_or(kMaxFoldedChoices) >= kMaxFoldedChoices)) {
    return no_event("has an invalid choice");
  }
  Choice& to = choices_[index.count().value_or(0)];
  for (const JsonValue field : choice) AFI_TRY_VOID(add_choice_field(field, to));
  return {};
}

Result<void> StreamFold::add_choice_field(const JsonValue& field, Choice& choice) {
  const std::string_view name = field.key();
  const bool is_chat = operation_ == ApiOperation::kChat;
  if (name == "index") return {};
  if (name == "finish_reason") {
    if (field.is_empty()) return {};
    if (!field.is(JsonKind::kString)) return no_event("has a finish reason that is not a string");
    if (!choice.finish_reason.empty() && choice.finish_reason != field.text()) {
      return no_event("contradicts the finish reason of an earlier event");
    }
    choice.finish_reason = field.text();
  } else if (name == "logprobs") {
    choice.has_probabilities = true;
    add_probabilities(field, choice);
  } else if (is_chat && name == "delta") {
    return add_delta(field, choice);
  } else if (!is_chat && name == "text") {
    if (!field.is_none() && !field.is(JsonKind::kString))
      return no_event("has a text that is not a string");
    add_text(field, choice.texts[std::string(name)]);
  } else {
    // A complete response has a member of that name already.
    if (name == "message") is_foldable_ = false;
    Other& other = choice.others[std::string(name)];
    if (field.is_none()) return {};
    if (field.is_empty() && !other.is_said) {
      other.value = field.source();
      return {};
    }
    if (other.is_said || field.is(JsonKind::kArray) || field.is(JsonKind::kObject)) {
      is_foldable_ = false;
    }
    other = {.value = std::string(field.source()), .is_said = true};
  }
  return {};
}

Result<void> StreamFold::add_delta(const JsonValue& delta, Choice& choice) {
  if (!delta.is_none() && !delta.is(JsonKind::kObject))
    return no_event("has a delta that is not an object");
  for (const JsonValue field : delta) {
    const std::string_view name = field.key();
    if (name == "role") {
      set_once(field, choice.role);
    } else if (std::ranges::find(kMessageTexts, name) != kMessageTexts.end()) {
      add_text(field, choice.texts[std::string(name)]);
    } else if (name == "tool_calls") {
      add_calls(field, choice);
    } else if (name == "function_call") {
      if (field.is_none()) continue;
      if (!choice.function_call) choice.function_call.emplace();
      add_function(field, *choice.function_call);
    } else if (!field.is_empty()) {
      is_foldable_ = false;
    }
  }
  return {};
}

void StreamFold::add_text(const JsonValue& text, Text& to) {
  to.is_said = true;
  if (text.is(JsonKind::kString)) {
    if (!to.value) to.value.emplace();
    to.value->append(text.text());
  } else if (!text.is_none()) {
    is_foldable_ = false;
  }
}

void StreamFold::add_calls(const JsonValue& calls, Choice& choice) {
  if (!calls.is_none() && !calls.is(JsonKind::kArray)) is_foldable_ = false;
  for (const JsonValue delta : calls) {
    // Without an index it is unknown whether this continues a call or begins another.
    const auto index = delta["index"].count();
    if (!index) is_foldable_ = false;
    Call& call = choice.calls[index.value_or(0)];
    for (const JsonValue field : delta) {
      if (field.key() == "id") {
        set_once(field, call.id);
      } else if (field.key() == "type") {
        set_once(field, call.type);
      } else if (field.key() == "function") {
        add_function(field, call);
      } else if (field.key() != "index" && !field.is_empty()) {
        is_foldable_ = false;
      }
    }
  }
}

void StreamFold::add_function(const JsonValue& function, Call& call) {
  if (!function.is_none() && !function.is(JsonKind::kObject)) is_foldable_ = false;
  for (const JsonValue field : function) {
    if (field.key() == "arguments" && field.is(JsonKind::kString)) {
      call.arguments.append(field.text());
    } else if (field.key() == "name" && (field.is_none() || call.name.empty())) {
      set_once(field, call.name);
    } else if (!field.is_empty()) {
      is_foldable_ = false;  // a repeated name may be its continuation or the same name again
    }
  }
}

void StreamFold::set_once(const JsonValue& value, std::string& to) {
  if (value.is_empty()) return;
  if (!value.is(JsonKind::kString) || (!to.empty() && to != value.text())) is_foldable_ = false;
  to = value.text();
}

void StreamFold::add_probabilities(const JsonValue& probabilities, Choice& choice) {
  if (!probabilities.is_none() && !probabilities.is(JsonKind::kObject)) is_foldable_ = false;
  for (const JsonValue list : probabilities) {
    std::optional<std::string>& to = choice.probabilities[std::string(list.key())];
    if (list.is_none()) continue;
    if (!list.is(JsonKind::kArray)) is_foldable_ = false;
    if (!to) to.emplace();
    for (const JsonValue element : list) {
      if (!to->empty()) to->push_back(',');
      to->append(element.source());
    }
  }
}

Result<void> StreamFold::check_finished() const {
  if (choices_.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the stream ended without any choice");
  }
  for (const auto& [index, choice] : choices_) {
    if (choice.finish_reason.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "the stream ended before choice " + std::to_string(index) + " was finished");
    }
  }
  return {};
}

RecordFacts StreamFold::facts() const {
  RecordFacts facts{.finish_reason = "stop",
                    .model = model_.value_or(""),
                    .prompt_tokens = prompt_tokens_,
                    .output_tokens = output_tokens_};
  for (const auto& [index, choice] : choices_) {
    if (facts.finish_reason == "stop") facts.finish_reason = choice.finish_reason;
    facts.calls_tools =
        facts.calls_tools || !choice.calls.empty() || choice.function_call.has_value();
  }
  if (choices_.empty()) return facts;
  const auto& texts = choices_.begin()->second.texts;
  const auto text = texts.find(operation_ == ApiOperation::kChat ? "content" : "text");
  if (text != texts.end()) facts.text = text->second.value.value_or("");
  return facts;
}

std::optional<std::string> StreamFold::whole() const {
  if (!is_foldable_ || usage_.empty()) return std::nullopt;
  JsonObject out;
  if (!id_.empty()) out.add("id", std::string_view(&kIdPlaceholder, 1));
  if (has_object_) {
    out.add_text("object",
                 operation_ == ApiOperation::kChat ? "chat.completion" : "text_completion");
  }
  if (has_created_) out.add("created", std::string_view(&kCreatedPlaceholder, 1));
  if (model_) out.add_text("model", *model_);
  JsonArray choices;
  for (const auto& [index, choice] : choices_) choices.add(choice_json(index, choice));
  out.add("choices", choices.text()).add("usage", usage_);
  for (const auto* fields : {&latest_, &others_}) {
    for (const auto& [name, field] : *fields) out.add(name, field.value);
  }
  return out.text();
}

std::string StreamFold::choice_json(std::uint64_t index, const Choice& choice) const {
  JsonObject json;
  json.add_number("index", index);
  if (operation_ == ApiOperation::kChat) {
    json.add("message", message_json(choice));
  } else {
    const auto text = choice.texts.find("text");
    json.add_text("text", text == choice.texts.end() ? "" : text->second.value.value_or(""));
  }
  if (choice.has_probabilities) {
    JsonObject lists;
    for (const auto& [name, list] : choice.probabilities) {
      lists.add(name, list ? "[" + *list + "]" : "null");
    }
    json.add("logprobs", lists.is_empty() ? "null" : lists.text());
  }
  json.add_text("finish_reason", choice.finish_reason);
  for (const auto& [name, field] : choice.others) json.add(name, field.value);
  return json.text();
}

std::string StreamFold::message_json(const Choice& choice) {
  JsonObject message;
  message.add_text("role", choice.role.empty() ? "assistant" : choice.role);
  for (const std::string_view name : kMessageTexts) {
    const auto text = choice.texts.find(name);
    const bool is_said = text != choice.texts.end() && text->second.is_said;
    if (is_said && text->second.value) {
      message.add_text(name, *text->second.value);
    } else if (is_said || name == "content") {
      message.add(name, "null");
    }
  }
  if (!choice.calls.empty()) {
    JsonArray calls;
    for (const auto& [number, call] : choice.calls) {
      calls.add(call_json(call.id, call.type, function_json(call.name, call.arguments)));
    }
    message.add("tool_calls", calls.text());
  }
  if (choice.function_call) {
    message.add("function_call",
                function_json(choice.function_call->name, choice.function_call->arguments));
  }
  return message.text();
}

}  // namespace afterimage
