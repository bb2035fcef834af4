// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// The tokens of each input of a request for embeddings.
using EmbeddingInputs = std::vector<std::vector<TokenId>>;

/// Errors   kInvalidArgument, kUnsupported: a field. The lengths are not checked.
/// Threads  Any.
[[nodiscard]] Result<EmbeddingInputs> embedding_inputs(const ApiRequest& request,
                                                       const Engine& engine);

/// The body of the response to a request for embeddings, which was read for an engine.
/// "encoding_format": "base64" gives each vector as its bytes.
///
/// Errors   Those of Engine::embed().
/// Threads  Any.
[[nodiscard]] Result<std::string> answer_embeddings(const ApiRequest& request,
                                                    const EmbeddingInputs& inputs,
                                                    const Engine& engine);

}  // namespace afterimage
