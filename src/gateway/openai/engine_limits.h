// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "afterimage/result.h"
#include "foundation/text/json_text.h"

namespace afterimage {

/// Which fields built-in engines take, checked while the request is read; generation_fields.h reads
/// their values. Each says kUnsupported and names a field that no built-in engine implements.
/// Threads  Any.

/// A field of the request itself.
[[nodiscard]] Result<void> check_engine_takes_field(const JsonValue& field);
/// A prompt of a completion that is an array.
[[nodiscard]] Result<void> check_engine_takes_prompts(const JsonValue& prompts);
/// A message, without its parts. `name` is its place: "messages[0]".
[[nodiscard]] Result<void> check_engine_takes_message(const JsonValue& message,
                                                      const std::string& name);
/// A part of a message. `name` is its place: "messages[0].content[1]".
[[nodiscard]] Result<void> check_engine_takes_part(const JsonValue& part, const std::string& name);

}  // namespace afterimage
