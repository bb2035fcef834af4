// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "afterimage/question.h"
#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// Reads a part of a chat's message: text, media or a file. Adds it to `message`, and media to the
/// request, and returns its unknown fields as canonical JSON. `name` is its place:
/// "messages[0].content[1]". `engine`: nullptr: the request is another server's.
///
/// Errors   As read_api_request().
/// Threads  Any.
[[nodiscard]] Result<std::string> read_content_part(const JsonValue& part, const std::string& name,
                                                    ApiEngineFields* engine, ApiRequest& request,
                                                    ScopeMessage& message);

}  // namespace afterimage
