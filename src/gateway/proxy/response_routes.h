// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string_view>

#include "foundation/http/server.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// /v1/responses/{id} and its input_items: get, delete, list. Each client has responses of its own.
///
/// Errors   404: there is no such response, or no such path; 400: a query that is not supported.
/// Threads  Any.
void handle_stored_response(Gateway& gateway, const HttpRequest& request,
                            const Responder& responder, std::string_view path);

}  // namespace afterimage
