// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <string_view>

#include "foundation/http/server.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// Whether a path belongs to an API that the gateway serves itself, by way of chat completions:
/// /v1/messages, /v1/responses, /v1/files (unless files.size is 0), and what is under them.
[[nodiscard]] bool is_protocol_path(Gateway& gateway, std::string_view path);

/// For the bodies of "messages" and "responses"; nullptr: another operation, which needs none.
[[nodiscard]] std::shared_ptr<Translation> translation_for(Gateway& gateway,
                                                           std::string_view operation);

/// Serves a request to such a path: as a GatewayRequest that asks the backend for a chat completion.
///
/// Errors   As that API says them: the wrong method, a path that it does not have.
/// Threads  Any.
void handle_protocol(Gateway& gateway, HttpRequest request, const Responder& responder);

}  // namespace afterimage
