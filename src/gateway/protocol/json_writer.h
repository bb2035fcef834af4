// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "foundation/json/json_text.h"

namespace afterimage {

/// A JSON string, quotes included.
[[nodiscard]] std::string json_string(std::string_view text);

/// Writes a JSON object member by member, in order.
class JsonObject {
 public:
  /// `json` is a JSON value.
  JsonObject& add(std::string_view name, std::string_view json);
  JsonObject& add_text(std::string_view name, std::string_view text);
  JsonObject& add_number(std::string_view name, std::uint64_t number);
  JsonObject& add_value(std::string_view name, const JsonValue& value);
  [[nodiscard]] bool is_empty() const { return text_.size() == 1; }
  [[nodiscard]] std::string text() const { return text_ + "}"; }

 private:
  void begin(std::string_view name);

  std::string text_ = "{";
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
