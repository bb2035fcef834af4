// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// The body of the response to a request for embeddings, which was read for an engine. `model` is
/// the name in the response. "encoding_format": "base64" gives each vector as its bytes.
///
/// Errors   Those of Engine::embed(); kInvalidArgument, kUnsupported: a field.
/// Threads  Any.
[[nodiscard]] Result<std::string> answer_embeddings(const ApiRequest& request,
                                                    const Engine& engine);

}  // namespace afterimage
