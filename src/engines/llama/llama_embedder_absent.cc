// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/absent.h"
#include "engines/llama/llama_embedder.h"
#include "engines/llama/llama_verifier.h"

namespace afterimage {

Result<std::unique_ptr<Embedder>> make_llama_embedder(const std::string& /*path*/,
                                                      std::uint32_t /*threads*/) {
  return fail(ErrorCode::kUnsupported, kHowToGetLlama);
}

Result<std::unique_ptr<Verifier>> make_llama_verifier(const std::string& /*path*/,
                                                      std::uint32_t /*threads*/) {
  return fail(ErrorCode::kUnsupported, kHowToGetLlama);
}

}  // namespace afterimage
