// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "caches/similarity/verifier.h"

namespace afterimage {

/// A cross-encoder in a GGUF file, in this process: a reranker of BERT's family, such as
/// bench/cross_encoder.py trains.
///
/// Shape    Scores are logits, those of `llama-server --reranking` with the same file.
/// Errors   Of make: kNotFound, kCorruption, kUnsupported: not such a model, or a build without
///          llama.cpp. Of score: kInvalidArgument: two questions of more than 512 tokens;
///          kUnavailable: the library failed.
/// Threads  Any; pairs are computed one after the other.
/// Cost     Milliseconds for a pair.
[[nodiscard]] Result<std::unique_ptr<Verifier>> make_llama_verifier(const std::string& path,
                                                                    std::uint32_t threads = 0);

}  // namespace afterimage
