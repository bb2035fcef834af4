// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// Which fields built-in engines take, checked while the request is read; generation_fields.h reads
/// their values. Each says kUnsupported and names a field that no built-in engine implements.
/// Threads  Any.

/// A field of the request itself.
[[nodiscard]] Result<void> check_engine_takes_field(ApiOperation operation, const JsonValue& field);
/// The prompts of a completion or the inputs of an embedding, in the field `name`.
[[nodiscard]] Result<void> check_engine_takes_prompts(std::string_view name,
                                                      const JsonValue& prompts);
/// A message, without its parts. `name` is its place: "messages[0]".
[[nodiscard]] Result<void> check_engine_takes_message(const JsonValue& message,
                                                      const std::string& name);
/// A part of a message. `name` is its place: "messages[0].content[1]".
[[nodiscard]] Result<void> check_engine_takes_part(const JsonValue& part, const std::string& name);

}  // namespace afterimage
