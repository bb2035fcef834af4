// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <span>
#include <string>

#include "gateway/openai/record.h"

namespace afterimage {

// Records and the ids of the tool calls in the conversation that they answer (ApiRequest::call_ids), which
// are no part of the identity.
// Threads  Any.

/// Whether the answer says one of these ids, so that it is no answer to a request with others.
[[nodiscard]] bool says_call_id(const ApiRecord& record, std::span<const std::string> ids);

/// The answer with other ids for those of its tool calls that the conversation already has: a stored answer
/// may be served at two turns of one conversation, and APIs refuse two calls with one id. `random` gives 32
/// digits each time.
[[nodiscard]] ApiRecord with_fresh_call_ids(ApiRecord record, std::span<const std::string> taken,
                                            const std::function<std::string()>& random);

}  // namespace afterimage
