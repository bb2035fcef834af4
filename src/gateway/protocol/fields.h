// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/http/message.h"
#include "foundation/json/json_fields.h"
#include "foundation/json/json_writer.h"

namespace afterimage {

/// kUnsupported: a chat completion has nothing that means the same as the field at `place`.
[[nodiscard]] std::unexpected<Error> untranslatable(std::string_view place, std::string_view why);

/// kUnsupported, naming the first member that is neither null nor in `known`; kInvalidArgument: not an
/// object.
[[nodiscard]] Result<void> check_members(const JsonValue& object, std::string_view place,
                                         std::initializer_list<std::string_view> known);
/// A number, or absent or null.
[[nodiscard]] Result<void> check_number(const JsonValue& value, std::string_view place);
/// A whole number, 1 or more.
[[nodiscard]] Result<void> check_count(const JsonValue& value, std::string_view place);

/// Fields that servers of chat completions have besides the protocol's own, and cache directives: they
/// are passed on under the same name.
[[nodiscard]] bool is_passed_on(std::string_view name);

/// Names in X-Afterimage-Ignored what has no influence on the answer, after what stands there.
void append_ignored(HttpHeaders& headers, const std::vector<std::string>& places);

/// "betas, tools[3]"
[[nodiscard]] std::string list_of(const std::vector<std::string>& places);
/// "messages[3]"
[[nodiscard]] std::string element(std::string_view list, std::size_t index);

}  // namespace afterimage
