// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/media/limits.h"
#include "foundation/platform/clock.h"

namespace afterimage {

/// How a decoder layer looks back. A layer is exactly one of these.
/// A token sees itself and every token before it.
struct FullAttention {
  bool operator==(const FullAttention&) const = default;
};
/// A token sees itself and the `window` tokens before it.
struct SlidingAttention {
  std::uint32_t window = 0;
  bool operator==(const SlidingAttention&) const = default;
};
/// Own queries over the keys and values of an earlier full or sliding layer; no rows of its own.
struct SharedAttention {
  std::uint32_t with = 0;  // index of that layer
  bool operator==(const SharedAttention&) const = default;
};
/// A gated diagonal recurrence behind a causal convolution over four tokens: a state, no rows.
struct Recurrence {
  bool operator==(const Recurrence&) const = default;
};
using LayerKind = std::variant<FullAttention, SlidingAttention, SharedAttention, Recurrence>;

/// "full", "sliding(128)", "shared(0)", "recurrent".
std::string to_string(const LayerKind& kind);

struct DecoderOptions {
  std::uint32_t hidden = 0;    // multiple of 32
  std::uint32_t heads = 0;     // query heads
  std::uint32_t kv_heads = 0;  // divides heads
  std::uint32_t head_dim = 0;  // multiple of 32
  std::uint32_t mlp = 0;       // multiple of 32
  std::vector<LayerKind> layers;
};

/// A stack of transformer blocks in which every position sees every other.
struct StackOptions {
  std::uint32_t layers = 0;
  std::uint32_t width = 0;  // width / heads is a multiple of 32
  std::uint32_t heads = 0;
  std::uint32_t mlp = 0;  // multiple of 32
};

/// An image becomes a grid of cells, each of 2 x 2 patches; a cell becomes one embedding.
struct VisionOptions {
  StackOptions stack;
  std::uint32_t patch = 0;             // pixels along one side of a patch
  std::uint32_t max_cells = 0;         // along the longer side of an image
  std::uint32_t max_frame_cells = 0;   // along the longer side of a video's frame
  std::uint32_t max_frames = 0;        // of one video, evenly sampled
  std::uint32_t deepstack_planes = 0;  // extra tensors for the decoder's first layers; at most 4
};

/// Sound becomes one embedding per 80 ms.
struct AudioOptions {
  StackOptions stack;
  std::uint32_t max_embeddings = 0;  // what lies beyond is not heard
};

/// A reference model and how to run it.
struct ReferenceOptions {
  // What is computed. All of it is in identity() or recipe().
  std::string name = "afterimage-reference";
  std::uint64_t weights_seed = 1;
  DecoderOptions decoder;
  VisionOptions vision;
  AudioOptions audio;

  // How it is computed. None of it changes a bit of the result.
  TokenCount prefill_chunk{128};
  TokenCount max_context{8192};  // prompt and completion together
  MediaLimits limits;
  const Clock* clock = nullptr;  // outlives the engine; nullptr: the machine's

  /// "avx512", "avx2", "baseline"; empty: the fastest here. The first two give the same bits; the
  /// last rounds twice where they round once, and identity() says so.
  std::string kernels;

  /// For tests: an encode takes milliseconds under sanitizers. Layers: one of each kind.
  static ReferenceOptions tiny();
  /// For workloads: 6 million decoder, 8 million vision, 3 million audio weights.
  static ReferenceOptions small();
};

/// kInvalidArgument, naming the option, if no model can be built from these.
Result<void> check_options(const ReferenceOptions& options);

/// All sizes of the decoder, and of the encoders with their projectors, on one line each: what the
/// model's identity says.
std::string describe_decoder(const DecoderOptions& options);
std::string describe_encoders(const ReferenceOptions& options);

}  // namespace afterimage
