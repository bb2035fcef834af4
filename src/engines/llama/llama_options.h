// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/media.h"
#include "afterimage/units.h"

namespace afterimage {

struct LlamaAdapter {
  std::string path;  // of a LoRA adapter in a GGUF file
  float scale = 1.0F;
};

/// What to load, and how to run it.
struct LlamaOptions {
  std::string model;   // path of a GGUF file; of a model in several, the first
  std::string mmproj;  // path of its media encoder and projector; empty: text only
  std::vector<LlamaAdapter> adapters;
  TokenCount context{8'192};  // of one request: prompt and answer
  std::uint32_t lanes = 2;    // requests computed at a time; each has a context's memory of its own
  TokenCount batch{512};      // tokens computed at once
  int gpu_layers = -1;        // on the GPU, if the build has one; -1: all; 0: none
  std::uint32_t threads = 0;  // 0: as many as the machine has cores
  std::string keys = "f16";   // type of cached keys and values: f32, f16, bf16, q8_0, q5_1, …
  std::string values = "f16";
  int image_min_tokens = -1;  // of models that take pictures as they come; -1: the model says
  int image_max_tokens = -1;
  /// Name of one of the library's templates; empty: the model's own.
  std::string chat_template;
  /// A run resumed from cached KV gives the logits of one that was not, bit for bit. Holds on a
  /// CPU, with a build whose products do not depend on how many rows are computed together, as
  /// scripts/build-llama.sh makes it. It costs the library's fused attention and packed weights,
  /// and sliding windows take as much memory as full attention. Where it cannot hold (a GPU,
  /// another build, values in a type that needs fused attention), LlamaEngine::exact() says so.
  bool exact = true;
  /// Of loading: what is loaded ("model", "mmproj"), and how much of it, 0 to 1.
  std::function<void(std::string_view, float)> progress;
  const Clock* clock = nullptr;  // nullptr: the machine's. Outlives the engine.
  MediaLimits limits;
};

}  // namespace afterimage
