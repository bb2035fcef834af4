// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/answer_reader.h"

#include <algorithm>
#include <utility>

namespace afterimage {
namespace {

std::unexpected<Error> unreadable(std::string_view what) {
  return fail(ErrorCode::kInvalidArgument,
              "the model's server sent an answer that cannot be read: " + std::string(what));
}

/// Empty: it is no string.
std::string_view text_in(const JsonValue& value) {
  return value.is(JsonKind::kString) ? value.text() : std::string_view();
}

/// The error that a server sends as an event.
std::unexpected<Error> said_failure(const JsonValue& error) {
  const std::string_view message =
      error.is(JsonKind::kString) ? error.text() : error["message"].text();
  return fail(ErrorCode::kUnavailable,
              message.empty() ? "the model's server failed" : std::string(message));
}

}  // namespace

void AnswerReader::begin(const JsonValue& root) {
  if (!std::exchange(has_begun_, true)) listener_.on_begin(text_in(root["model"]));
}

Result<void> AnswerReader::read_whole(std::string_view body) {
  const auto root = json_.read(body);
  if (!root.has_value()) return unreadable(root.error().message);
  const JsonValue choice = (*root)["choices"].front();
  if (!choice["message"].is(JsonKind::kObject)) return unreadable("it has no message");
  begin(*root);
  AFI_TRY_VOID(read_message(choice["message"]));
  read_end_of_choice(choice);
  read_usage(*root);
  is_done_ = true;
  return end_calls();
}

Result<void> AnswerReader::feed(std::string_view bytes) {
  if (failed_.has_value()) return std::unexpected(*failed_);
  events_.feed(bytes, [&](std::string_view name, std::string_view data) {
    if (failed_.has_value() || is_done_) return;
    if (!name.empty() && name != "message" && name != "error") return;  // not of this API
    ApiEvent event(name, data, json_);
    auto read = read_event(event);
    if (!read.has_value()) failed_ = std::move(read).error();
  });
  if (!failed_.has_value() && events_.is_cut()) {
    failed_ = Error{ErrorCode::kLimitExceeded, "an event of the answer is larger than 16 MiB"};
  }
  if (failed_.has_value()) return std::unexpected(*failed_);
  return {};
}

Result<void> AnswerReader::end() {
  if (failed_.has_value()) return std::unexpected(*failed_);
  // Some servers leave out [DONE].
  if (is_done_ || is_finished_) {
    if (!std::exchange(is_done_, true)) return end_calls();
    return {};
  }
  failed_ = Error{ErrorCode::kUnavailable, "the answer broke off"};
  return std::unexpected(*failed_);
}

Result<void> AnswerReader::read_event(ApiEvent& event) {
  if (event.is_done()) {
    if (!is_finished_) return unreadable("it ends without a finish reason");
    is_done_ = true;
    return end_calls();
  }
  const Result<JsonValue>& root = event.json();
  if (!root.has_value()) return unreadable(root.error().message);
  if (!root->is(JsonKind::kObject)) return unreadable("an event is not an object");
  if (!(*root)["error"].is_none()) return said_failure((*root)["error"]);
  // Some servers say in each event what was used so far.
  if (!has_begun_) read_prompt(*root);
  begin(*root);
  const JsonValue choice = (*root)["choices"].front();
  if (choice.is(JsonKind::kObject)) {
    AFI_TRY_VOID(read_message(choice["delta"]));
    read_end_of_choice(choice);
  }
  read_usage(*root);
  return {};
}

/// A complete message, or what an event adds to it: both have the same fields.
Result<void> AnswerReader::read_message(const JsonValue& message) {
  // vLLM's name before 2026, and the name since.
  const std::string_view older = text_in(message["reasoning_content"]);
  const std::string_view reasoning = older.empty() ? text_in(message["reasoning"]) : older;
  const std::string_view content = text_in(message["content"]);
  const std::string_view refusal = text_in(message["refusal"]);
  if (!reasoning.empty()) listener_.on_reasoning(reasoning);
  if (!content.empty()) listener_.on_text(content);
  if (!refusal.empty()) listener_.on_refusal(refusal);
  std::uint64_t position = 0;
  for (const JsonValue call : message["tool_calls"]) {
    const JsonValue function = call["function"];
    AFI_TRY_VOID(read_call({.index = call["index"].count().value_or(position),
                            .id = text_in(call["id"]),
                            .name = text_in(function["name"]),
                            .arguments = text_in(function["arguments"])}));
    ++position;
  }
  return {};
}

Result<void> AnswerReader::read_call(const AnswerCall& call) {
  if (!first_call_.has_value()) first_call_ = call.index;
  if (*first_call_ == call.index) return listener_.on_call(call);
  auto known = std::ranges::find(calls_, call.index, &WaitingCall::index);
  if (known == calls_.end()) {
    known = calls_.insert(calls_.end(), {.index = call.index,
                                         .id = std::string(call.id),
                                         .name = std::string(call.name),
                                         .arguments = {}});
  }
  known->arguments += call.arguments;
  return {};
}

Result<void> AnswerReader::end_calls() {
  for (const WaitingCall& call : std::exchange(calls_, {})) {
    AFI_TRY_VOID(listener_.on_call(
        {.index = call.index, .id = call.id, .name = call.name, .arguments = call.arguments}));
  }
  return {};
}

void AnswerReader::read_end_of_choice(const JsonValue& choice) {
  const JsonValue reason = choice["finish_reason"];
  // Some servers say an empty one until the last event.
  if (text_in(reason).empty() || std::exchange(is_finished_, true)) return;
  const JsonValue stop = choice["stop_reason"];  // vLLM's and SGLang's
  listener_.on_finish(reason.text(), stop.is(JsonKind::kString) ? stop.text() : "");
}

/// Of the prompt's tokens. llama-server of before 2026 says it in its timings only, which may be in another
/// event than the usage.
std::uint32_t AnswerReader::cached_of(const JsonValue& answer) {
  const JsonValue timed = answer["timings"]["cache_n"];
  if (!timed.is_none()) timed_cached_ = timed.count_or_zero();
  const JsonValue cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"];
  return cached.is_none() ? timed_cached_ : cached.count_or_zero();
}

void AnswerReader::read_prompt(const JsonValue& answer) {
  const std::uint32_t prompt = answer["usage"]["prompt_tokens"].count_or_zero();
  if (prompt == 0) return;
  listener_.on_prompt({.prompt = prompt, .cached = cached_of(answer)});
}

void AnswerReader::read_usage(const JsonValue& answer) {
  const std::uint32_t cached = cached_of(answer);
  const JsonValue usage = answer["usage"];
  if (!usage.is(JsonKind::kObject)) return;
  listener_.on_usage(
      {.prompt = usage["prompt_tokens"].count_or_zero(),
       .cached = cached,
       .output = usage["completion_tokens"].count_or_zero(),
       .reasoning = usage["completion_tokens_details"]["reasoning_tokens"].count_or_zero()});
}

}  // namespace afterimage
