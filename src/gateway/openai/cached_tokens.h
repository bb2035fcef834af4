// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "gateway/openai/request.h"

namespace afterimage {

/// Whether a server's `cached_tokens` for this request say what its prefix cache held before. vLLM's do not
/// where several choices share one prompt (the others count what the first has just computed), nor where the
/// prompt's own log probabilities are asked for (it computes them all, whatever it holds):
/// findings/vllm_counts_a_new_prompt_as_cached.sh.
[[nodiscard]] bool tells_what_was_cached(const ApiRequest& request);

}  // namespace afterimage
