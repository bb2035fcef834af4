// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "afterimage/result.h"
#include "foundation/text/json_text.h"
#include "gateway/protocol/chat_content.h"
#include "gateway/protocol/json_writer.h"

namespace afterimage {

/// Adds the chat's system message for `system`, a string or a list of text blocks; none: nothing.
///
/// Errors   As read_messages_request(), for this and the next.
Result<void> add_system(const JsonValue& system, JsonArray& messages);

/// Adds the chat's messages for one message: a user's tool results are messages of their own.
Result<void> add_message(const JsonValue& message, const std::string& place,
                         const FileLookup& files, JsonArray& messages);

}  // namespace afterimage
