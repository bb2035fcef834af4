// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/tensor.h"
#include "engines/llama_library/loaded_model.h"
#include "engines/llama_library/span_parts.h"

namespace afterimage {

/// The embeddings of one media item of a prompt, ready to be computed.
struct PromptMedia {
  std::vector<SpanPart> parts;
  std::span<const float> rows;  // ModelFacts::row_width floats for each token of the parts
  std::vector<float> aligned;   // a copy of them, if the cached bytes are not aligned
};

/// Reads an encoder output, as LlamaEngine::encode() makes it, for span `index` of a prompt. Refers to
/// `views`, unless their bytes are not aligned.
///
/// Errors   kInvalidArgument: not of the span's length; kCorruption: no such encoder output.
Result<PromptMedia> prompt_media(const LoadedModel& model, const Sequence& prompt,
                                 std::size_t index, const TensorViews& views);

/// Engine::hidden_state() of a prompt that check_llama_prompt() accepts.
Result<std::vector<float>> llama_hidden_state(const LoadedModel& model, const Sequence& prompt,
                                              std::span<const TensorViews> embeddings);

}  // namespace afterimage
