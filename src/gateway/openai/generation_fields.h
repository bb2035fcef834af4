// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// Reads the fields that say how a built-in engine generates the answer.
///
/// Errors   kInvalidArgument, naming the field: a value of the wrong type or out of range.
///          kUnsupported: a kind of tool or response format that no built-in engine has.
/// Threads  Any.
/// A text, a token, a list of both, {"prompt_string": text} as llama-server has it, or {"content": parts} as
/// a message has them. `name` is its field.
[[nodiscard]] Result<ApiPrompt> read_prompt(const JsonValue& prompt, std::string_view name);
[[nodiscard]] Result<ApiGeneration> read_generation(ApiOperation operation, const JsonValue& root);

/// Reads what a message of a chat has besides its role and content. `name` is its place:
/// "messages[0]".
[[nodiscard]] Result<ApiMessageFields> read_message_fields(const JsonValue& message,
                                                           const std::string& name);

}  // namespace afterimage
