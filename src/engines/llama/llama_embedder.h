// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "caches/similarity/embedder.h"

namespace afterimage {

/// A sentence embedder in a GGUF file, in this process: BERT's family, such as all-MiniLM-L6-v2
/// (scripts/fetch-embedder.py).
///
/// Shape    As the model's, of length 1. Of a text longer than 512 tokens the beginning counts.
/// Errors   Of make: kNotFound, kCorruption, kUnsupported: not such a model, or a build without
///          llama.cpp. Of embed: kUnsupported: an image; kUnavailable: the library failed.
/// Threads  Any; texts are computed one after the other.
/// Cost     Milliseconds for a question.
[[nodiscard]] Result<std::unique_ptr<Embedder>> make_llama_embedder(const std::string& path,
                                                                    std::uint32_t threads = 0);

}  // namespace afterimage
