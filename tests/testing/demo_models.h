// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <filesystem>
#include <string>

#include "engines/llama_library/llama_options.h"

/// The models that scripts/make-demo-models.py generates: real architectures, random weights. `make
/// test` writes them where the build expects them; without them tests fail with a message.
namespace afterimage::testing {

inline LlamaOptions demo_options(const std::string& name) {
  const std::string path = std::string(AFTERIMAGE_DEMO_MODELS) + "/" + name;
  LlamaOptions options{.model = path + ".gguf",
                       .mmproj = "",
                       .adapters = {},
                       .context = TokenCount(1'024),
                       .threads = 1,
                       .chat_template = "",
                       .progress = {},
                       .limits = {}};
  if (std::filesystem::exists(path + ".mmproj.gguf")) options.mmproj = path + ".mmproj.gguf";
  return options;
}

inline std::string trained_model() {
  return std::string(AFTERIMAGE_DEMO_MODELS) + "/gemma-3-270m-q4_k_m.gguf";
}
/// Whether scripts/fetch-models.py could fetch it.
inline bool has_trained_model() { return std::filesystem::exists(trained_model()); }

/// Gemma 3 270M, the base model: it has no chat template of its own.
inline LlamaOptions trained_options() {
  LlamaOptions options = demo_options("plain");
  options.model = trained_model();
  options.threads = 2;
  options.chat_template = "gemma";
  return options;
}

}  // namespace afterimage::testing
