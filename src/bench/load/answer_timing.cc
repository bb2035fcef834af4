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
  if (is_stream_) {
    stream_.feed(bytes, [&](std::string_view /*name*/, std::string_view data) {
      if (failure_.empty()) take_data(data, now);
    });
    if (stream_.is_cut() && failure_.empty()) {
      failure_ = fmt::format("an event has more than {} bytes", kMostEvent);
    }
    return;
  }
  if (whole_.size() + bytes.size() > kMostWhole) {
    failure_ = fmt::format("the response has more than {} bytes", kMostWhole);
    return;
  }
  whole_ += bytes;
  last_ = now;
}

void AnswerTiming::take_data(std::string_view data, Duration now) {
  if (data == "[DONE]") {
    done_ = true;
  } else {
    take_json(data, now);
  }
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
    take_json(whole_, last_.value_or(Duration(0)));
  } else if (!done_ && stream_.unfinished_data() != "[DONE]") {
    failure_ = "the stream ended before its [DONE]";
  }
  return failure_.empty();
}

}  // namespace afterimage
