// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
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
#include "foundation/media/media_limits.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {

/// The kind of a decoder layer is one of the following. Full attention: a token sees itself and
/// every token before it.
struct FullAttention {
  bool operator==(const FullAttention&) const = default;
};
/// A token sees itself and the `window` tokens before it.
struct SlidingAttention {
  std::uint32_t window = 0;
  bool operator==(const SlidingAttention&) const = default;
};
/// Own queries over the keys and values of an earlier full or sliding layer; stores no rows.
struct SharedAttention {
  std::uint32_t with = 0;  // index of that layer
  bool operator==(const SharedAttention&) const = default;
};
/// A gated diagonal recurrence after a causal convolution over four tokens: a state, no rows.
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
  /// M-RoPE: how many rotary pairs of a head turn with time, row and column, in this order; their sum
  /// is head_dim / 2. Zeros: RoPE, all pairs turn with the token's index.
  std::array<std::uint32_t, 3> sections = {};
};

/// A stack of transformer blocks with bidirectional attention.
struct StackOptions {
  std::uint32_t layers = 0;
  std::uint32_t width = 0;  // width / heads is a multiple of 32
  std::uint32_t heads = 0;
  std::uint32_t mlp = 0;  // multiple of 32
};

/// An image, or a slice of two frames of a video, becomes a grid of cells of 2 x 2 patches; each cell
/// becomes one embedding. Attention stays within the image or slice, as in Qwen2-VL.
struct VisionOptions {
  StackOptions stack;
  std::uint32_t patch = 0;      // pixels along one side of a patch
  std::uint32_t max_cells = 0;  // along the longer side of an image, or a side of a tile
  /// Not 0: an image is at most this many square tiles of max_cells, as in InternVL, and if it is
  /// more than one, all of it again as the last tile. Tiles do not see one another.
  std::uint32_t max_tiles = 0;
  std::uint32_t max_frame_cells = 0;   // along the longer side of a video's frame
  std::uint32_t max_frames = 0;        // sampled of a video at most
  std::uint32_t frame_rate_mhz = 0;    // sampled frames per 1,000 seconds of a video; 0: all
  std::uint32_t deepstack_planes = 0;  // extra tensors for the decoder's first layers; at most 4
};

/// Audio becomes one embedding per 80 ms.
struct AudioOptions {
  StackOptions stack;
  std::uint32_t max_embeddings = 0;  // audio beyond this is ignored
  /// Audio is encoded in windows of so many embeddings that do not hear one another; 0: as a whole.
  std::uint32_t window_embeddings = 0;
};

/// A reference model and how to run it.
struct ReferenceOptions {
  // What is computed. All of it is part of identity() or recipe().
  std::string name = "afterimage-reference";
  std::uint64_t weights_seed = 1;
  DecoderOptions decoder;
  VisionOptions vision;
  AudioOptions audio;

  // How it is computed. None of this changes a bit of the result.
  TokenCount prefill_chunk{128};
  TokenCount max_context{8192};  // prompt and completion together
  MediaLimits limits;
  const Clock* clock = nullptr;  // nullptr: the system clock. Outlives the engine.

  /// "avx512", "avx2" or "baseline"; empty: the fastest available. The first two give the same
  /// bits; the last rounds twice where they round once, and identity() reflects that.
  std::string kernels;

  /// For tests: encoding takes milliseconds even under sanitizers. Decoder layers: one of each
  /// kind.
  static ReferenceOptions tiny();
  /// For workloads: 6 million decoder, 8 million vision and 3 million audio weights.
  static ReferenceOptions small();
  /// small() with full attention in its four layers, so that KV of media can be used at other
  /// positions. `flat` has one: its keys and values depend on nothing before a token, so that moving
  /// them changes only the last bits.
  static ReferenceOptions full();
  static ReferenceOptions flat();
  /// small() with images of twelve tiles and audio of windows of 2 s.
  static ReferenceOptions tiled();
  /// These options with M-RoPE.
  [[nodiscard]] ReferenceOptions with_mrope() const;
};

/// kInvalidArgument, naming the option: the options describe no valid model.
Result<void> check_options(const ReferenceOptions& options);

/// All sizes of the decoder, and of the encoders with their projectors, on one line each: part of
/// the model's identity.
std::string describe_decoder(const DecoderOptions& options);
std::string describe_encoders(const ReferenceOptions& options);

/// The built-in engine: a small vision-language transformer with random weights, on one core. Its
/// answers are meaningless. It needs no download, has every kind of KV that real models have, and
/// its results can be compared bit for bit.
///
/// Shape    encode() returns f32 [embeddings, hidden]; 1 + deepstack_planes of them for images and
///          video. KV rows: kv_packing.h. It can resume at any position: alignment is 1.
/// Errors   kInvalidArgument: a sequence or embeddings that do not match the model; kLimitExceeded:
///          prompt and completion do not fit max_context; errors of the media component.
/// Threads  All calls but create() are const and may run concurrently.
/// Source   src/engines/reference/DESIGN.md. The same options give the same bits on every machine
///          whose kernels round alike; identity() distinguishes "fused" from "separate".
class ReferenceEngine final : public Engine {
 public:
  /// kInvalidArgument: options that describe no model; kUnsupported: kernels that this machine
  /// lacks.
  static Result<std::unique_ptr<ReferenceEngine>> create(ReferenceOptions options);
  ~ReferenceEngine() override;

  [[nodiscard]] const ModelIdentity& identity() const override;
  /// Exact by construction: see src/engines/reference/DESIGN.md.
  [[nodiscard]] Exactness exactness() const override;
  [[nodiscard]] PreprocessRecipe recipe(Modality modality) const override;
  [[nodiscard]] MediaSize size_of(const MediaItem& item) const override;
  [[nodiscard]] EngineLoad load() const override;
  Result<Sequence> prepare(const Request& request,
                           std::span<const ContentDigest> contents) const override;
  [[nodiscard]] GenerateOptions default_options() const override;
  Result<EncoderOutput> encode(const MediaItem& item) const override;
  /// Splits a video into its slices, and an image into its tiles if the model has them.
  [[nodiscard]] Result<std::shared_ptr<const SplitMedia>> split(
      const MediaItem& item) const override;
  void encode_parts(std::span<const PartToEncode> parts,
                    const std::function<void(std::vector<Encoded>)>& on_encoded) const override;
  /// Ties between logits go to the lowest token id. EOS ends a completion and is its last token.
  Result<Completion> generate(const Sequence& prompt, std::span<const TensorViews> embeddings,
                              const GenerateOptions& options) const override;
  [[nodiscard]] const KvLayout* kv_layout() const override;
  /// nullptr: the model has windows or recurrent states.
  [[nodiscard]] const KeyRotation* key_rotation() const override;
  [[nodiscard]] TokenPlace place_of(const Sequence& prompt, TokenCount at) const override;
  [[nodiscard]] Result<std::vector<float>> hidden_state(
      const Sequence& prompt, std::span<const TensorViews> embeddings) const override;

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override;

 private:
  struct Model;
  explicit ReferenceEngine(std::unique_ptr<const Model> model);

  std::unique_ptr<const Model> model_;
  // Of load().
  mutable std::atomic<std::uint32_t> busy_ = 0;
  mutable std::atomic<std::uint64_t> generated_ = 0;
};

}  // namespace afterimage
