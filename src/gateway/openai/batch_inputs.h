// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "foundation/json/json_text.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// What a list with one input means: the input. Anything else is returned as it is.
/// Threads  Any.
[[nodiscard]] JsonValue lone_input(const JsonValue& input);

/// The inputs of a request for embeddings that are requests of their own. Empty: there is one, or too many,
/// or a field may make the vector of one input depend on the others (Jina's "late_chunking").
/// Source   docs/decisions/0047.
[[nodiscard]] ApiBatch batch_of(const JsonValue& root);

}  // namespace afterimage
