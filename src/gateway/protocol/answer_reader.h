// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "foundation/text/event_stream.h"
#include "gateway/openai/api_event.h"

namespace afterimage {

/// Tokens of one answer, as a chat completion counts them.
struct TokenUsage {
  std::uint64_t prompt = 0;  // cached ones included
  std::uint64_t cached = 0;
  std::uint64_t output = 0;  // reasoning included
  std::uint64_t reasoning = 0;
};

/// A tool call, or a piece of its arguments.
struct AnswerCall {
  std::uint64_t index = 0;
  std::string_view id = {};    // with the first piece
  std::string_view name = {};  // with the first piece
  std::string_view arguments = {};
};

/// Hears what an answer says: all at once from a complete one, piece by piece from a stream.
class AnswerListener {
 public:
  virtual ~AnswerListener() = default;
  /// Before all else, if it is known then: the tokens of the prompt.
  virtual void on_prompt(const TokenUsage& /*usage*/) {}
  /// Then; once.
  virtual void on_begin(std::string_view model) = 0;
  virtual void on_reasoning(std::string_view text) = 0;
  virtual void on_text(std::string_view text) = 0;
  virtual void on_refusal(std::string_view text) = 0;
  /// Servers may mix the pieces of two calls; here all pieces of one come before the next call.
  ///
  /// Errors   kInvalidArgument: pieces in an order that the other protocol cannot say.
  virtual Result<void> on_call(const AnswerCall& call) = 0;
  /// `reason` as in the chat; `stop` is the stop sequence that ended it, where the server says so.
  virtual void on_finish(std::string_view reason, std::string_view stop) = 0;
  virtual void on_usage(const TokenUsage& usage) = 0;
};

/// Reads the answer to a chat with one choice.
///
/// Errors   kInvalidArgument: not such an answer. kUnavailable: the server says that it failed.
///          kLimitExceeded: an event of more than 16 MiB. After an error nothing is read any more.
/// Threads  One at a time.
class AnswerReader {
 public:
  explicit AnswerReader(AnswerListener& listener) : listener_(listener) {}

  Result<void> read_whole(std::string_view body);
  /// A part of an event stream.
  Result<void> feed(std::string_view bytes);
  /// The event stream ended. kUnavailable: it broke off before its answer was complete.
  Result<void> end();
  [[nodiscard]] bool is_done() const { return is_done_; }

 private:
  Result<void> read_event(ApiEvent& event);
  void begin(const JsonValue& root);
  Result<void> read_message(const JsonValue& message);
  Result<void> read_call(const AnswerCall& call);
  /// Says the calls that wait: the answer is complete.
  Result<void> end_calls();
  void read_end_of_choice(const JsonValue& choice);
  [[nodiscard]] std::uint32_t cached_of(const JsonValue& answer);
  void read_prompt(const JsonValue& answer);
  void read_usage(const JsonValue& answer);

  AnswerListener& listener_;
  EventStreamReader events_;
  JsonReader json_;
  bool has_begun_ = false;
  std::uint32_t timed_cached_ = 0;  // as timings say
  bool is_finished_ = false;        // a finish reason came
  bool is_done_ = false;
  std::optional<Error> failed_;

  /// A call that waits until the answer is complete.
  struct WaitingCall {
    std::uint64_t index = 0;
    std::string id;
    std::string name;
    std::string arguments;
  };
  std::optional<std::uint64_t> first_call_;  // is said as it comes
  std::vector<WaitingCall> calls_;
};

}  // namespace afterimage
