// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "foundation/http/server.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// POST /v1/messages/count_tokens: {"input_tokens": …} of the chat that the request becomes.
///
/// The built-in engine counts itself. Another server is asked at /tokenize as vLLM has it, then at
/// /v1/chat/completions/input_tokens as llama-server has it. Nothing is cached.
///
/// Errors   501 in Anthropic's form: the server counts at neither; otherwise as /v1/messages.
/// Threads  Any.
void count_tokens(Gateway& gateway, HttpRequest request, const Responder& responder);

}  // namespace afterimage
