// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// Placeholders for the id and the creation time of a response. JSON text contains neither byte.
inline constexpr char kIdPlaceholder = '\x01';
inline constexpr char kCreatedPlaceholder = '\x02';

/// Facts about an answer that are read without parsing it again.
struct RecordFacts {
  std::string finish_reason;
  std::string model;
  std::string text;
  bool calls_tools = false;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;
};

/// The text around the delta of an event. The events of a stream share few frames.
struct EventFrame {
  std::string before;
  std::string after;
  bool operator==(const EventFrame&) const = default;
};
struct RecordedEvent {
  std::uint32_t frame = 0;
  bool is_usage = false;  // carries the usage and no choice
  std::string inner;      // the delta
};

/// A record before it is encoded. Source: docs/formats/answers.md.
struct RecordParts {
  ApiOperation operation = ApiOperation::kChat;
  RecordFacts facts;
  std::string whole;  // the complete response, with placeholders; empty: unknown
  /// Of an operation whose answers are kept as they came; `whole` is then the bytes.
  std::string content_type;
  bool has_body = false;
  std::vector<EventFrame> frames;
  std::vector<RecordedEvent> events;
  bool can_be_streamed = false;   // without events: they are made of the whole when asked for
  bool can_stream_usage = false;  // the stream can end with a usage event

  /// Adds an event. `cut` is the delta inside it; absent: all of it is frame.
  void add_event(const JsonValue& event, const JsonValue& cut, bool is_usage);
  void add_event(EventFrame frame, std::string inner, bool is_usage);
};

/// The part of an object's text that a placeholder replaces. `end` is 0: it replaces nothing.
struct Gap {
  std::size_t begin = 0;
  std::size_t end = 0;
  char mark = 0;
};
/// The id, if that is a non-empty string.
[[nodiscard]] Gap id_gap(const JsonValue& root);
/// The creation time, if that is a whole number other than 0.
[[nodiscard]] Gap created_gap(const JsonValue& root);

/// The JSON text of `root` with placeholders for its id, if that is a non-empty string, and for its
/// creation time, if that is a whole number other than 0.
[[nodiscard]] std::string with_placeholders(const JsonValue& root);

/// JSON text with spaces for its line breaks, which would end an event. In JSON they are only between
/// values, where a space is equal.
[[nodiscard]] std::string on_one_line(std::string text);

[[nodiscard]] std::string encode(const RecordParts& parts);

/// A decoded record; its views point into the encoded bytes.
struct RecordView {
  struct Frame {
    std::string_view before;
    std::string_view after;
  };
  ApiOperation operation = ApiOperation::kChat;
  bool has_body = false;
  bool can_be_streamed = false;  // without events: they are made of the whole
  bool can_stream_usage = false;
  bool calls_tools = false;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::string_view finish_reason;
  std::string_view model;
  std::string_view text;  // only if `whole` is empty
  std::string_view
      content_type;  // of an answer that is kept as it came: its whole has no placeholders
  std::string_view whole;
  std::vector<Frame> frames;
  std::uint32_t event_count = 0;
  std::string_view events;
};
/// kCorruption: the bytes are not a record.
[[nodiscard]] Result<RecordView> decode(std::string_view bytes);

struct EventView {
  std::uint32_t frame = 0;
  bool is_usage = false;
  std::string_view inner;
};
/// Removes and returns the next event of `rest`, which decode() has validated.
[[nodiscard]] EventView take_event(std::string_view& rest);

}  // namespace afterimage
