// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/json_writer.h"

namespace afterimage {

void append_compact(std::string& out, const JsonValue& value) {
  if (value.is(JsonKind::kString)) return append_json_string(out, value.text());
  const bool is_object = value.is(JsonKind::kObject);
  if (!is_object && !value.is(JsonKind::kArray)) {
    out.append(value.source());
    return;
  }
  out.push_back(is_object ? '{' : '[');
  bool first = true;
  for (const JsonValue member : value) {
    if (!first) out.push_back(',');
    first = false;
    if (is_object) {
      append_json_string(out, member.key());
      out.push_back(':');
    }
    append_compact(out, member);
  }
  out.push_back(is_object ? '}' : ']');
}

std::string compact(const JsonValue& value) {
  std::string text;
  append_compact(text, value);
  return text;
}

std::string json_string(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

void JsonObject::begin(std::string_view name) {
  if (text_.size() > 1) text_.push_back(',');
  append_json_string(text_, name);
  text_.push_back(':');
}

JsonObject& JsonObject::add(std::string_view name, std::string_view json) {
  begin(name);
  text_.append(json);
  return *this;
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
  append_compact(text_, value);
  return *this;
}

JsonArray& JsonArray::add(std::string_view json) {
  if (text_.size() > 1) text_.push_back(',');
  text_.append(json);
  return *this;
}

}  // namespace afterimage
