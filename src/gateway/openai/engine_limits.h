// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// Which fields engines of this process take, checked while the request is read; generation_fields.h reads
/// their values. Each says kUnsupported and names a field that none of these engines implements.
/// Threads  Any.

/// In messages: EngineBackend writes which engine it is.
inline constexpr std::string_view kThisEngine = "this engine";

/// kUnsupported: "this engine does not support 'field': `instead`".
[[nodiscard]] std::unexpected<Error> not_offered(std::string_view field, std::string_view instead);
/// A field of the request itself.
[[nodiscard]] Result<void> check_engine_takes_field(ApiOperation operation, const JsonValue& field);
/// Whether the field has no influence on an answer of these engines, as it is or with this value, and is
/// named as ignored. It is then no part of the request's identity.
[[nodiscard]] bool engine_ignores_field(const JsonValue& field);
/// The same of a member of a message, and of a part's media ("detail").
[[nodiscard]] bool engine_ignores_member(std::string_view role, const JsonValue& member);
[[nodiscard]] bool engine_ignores_media_option(std::string_view name);
/// The prompts of a completion or the inputs of an embedding, in the field `name`.
[[nodiscard]] Result<void> check_engine_takes_prompts(std::string_view name,
                                                      const JsonValue& prompts);
/// A message, without its parts. `name` is its place: "messages[0]".
[[nodiscard]] Result<void> check_engine_takes_message(const JsonValue& message,
                                                      const std::string& name);
/// A part of a message. `name` is its place: "messages[0].content[1]".
[[nodiscard]] Result<void> check_engine_takes_part(const JsonValue& part, const std::string& name);

}  // namespace afterimage
