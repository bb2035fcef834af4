// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/fields.h"

#include <algorithm>
#include <array>

namespace afterimage {

std::unexpected<Error> untranslatable(std::string_view place, std::string_view why) {
  return fail(ErrorCode::kUnsupported,
              std::string(place) + " is not supported: " + std::string(why));
}

Result<void> check_members(const JsonValue& object, std::string_view place,
                           std::initializer_list<std::string_view> known) {
  if (!object.is(JsonKind::kObject)) return wrong_field(place, "must be an object");
  for (const JsonValue member : object) {
    if (member.is(JsonKind::kNull) || std::ranges::find(known, member.key()) != known.end()) {
      continue;
    }
    return untranslatable(std::string(place) + "." + std::string(member.key()),
                          "a chat completion has no such field; leave it out");
  }
  return {};
}

Result<void> check_number(const JsonValue& value, std::string_view place) {
  if (value.is_none() || value.number().has_value()) return {};
  return wrong_field(place, "must be a number");
}

Result<void> check_count(const JsonValue& value, std::string_view place) {
  if (value.count().value_or(0) > 0) return {};
  return wrong_field(place, "must be a whole number, 1 or more");
}

bool is_passed_on(std::string_view name) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"cache", "seed", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
       "chat_template_kwargs", "cache_salt"});
  return std::ranges::find(kNames, name) != kNames.end();
}

void append_ignored(HttpHeaders& headers, const std::vector<std::string>& places) {
  constexpr std::string_view kName = "X-Afterimage-Ignored";
  std::string list(headers.find(kName).value_or(""));
  if (!list.empty() && !places.empty()) list += ", ";
  list += list_of(places);
  if (!list.empty()) headers.set(kName, list);
}

std::string list_of(const std::vector<std::string>& places) {
  std::string list;
  for (const std::string& place : places) list += (list.empty() ? "" : ", ") + place;
  return list;
}

std::string element(std::string_view list, std::size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

}  // namespace afterimage
