// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "foundation/json/json_text.h"

namespace afterimage {

/// One event of an answer's stream, for all who listen: its JSON is parsed when the first of them
/// asks for it, and not again.
///
/// Threads  One at a time. Valid while the bytes live, until `reader` reads something else.
class ApiEvent {
 public:
  ApiEvent(std::string_view name, std::string_view data, JsonReader& reader)
      : name_(name), data_(data), reader_(reader) {}

  /// Empty: it has none.
  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] std::string_view data() const { return data_; }
  [[nodiscard]] bool is_done() const { return data_ == "[DONE]"; }
  [[nodiscard]] const Result<JsonValue>& json() {
    if (!json_.has_value()) json_ = reader_.read(data_);
    return *json_;
  }
  /// Whether it was seen, without parsing it, that end() is neither kFinished nor kFailed.
  [[nodiscard]] bool surely_goes_on() const {
    if (name_ == "error" || data_.contains(R"("error")") || data_.contains("\\u")) return false;
    constexpr std::string_view kReason = R"("finish_reason")";
    for (std::size_t at = data_.find(kReason); at != std::string_view::npos;) {
      const std::size_t value = data_.find_first_not_of(" :", at + kReason.size());
      if (value == std::string_view::npos || !data_.substr(value).starts_with("null")) return false;
      at = data_.find(kReason, value);
    }
    return true;
  }
  [[nodiscard]] bool is_parsed() const { return json_.has_value(); }
  /// What it says of the end of the answer.
  enum class End : unsigned char {
    kNothing,
    kAwaited,  // a finish reason is null
    kFinished,
    kFailed,  // an error
  };
  [[nodiscard]] End end() {
    if (name_ == "error") return End::kFailed;
    if (is_done() || !json().has_value()) return End::kNothing;
    const JsonValue root = *json();
    // The second is vLLM's before 0.11.
    if (!root["error"].is_none() || root["object"].text() == "error") return End::kFailed;
    End end = End::kNothing;
    for (const JsonValue choice : root["choices"]) {
      const JsonValue reason = choice["finish_reason"];
      if (!reason.is_empty()) return End::kFinished;
      if (reason.is(JsonKind::kNull)) end = End::kAwaited;
    }
    return end;
  }

 private:
  std::string_view name_;
  std::string_view data_;
  JsonReader& reader_;
  std::optional<Result<JsonValue>> json_;
};

}  // namespace afterimage
