// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/llama_embedder.h"

namespace afterimage {

Result<std::unique_ptr<Embedder>> make_llama_embedder(const std::string& /*path*/,
                                                      std::uint32_t /*threads*/) {
  return fail(
      ErrorCode::kUnsupported,
      "this program was built without llama.cpp: run scripts/build-llama.sh and build again");
}

}  // namespace afterimage
