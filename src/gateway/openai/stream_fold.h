// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "gateway/openai/record_format.h"

namespace afterimage {

/// Accumulates the events of a stream into the complete response, as the official clients do.
///
/// Fields that are known to be appended are appended: text, reasoning, refusal, tool arguments, log
/// probabilities. An unknown field whose value differs between events makes the complete response
/// unknown; the stream can still be replayed as it was.
///
/// Errors   kInvalidArgument: not an event of this API, or an event of another answer.
/// Threads  One at a time.
class StreamFold {
 public:
  explicit StreamFold(ApiOperation operation) : operation_(operation) {}

  [[nodiscard]] Result<void> add(const JsonValue& event);
  /// kInvalidArgument: there is no choice, or one without a finish reason.
  [[nodiscard]] Result<void> check_finished() const;
  [[nodiscard]] RecordFacts facts() const;
  /// The complete response with placeholders. nullopt: it, or its usage, is unknown.
  [[nodiscard]] std::optional<std::string> whole() const;

 private:
  struct Call {
    std::string id;
    std::string type;
    std::string name;
    std::string arguments;
  };
  struct Text {
    bool is_said = false;  // present, possibly as null
    std::optional<std::string> value;
  };
  /// An unknown field.
  struct Other {
    std::string value = "null";
    bool is_said = false;  // present with a value other than null
  };
  struct Choice {
    std::string role;
    std::map<std::string, Text, std::less<>> texts;
    std::map<std::uint64_t, Call> calls;
    std::optional<Call> function_call;
    bool has_probabilities = false;  // present, possibly as null
    std::map<std::string, std::optional<std::string>, std::less<>> probabilities;
    std::string finish_reason;
    std::map<std::string, Other, std::less<>> others;
  };

  Result<void> add_field(const JsonValue& field);
  Result<void> add_choice(const JsonValue& choice);
  Result<void> add_choice_field(const JsonValue& field, Choice& choice);
  Result<void> add_delta(const JsonValue& delta, Choice& choice);
  void add_text(const JsonValue& text, Text& to);
  void add_calls(const JsonValue& calls, Choice& choice);
  void add_function(const JsonValue& function, Call& call);
  void set_once(const JsonValue& value, std::string& to);
  void add_probabilities(const JsonValue& probabilities, Choice& choice);
  [[nodiscard]] std::string choice_json(std::uint64_t index, const Choice& choice) const;
  [[nodiscard]] static std::string message_json(const Choice& choice);

  ApiOperation operation_;
  bool is_foldable_ = true;
  std::string id_;
  bool has_created_ = false;
  bool has_object_ = false;
  std::optional<std::string> model_;
  std::string usage_;  // as JSON; empty: absent
  std::uint32_t prompt_tokens_ = 0;
  std::uint32_t output_tokens_ = 0;
  std::map<std::string, Other, std::less<>> latest_;  // known fields whose last value counts
  std::map<std::string, Other, std::less<>> others_;
  std::map<std::uint64_t, Choice> choices_;
};

}  // namespace afterimage
