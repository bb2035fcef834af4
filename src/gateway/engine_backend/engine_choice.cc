// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/engine_choice.h"

#include <utility>

namespace afterimage {
namespace {

/// What `now` has beyond `before`.
std::string_view growth(std::string_view now, std::string_view before) {
  return now.starts_with(before) ? now.substr(before.size()) : std::string_view();
}

}  // namespace

EngineChoice::EngineChoice(std::uint32_t index, LiveEvents& events, IdGenerator& ids)
    : index_(index), events_(events), ids_(ids) {}

OpenEvents EngineChoice::add(std::string_view text) {
  text_ += text;
  if (format_ == nullptr) return send_content(text);
  const auto message = format_->read(text_, false);
  return message.has_value() ? send(*message) : OpenEvents();
}

OpenEvents EngineChoice::finish(const Completion& completion) {
  const std::string rest(growth(completion.text, text_));
  OpenEvents events;
  if (format_ == nullptr) {
    if (!rest.empty() || !tokens_.empty()) events = send_content(rest);
  } else {
    text_ += rest;
    auto message = format_->read(text_, completion.ended);
    // A text that breaks its format, or was cut off, is read as far as it goes.
    if (!message.has_value()) message = format_->read(text_, false);
    // Of a text that cannot be read at all, what follows is content: nothing is lost.
    events = message.has_value() ? send(*message) : send_content(growth(text_, sent_.content));
    if (!tokens_.empty()) events += send_content("");
  }
  const bool calls = !sent_.tool_calls.empty();
  const char* const reason = !completion.ended ? "length" : calls ? "tool_calls" : "stop";
  return events += events_.finish(index_, reason);
}

OpenEvents EngineChoice::send(const AnswerMessage& message) {
  OpenEvents events;
  const std::string_view reasoning = growth(message.reasoning, sent_.reasoning);
  if (!reasoning.empty()) events += events_.add({.choice = index_, .reasoning = reasoning});
  const std::string_view content = growth(message.content, sent_.content);
  if (!content.empty()) events += send_content(content);
  events += send_calls(message.tool_calls);
  sent_.reasoning += reasoning;
  sent_.content += content;
  return events;
}

OpenEvents EngineChoice::send_calls(const std::vector<ToolCall>& calls) {
  OpenEvents events;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].name.empty()) break;  // its name is not complete
    const bool begins = i == sent_.tool_calls.size();
    if (begins) {
      sent_.tool_calls.push_back({.id = calls[i].id.empty() ? ids_.call() : calls[i].id,
                                  .name = calls[i].name,
                                  .arguments = {}});
    }
    ToolCall& sent = sent_.tool_calls[i];
    const std::string_view arguments = growth(calls[i].arguments, sent.arguments);
    if (!begins && arguments.empty()) continue;
    events +=
        events_.add({.choice = index_,
                     .call = EngineDelta::Call{.index = i,
                                               .id = begins ? std::string_view(sent.id) : "",
                                               .name = begins ? std::string_view(sent.name) : "",
                                               .arguments = arguments}});
    sent.arguments += arguments;
  }
  return events;
}

OpenEvents EngineChoice::send_content(std::string_view content) {
  const auto tokens = std::exchange(tokens_, {});
  return events_.add({.choice = index_, .content = content, .logprobs = tokens});
}

}  // namespace afterimage
