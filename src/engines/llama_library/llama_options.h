// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/media.h"
#include "afterimage/units.h"
#include "foundation/media/media_limits.h"

namespace afterimage {

struct LlamaAdapter {
  std::string path;  // of a LoRA adapter in a GGUF file
  float scale = 1.0F;
};

/// What to load and how to run it.
struct LlamaOptions {
  std::string model;   // path of a GGUF file; of a split model, its first part
  std::string mmproj;  // path of the media encoder and projector (GGUF); empty: text only
  std::vector<LlamaAdapter> adapters;
  TokenCount context{
      8'192};  // tokens per request: prompt and answer; capped at the model's positions
  std::uint32_t lanes = 2;    // concurrent requests; each reserves the memory of a context
  TokenCount batch{512};      // tokens computed per call
  int gpu_layers = -1;        // layers on the GPU, if the build supports one; -1: all; 0: none
  std::uint32_t threads = 0;  // 0: one per core
  /// Type of the K cache (the next field: V): f32, f16, bf16, q8_0, q5_1, ….
  std::string keys = "f16";
  std::string values = "f16";
  int image_min_tokens = -1;  // for models with variable image resolution; -1: the model's default
  int image_max_tokens = -1;
  /// Name of one of llama.cpp's built-in chat templates; empty: the model's own template.
  std::string chat_template;
  /// Whether models think before they answer, unless a request says (chat_template_kwargs.
  /// enable_thinking, reasoning_effort "none"); nothing: as the template has it.
  std::optional<bool> thinks;
  /// How the vectors of a text's tokens become its embedding: mean, cls or last; empty: as the model
  /// says, else mean.
  std::string pooling;
  /// A run resumed from cached KV gives the same logits as a cold run, bit for bit. Holds on CPU with
  /// our kernels (engines/llama_kernels), or with a build whose matrix products do not depend on the
  /// batch size, where sliding windows take as much memory as full attention. Where it cannot hold
  /// (GPU, no such kernels), or where the self-check at load finds a difference,
  /// LlamaEngine::exactness() says so.
  bool exact = true;
  /// Kernels of the CPU, for all models of the process, as its first one has them: "avx512", "avx2",
  /// "neon-dot", "neon"; "library": llama.cpp's own; empty: the fastest of ours that the processor
  /// has, else llama.cpp's.
  std::string kernels;
  /// Progress of a load: of "model", "mmproj" and then "self-check" the fraction done, 0 to 1.
  std::function<void(std::string_view, float)> progress;
  const Clock* clock = nullptr;  // nullptr: the system clock. Outlives the engine.
  MediaLimits limits;
};

/// Batches that computed the next tokens of answers.
struct BatchCounts {
  std::uint64_t batches = 0;
  std::uint64_t tokens = 0;  // in them: more than batches, where requests shared them
};

}  // namespace afterimage
