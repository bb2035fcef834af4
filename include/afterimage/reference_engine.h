// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/media.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

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

/// The built-in engine: a small vision-language transformer with random weights, on one core. It
/// says nothing clever. It needs no download, it has every kind of KV that real models have, and
/// what it computes can be compared bit for bit.
///
/// Shape    encode() gives f32 [embeddings, hidden]; 1 + deepstack_planes of them for pictures.
/// What
///          its KV consists of: kv_packing.h. It stops anywhere: alignment is 1.
/// Errors   kInvalidArgument: a sequence or embeddings that this model did not promise;
///          kLimitExceeded: prompt and completion do not fit max_context; what media/ says.
/// Threads  All calls but create() are const and may run at the same time.
/// Source   engine/DESIGN.md. The same options give the same bits on every machine whose kernels
///          round alike; identity() tells "fused" from "separate".
class ReferenceEngine final : public Engine {
 public:
  /// kInvalidArgument: no such model can be built; kUnsupported: no such kernels on this machine.
  static Result<std::unique_ptr<ReferenceEngine>> create(ReferenceOptions options);
  ~ReferenceEngine() override;

  [[nodiscard]] const ModelIdentity& identity() const override;
  [[nodiscard]] PreprocessRecipe recipe(Modality modality) const override;
  Result<Sequence> prepare(const Request& request,
                           std::span<const ContentDigest> contents) const override;
  Result<EncoderOutput> encode(const MediaItem& item) const override;
  /// Ties between logits go to the lowest token id. eos ends a completion and is its last token.
  Result<Completion> generate(const Sequence& prompt, std::span<const TensorViews> embeddings,
                              const GenerateOptions& options) const override;
  [[nodiscard]] const KvLayout* kv_layout() const override;

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override;

 private:
  struct Model;
  explicit ReferenceEngine(std::unique_ptr<const Model> model);

  std::unique_ptr<const Model> model_;
};

}  // namespace afterimage
