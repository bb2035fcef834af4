// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string_view>

#include "foundation/http/server.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// /v1/files and what is under it: upload, list, get, content, delete; each client has files of its own.
/// With an anthropic-version header in the form of Anthropic's API, otherwise of OpenAI's.
///
/// Errors   In that form: 400 a form that cannot be read or a field that is not supported; 404 another
///          path or no such file; 413 a file larger than files.size.
/// Threads  Any.
void handle_files(Gateway& gateway, HttpRequest request, const Responder& responder,
                  std::string_view path);

}  // namespace afterimage
