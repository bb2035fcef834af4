// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings.h"
#include "caches/scheduling/encoder_ledger.h"

/// What a manager of encoder outputs reads of vLLM's Request, and its answers in vLLM's types.
///
/// Errors   A missing attribute is AttributeError, an input beyond the request's is IndexError.
namespace afterimage::python {

/// The str of the request's id.
nb::object name_of(nb::handle request);
/// The str that identifies the media item of this input.
nb::object identifier_of(nb::handle request, std::int64_t input);
/// Calls get_num_encoder_embeds(), which may run any Python code.
EmbeddingCount size_of(nb::handle request, std::int64_t input);
/// A negative budget fits nothing, and every item has a size.
EncoderDemand demand_of(nb::handle request, std::int64_t input, std::int64_t budget,
                        std::int64_t scheduled);

/// The UTF-8 of a str; TypeError for anything else.
std::string utf8(nb::handle text);
InputIndex input_of(std::int64_t input);
EmbeddingCount embeds(std::int64_t count);

nb::set inputs_of(const std::vector<InputIndex>& inputs);
nb::list texts(const std::vector<ItemId>& items);

}  // namespace afterimage::python
