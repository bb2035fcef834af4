// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/load/answer_timing.h"

#include <fmt/format.h>

#include <algorithm>

namespace afterimage {
namespace {

constexpr std::size_t kQuoted = 120;  // bytes of a server's error

/// The text of a choice, whatever it is called: an answer's, a stream's, a completion's; reasoning
/// and tool calls are tokens, too.
bool has_text(const JsonValue& choice) {
  if (!choice["text"].text().empty()) return true;
  for (const char* part : {"delta", "message"}) {
    const JsonValue message = choice[part];
    for (const char* field : {"content", "reasoning_content", "reasoning"}) {
      if (!message[field].text().empty()) return true;
    }
    if (!message["tool_calls"].is_empty()) return true;
  }
  return false;
}

std::string error_text(const JsonValue& error) {
  const JsonValue message = error.is(JsonKind::kObject) ? error["message"] : error;
  return std::string(message.text().substr(0, kQuoted));
}

}  // namespace

void AnswerTiming::feed(std::string_view bytes, Duration now) {
  if (!failure_.empty()) return;
  if (!is_stream_) {
    if (rest_.size() + bytes.size() > kMostWhole) {
      failure_ = fmt::format("the response has more than {} bytes", kMostWhole);
      return;
    }
    rest_ += bytes;
    last_ = now;
    return;
  }
  while (!bytes.empty() && failure_.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (rest_.size() + piece.size() > kMostEvent) {
      failure_ = fmt::format("an event has more than {} bytes", kMostEvent);
      return;
    }
    if (end == std::string_view::npos) {
      rest_ += piece;
      return;
    }
    if (rest_.empty()) {
      take_line(piece, now);
    } else {
      rest_ += piece;
      take_line(rest_, now);
      rest_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
}

void AnswerTiming::take_line(std::string_view line, Duration now) {
  constexpr std::string_view kData = "data:";
  if (!line.starts_with(kData)) return;  // comments, event names, blank lines
  line.remove_prefix(kData.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line == "[DONE]") {
    done_ = true;
    return;
  }
  take_json(line, now);
}

void AnswerTiming::take_json(std::string_view text, Duration now) {
  const auto json = reader_.read(text);
  if (!json.has_value() || !json->is(JsonKind::kObject)) {
    failure_ = "the response is not JSON";
    return;
  }
  const JsonValue error = (*json)["error"];
  if (!error.is_empty()) {
    failure_ = fmt::format("the response is an error: {}", error_text(error));
    return;
  }
  bool has_any = false;
  for (const JsonValue choice : (*json)["choices"]) has_any = has_any || has_text(choice);
  if (has_any) {
    ++events_;
    if (!first_) first_ = now;
    last_ = now;
  }
  const JsonValue usage = (*json)["usage"];
  if (!usage.is(JsonKind::kObject)) return;
  if (const auto count = usage["completion_tokens"].count()) output_ = count;
  prompt_ = usage["prompt_tokens"].count().value_or(prompt_);
  cached_ = usage["prompt_tokens_details"]["cached_tokens"].count().value_or(cached_);
  cached_ = std::min(cached_, prompt_);
}

bool AnswerTiming::end() {
  if (!failure_.empty()) return false;
  if (!is_stream_) {
    take_json(rest_, last_.value_or(Duration(0)));
  } else if (!done_) {
    failure_ = "the stream ended before its [DONE]";
  }
  return failure_.empty();
}

}  // namespace afterimage
