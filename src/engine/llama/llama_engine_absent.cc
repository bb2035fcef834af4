// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/llama/llama_engine.h"

namespace afterimage {

struct LlamaEngine::Parts {};

LlamaEngine::LlamaEngine(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
LlamaEngine::~LlamaEngine() = default;

Result<std::unique_ptr<LlamaEngine>> LlamaEngine::create(LlamaOptions /*options*/) {
  return fail(ErrorCode::kUnsupported,
              "this program was built without llama.cpp: run scripts/build-llama.sh and build "
              "again");
}

}  // namespace afterimage
