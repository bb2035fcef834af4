// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/engine.h"
#include "gateway/openai/record.h"
#include "gateway/openai/record_format.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// What an engine adds to one of the choices of an answer.
struct EngineDelta {
  std::uint32_t choice = 0;
  std::string_view content{};
  std::string_view reasoning{};
  /// The call that is begun or continued: its id and name are sent once, when it begins.
  struct Call {
    std::size_t index = 0;
    std::string_view id{};
    std::string_view name{};
    std::string_view arguments{};
  };
  std::optional<Call> call = std::nullopt;
  std::span<const TokenLogprobs> logprobs{};
};

/// Events of a stream. The last one takes members until text() ends it.
class OpenEvents {
 public:
  OpenEvents() = default;
  /// One event: a JSON object without its closing brace.
  explicit OpenEvents(std::string_view object) { text_.append("data: ").append(object); }
  OpenEvents& operator+=(const OpenEvents& more);
  [[nodiscard]] bool is_empty() const { return text_.empty(); }
  /// "data: {…}\n\n" for each. `members` end the last one: ",\"timings\":{…}".
  [[nodiscard]] std::string text(std::string_view members = {}) const;

 private:
  std::string text_;
};

/// Makes the event stream and the record of an answer while an engine generates it. The record is
/// the one that StreamRecorder would make by parsing the events with their usage.
///
/// Threads  One at a time.
class LiveEvents {
 public:
  /// `operation` is chat or completion.
  /// `fingerprint` names model and settings; empty: events have no "system_fingerprint".
  LiveEvents(ApiOperation operation, const ResponseStamp& stamp, std::string_view model,
             std::string_view fingerprint = {});

  /// The events of a delta. The first of each choice of a chat begins with its role.
  [[nodiscard]] OpenEvents add(const EngineDelta& delta);
  /// The last event of a choice. Choices are finished in order.
  [[nodiscard]] OpenEvents finish(std::uint32_t choice, std::string_view finish_reason);
  /// The last events: the finish reason of a choice that is not yet finished, if that is the only
  /// one; the usage, with the `cached` tokens of the prompt, whose KV was reused, if `include_usage`, and [DONE]. `details` are members of the event with the usage,
  /// which is then sent in any case, and not recorded: ",\"timings\":{…}".
  [[nodiscard]] std::string end(const Answer& answer, TokenCount cached, bool include_usage,
                                std::string_view details = {});
  /// After end().
  [[nodiscard]] ApiRecord record() const;

 private:
  struct Choice {
    bool begun = false;
    std::optional<std::string> content;
    std::string reasoning;
    std::vector<ToolCall> calls;
    std::vector<TokenLogprobs> tokens;
    std::size_t text_offset = 0;
    std::string finish_reason;
  };

  [[nodiscard]] bool is_chat() const { return parts_.operation == ApiOperation::kChat; }
  Choice& choice_at(std::uint32_t index);
  OpenEvents begin(std::uint32_t index);
  OpenEvents add_call(std::uint32_t index, const EngineDelta::Call& call);
  /// The `logprobs` of an event with these tokens, as JSON.
  [[nodiscard]] std::string logprobs_json(std::span<const TokenLogprobs> tokens,
                                          std::size_t text_offset) const;
  /// Records the event, and says it. `inner` is JSON; `end` closes what the event opened, but for its
  /// last brace.
  OpenEvents event(std::uint32_t choice, std::string inner, const std::string& end);
  [[nodiscard]] std::string whole_choice(std::uint32_t index) const;

  std::string about_;  // the model and the fingerprint, as JSON
  std::string sent_;   // what every event begins with, as it is sent
  std::string kept_;   // and as it is recorded: with gaps
  std::vector<Choice> choices_;
  RecordParts parts_;
};

}  // namespace afterimage
