// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/json/json_writer.h"

namespace afterimage {

std::string json_string(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

JsonObject& JsonObject::begin(std::string_view name) {
  if (!std::exchange(is_empty_, false)) text_.push_back(',');
  append_json_string(text_, name);
  text_.push_back(':');
  return *this;
}

JsonObject& JsonObject::append(std::string_view json) {
  text_.append(json);
  return *this;
}

JsonObject& JsonObject::add(std::string_view name, std::string_view json) {
  return begin(name).append(json);
}

JsonObject& JsonObject::add_text(std::string_view name, std::string_view text) {
  begin(name);
  append_json_string(text_, text);
  return *this;
}

JsonObject& JsonObject::add_number(std::string_view name, std::uint64_t number) {
  return add(name, std::to_string(number));
}

JsonObject& JsonObject::add_value(std::string_view name, const JsonValue& value) {
  begin(name);
  append_canonical(text_, value);
  return *this;
}

JsonArray& JsonArray::add(std::string_view json) {
  if (text_.size() > 1) text_.push_back(',');
  text_.append(json);
  return *this;
}

}  // namespace afterimage
