// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "foundation/json/json_text.h"

namespace afterimage {

/// A JSON string, quotes included.
[[nodiscard]] std::string json_string(std::string_view text);

/// Writes a JSON object member by member, in order.
class JsonObject {
 public:
  JsonObject() = default;
  /// Continues the text of an object without its closing brace.
  explicit JsonObject(std::string begun) : text_(std::move(begun)), is_empty_(text_.size() == 1) {}

  /// The next member's name; its value is appended.
  JsonObject& begin(std::string_view name);
  JsonObject& append(std::string_view json);
  /// `json` is a JSON value.
  JsonObject& add(std::string_view name, std::string_view json);
  JsonObject& add_text(std::string_view name, std::string_view text);
  JsonObject& add_number(std::string_view name, std::uint64_t number);
  JsonObject& add_value(std::string_view name, const JsonValue& value);
  /// A member of another object, as it is spelled there.
  JsonObject& add_member(const JsonValue& member) { return add(member.key(), member.source()); }
  [[nodiscard]] bool is_empty() const { return is_empty_; }
  [[nodiscard]] std::string text() const { return text_ + "}"; }
  /// The text up to here; what is added later begins another one.
  [[nodiscard]] std::string cut() { return std::exchange(text_, {}); }

 private:
  std::string text_ = "{";
  bool is_empty_ = true;
};

/// Writes a JSON array value by value.
class JsonArray {
 public:
  JsonArray& add(std::string_view json);
  [[nodiscard]] bool is_empty() const { return text_.size() == 1; }
  [[nodiscard]] std::string text() const { return text_ + "]"; }

 private:
  std::string text_ = "[";
};

}  // namespace afterimage
