// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/llama_embedder.h"
#include "engines/llama/llama_verifier.h"

namespace afterimage {
namespace {

std::unexpected<Error> built_without() {
  return fail(
      ErrorCode::kUnsupported,
      "this program was built without llama.cpp: run scripts/build-llama.sh and build again");
}

}  // namespace

Result<std::unique_ptr<Embedder>> make_llama_embedder(const std::string& /*path*/,
                                                      std::uint32_t /*threads*/) {
  return built_without();
}

Result<std::unique_ptr<Verifier>> make_llama_verifier(const std::string& /*path*/,
                                                      std::uint32_t /*threads*/) {
  return built_without();
}

}  // namespace afterimage
