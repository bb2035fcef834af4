// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// What is new each time that an answer is given: no two answers have one id.
struct ApiStamp {
  std::string id;            // "chatcmpl-…"
  std::int64_t created = 0;  // seconds since 1970
};

/// One answer of a model in the one form in which it is kept, whether it came as a stream or whole,
/// and from which both are made again: roles, text, reasoning, refusals, tool calls, log
/// probabilities, finish reasons, usage and every field that nobody knows.
///
///   whole  → record → whole   the same JSON value, but for id and created
///   stream → record → stream  the same events, one for one, but for id and created
///   stream → record → whole   what the official clients' own accumulators make of the stream
///   whole  → record → stream  folds to the same whole: role, content, finish reason, usage
///
/// Threads  Any; immutable.
/// Source   docs/formats/answers.md.
class ApiRecord {
 public:
  /// From a whole answer (status 200). kInvalidArgument: not such JSON.
  [[nodiscard]] static Result<ApiRecord> of_body(ApiOperation operation, std::string_view json);
  /// From serialize(). kCorruption: not such bytes.
  [[nodiscard]] static Result<ApiRecord> parse(std::string_view bytes);
  [[nodiscard]] std::string serialize() const;
  /// Of serialize().
  [[nodiscard]] Bytes size() const;

  /// Whether it can be given as a stream, or whole. False, for instance: the stream did not say
  /// its usage, which a whole answer has; a delta has fields that nobody knows how to add up.
  [[nodiscard]] bool can_be_whole() const;
  [[nodiscard]] bool can_be_streamed(bool include_usage) const;

  /// The body of a whole answer; only if it can be.
  [[nodiscard]] std::string body(const ApiStamp& stamp) const;
  /// The body of a stream: events "data: …\n\n", "data: [DONE]\n\n" last; only if it can be.
  /// The last event before it is the usage if, and only if, `include_usage`.
  [[nodiscard]] std::string events(const ApiStamp& stamp, bool include_usage) const;

  /// Of all choices: "stop" only if every one of them stopped so; else the first that did not
  /// ("length", "tool_calls", "content_filter", …). "stop" for embeddings.
  [[nodiscard]] std::string finish_reason() const;
  [[nodiscard]] bool calls_tools() const;
  /// Text of the first choice, for people and for comparing; empty for embeddings.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string model() const;
  [[nodiscard]] TokenCount prompt_tokens() const;  // 0: not said
  [[nodiscard]] TokenCount output_tokens() const;

 private:
  struct Content;
  explicit ApiRecord(std::shared_ptr<const Content> content) : content_(std::move(content)) {}
  static Result<ApiRecord> of_bytes(std::string bytes);
  friend class StreamRecorder;
  friend class LiveEvents;

  std::shared_ptr<const Content> content_;
};

/// Reads the bytes of an answering stream as they pass, in whatever pieces they come, and makes a
/// record of it when it ended as it should.
///
/// Threads  One at a time.
class StreamRecorder {
 public:
  /// What is larger than `limit` is not recorded (it passes all the same).
  explicit StreamRecorder(ApiOperation operation, Bytes limit = 16_MiB);
  ~StreamRecorder();
  StreamRecorder(StreamRecorder&&) noexcept;
  StreamRecorder& operator=(StreamRecorder&&) noexcept;

  /// Never fails: what is not such a stream is remembered, and finish() says it.
  void feed(std::string_view bytes);
  /// "data: [DONE]" was seen.
  [[nodiscard]] bool done() const;
  /// kInvalidArgument: bytes that are no such events, an error event, two answers in one; and a
  /// stream that ended without [DONE] or without a finish reason for every choice.
  /// kLimitExceeded: larger than the limit.
  [[nodiscard]] Result<ApiRecord> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What an engine of this process said, as a server of this API says it.
struct PlainAnswer {
  std::string text;
  std::string finish_reason;
  std::string model;
  TokenCount prompt_tokens{};
  TokenCount output_tokens{};
};
/// Chat and completions, with a finish reason. Bytes of the text that are not UTF-8 are replaced.
[[nodiscard]] ApiRecord record_of(ApiOperation operation, const PlainAnswer& answer);

/// {"error":{"message":…,"type":…,"param":null,"code":…}}, as every client of this API reads it.
[[nodiscard]] std::string api_error(std::string_view message, std::string_view type,
                                    std::string_view code);

}  // namespace afterimage
