// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/whole_events.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foundation/json/json_writer.h"

namespace afterimage {
namespace {

constexpr std::array<std::string_view, 4> kSpoken{"content", "refusal", "reasoning_content",
                                                  "reasoning"};

bool is_spoken(std::string_view name) { return std::ranges::find(kSpoken, name) != kSpoken.end(); }

/// One choice of an event, cut at its delta or text, as a record is.
struct CutChoice {
  std::string before;
  std::string inner;
  std::string after;
};

bool is_shared(std::string_view name) {  // a member of every event
  constexpr std::array<std::string_view, 5> kShared{"id", "created", "model", "system_fingerprint",
                                                    "service_tier"};
  return std::ranges::find(kShared, name) != kShared.end();
}

class WholeEvents {
 public:
  WholeEvents(const JsonValue& whole, RecordParts& parts) : whole_(whole), parts_(&parts) {}

  void add() {
    envelope_ = envelope();
    for (const JsonValue choice : whole_["choices"]) {
      if (parts_->operation == ApiOperation::kChat) {
        add_message(choice);
      } else {
        add_text(choice);
      }
    }
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      add_event(choices_[i], i + 1 == choices_.size());
    }
    add_usage(whole_["usage"]);
  }

 private:
  /// One choice of an event. Only one event carries the log probabilities, the others null.
  CutChoice choice_text(const JsonValue& choice, std::string_view field, std::string_view json,
                        bool says_probabilities, bool is_last) const {
    CutChoice cut;
    JsonObject text;
    const std::size_t position = choices_of_.size() - 1;
    const JsonValue index = choice["index"];
    text.add("index", index.is_none() ? std::to_string(position) : std::string(index.source()));
    cut.before = text.begin(field).cut();
    cut.inner = json;
    const JsonValue probabilities = choice["logprobs"];
    if (!probabilities.is(JsonKind::kAbsent)) {
      text.add("logprobs", says_probabilities ? probabilities.source() : "null");
    }
    text.add("finish_reason", is_last ? choice["finish_reason"].source() : "null");
    for (const JsonValue member : choice) {
      const std::string_view name = member.key();
      if (is_last && name != "index" && name != "message" && name != "text" && name != "logprobs" &&
          name != "finish_reason" && name != field) {
        text.add_member(member);
      }
    }
    cut.after = text.text();
    return cut;
  }

  void add_message(const JsonValue& choice) {
    choices_of_.push_back(choice);
    const JsonValue message = choice["message"];
    JsonObject role;
    JsonObject rest;
    if (!message["role"].is_none()) role.add_member(message["role"]);
    for (const JsonValue field : message) {
      if (is_spoken(field.key())) {
        const bool begins_empty = field.key() == "content" && field.is(JsonKind::kString);
        if (begins_empty || field.is_none()) role.add(field.key(), begins_empty ? "\"\"" : "null");
        if (!field.is_none() && !(begins_empty && field.is_empty())) rest.add_member(field);
      } else if (field.key() == "tool_calls" && !field.is_empty()) {
        rest.add(field.key(), numbered(field));
      } else if (field.key() == "function_call" && !field.is_none()) {
        rest.add_member(field);
      }
    }
    const bool has_probabilities = !choice["logprobs"].is_none();
    choices_.push_back(choice_text(choice, "delta", role.text(), false, false));
    if (!rest.is_empty() || has_probabilities) {
      choices_.push_back(choice_text(choice, "delta", rest.text(), true, false));
    }
    choices_.push_back(choice_text(choice, "delta", "{}", false, true));
  }

  void add_text(const JsonValue& choice) {
    choices_of_.push_back(choice);
    choices_.push_back(choice_text(choice, "text", choice["text"].source(), true, true));
  }

  static std::string numbered(const JsonValue& calls) {
    std::string text = "[";
    std::size_t index = 0;
    for (const JsonValue call : calls) {
      JsonObject numbered_call;
      numbered_call.add("index", std::to_string(index));
      for (const JsonValue field : call) {
        if (field.key() != "index") numbered_call.add_member(field);
      }
      text.append(index++ == 0 ? "" : ",").append(numbered_call.text());
    }
    return text + "]";
  }

  /// The members of every event, with placeholders, without the closing brace.
  [[nodiscard]] std::string envelope() const {
    const std::array<Gap, 2> gaps{id_gap(whole_), created_gap(whole_)};
    JsonObject event;
    for (const JsonValue field : whole_) {
      if (field.key() == "object" && parts_->operation == ApiOperation::kChat) {
        event.add("object", "\"chat.completion.chunk\"");
      } else if (is_shared(field.key()) || field.key() == "object") {
        const auto gap = std::ranges::find(gaps, field.begin_offset(), &Gap::begin);
        const bool is_gap = gap != gaps.end() && gap->end == field.end_offset();
        event.add(field.key(), is_gap ? std::string_view(&gap->mark, 1) : field.source());
      }
    }
    return event.cut();
  }

  void add_usage(const JsonValue& usage) {
    if (!usage.is(JsonKind::kObject)) return;
    JsonObject event(envelope_);
    event.add("choices", "[]").add_member(usage);
    parts_->add_event({.before = on_one_line(event.text()), .after = {}}, {}, /*is_usage=*/true);
    parts_->can_stream_usage = true;
  }

  void add_event(const CutChoice& choice, bool is_last) {
    JsonObject event(envelope_);
    EventFrame frame;
    frame.before = on_one_line(event.begin("choices").append("[").append(choice.before).cut());
    event.append(choice.after).append("]");
    for (const JsonValue field : whole_) {
      const std::string_view name = field.key();
      if (is_last && !is_shared(name) && name != "object" && name != "choices" && name != "usage") {
        event.add_member(field);
      }
    }
    frame.after = on_one_line(event.text());
    parts_->add_event(std::move(frame), on_one_line(choice.inner), /*is_usage=*/false);
  }

  JsonValue whole_;
  RecordParts* parts_;
  std::string envelope_;
  std::vector<JsonValue> choices_of_;
  std::vector<CutChoice> choices_;  // one per event
};

}  // namespace

bool has_event_stream(ApiOperation operation, const JsonValue& whole) {
  if (operation != ApiOperation::kChat) return true;
  for (const JsonValue choice : whole["choices"]) {
    for (const JsonValue field : choice["message"]) {
      const std::string_view name = field.key();
      if (is_spoken(name)) {
        if (!field.is_none() && !field.is(JsonKind::kString)) return false;
      } else if (name == "tool_calls") {
        for (const JsonValue call : field) {
          if (!call.is(JsonKind::kObject)) return false;
        }
      } else if (name != "role" && name != "function_call" && !field.is_empty()) {
        return false;
      }
    }
  }
  return true;
}

void add_events_of_whole(const JsonValue& whole, RecordParts& parts) {
  WholeEvents(whole, parts).add();
}

}  // namespace afterimage
