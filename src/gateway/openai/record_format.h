// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/text/json_text.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// Where an id and a time are put in; JSON texts hold neither of these bytes.
inline constexpr char kIdGap = '\x01';
inline constexpr char kCreatedGap = '\x02';

/// What is said of an answer without reading it.
struct RecordFacts {
  std::string finish_reason;
  std::string model;
  std::string text;
  bool calls_tools = false;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;
};

/// What stands around the new text of an event. The events of one stream have few of them.
struct EventFrame {
  std::string before;
  std::string after;
  bool operator==(const EventFrame&) const = default;
};
struct RecordedEvent {
  std::uint32_t frame = 0;
  bool is_usage = false;  // says the usage and nothing else
  std::string inner;
};

/// An answer before it is bytes; docs/formats/answers.md.
struct RecordParts {
  ApiOperation operation = ApiOperation::kChat;
  RecordFacts facts;
  std::string whole;  // empty: nobody knows what the whole would be
  bool can_be_whole = false;
  std::vector<EventFrame> frames;
  std::vector<RecordedEvent> events;  // empty: nobody knows what the stream would be
  bool can_say_usage = false;         // in a stream

  /// Adds the event. `cut` is the part of it that is new each time; absent: all of it is.
  void add_event(const JsonValue& event, const JsonValue& cut, bool is_usage);
  void add_event(EventFrame frame, std::string inner, bool is_usage);
};

/// The text of `root` with gaps for its id, if it is a text that is not empty, and for its time of
/// creation, if it is a whole number that is not 0.
[[nodiscard]] std::string with_gaps(const JsonValue& root);

[[nodiscard]] std::string encode(const RecordParts& parts);

/// A record as it lies in its bytes.
struct RecordView {
  struct Frame {
    std::string_view before;
    std::string_view after;
  };
  ApiOperation operation = ApiOperation::kChat;
  bool can_be_whole = false;
  bool can_be_streamed = false;
  bool can_say_usage = false;
  bool calls_tools = false;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::string_view finish_reason;
  std::string_view model;
  std::string_view text;  // only where there is no whole
  std::string_view whole;
  std::vector<Frame> frames;
  std::uint32_t event_count = 0;
  std::string_view events;
};
/// kCorruption: not such bytes.
[[nodiscard]] Result<RecordView> decode(std::string_view bytes);

struct EventView {
  std::uint32_t frame = 0;
  bool is_usage = false;
  std::string_view inner;
};
/// Takes the next event off `rest`, which decode() has found to be good.
[[nodiscard]] EventView take_event(std::string_view& rest);

}  // namespace afterimage
