// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"

namespace afterimage {

// Fields of a client's JSON. `place` names one for the client: "max_tokens", "messages[3].role".

/// kInvalidArgument: "`place` `what`", such as "max_tokens must be a whole number".
[[nodiscard]] inline std::unexpected<Error> wrong_field(std::string_view place,
                                                        std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, std::string(place) + " " + std::string(what));
}

/// A string; kInvalidArgument: anything else, or none.
[[nodiscard]] inline Result<std::string_view> text_field(const JsonValue& value,
                                                         std::string_view place) {
  if (!value.is(JsonKind::kString)) return wrong_field(place, "must be a string");
  return value.text();
}

/// true or false; absent or null: `otherwise`.
[[nodiscard]] inline Result<bool> flag_field(const JsonValue& value, std::string_view place,
                                             bool otherwise = false) {
  if (value.is_none()) return otherwise;
  if (value.is(JsonKind::kTrue) || value.is(JsonKind::kFalse)) return value.is(JsonKind::kTrue);
  return wrong_field(place, "must be true or false");
}

}  // namespace afterimage
