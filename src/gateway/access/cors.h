// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "foundation/http/message.h"

namespace afterimage {

// Which web pages may use the API from a browser (listen.cors_origins), and how browsers are told: CORS, as
// the Fetch standard has it, without credentials. `origins`: "*", or origins as browsers send them.
// Threads  Any.

/// For every response to a request with these headers; none if `origins` is empty.
[[nodiscard]] HttpHeaders cors_headers(const std::vector<std::string>& origins,
                                       const HttpHeaders& asked);

/// The response to a browser that asks whether a page may send its request; nullopt: it is no such
/// question, or one of a page that may not.
[[nodiscard]] std::optional<HttpReply> preflight_reply(const std::vector<std::string>& origins,
                                                       const HttpRequest& request);

/// Removes what another server says of its own pages.
void remove_cors_headers(HttpHeaders& headers);

}  // namespace afterimage
