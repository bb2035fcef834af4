// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <cstddef>
#include <string_view>

#include "engines/reference/reference_engine.h"

namespace afterimage {
namespace {

constexpr std::uint32_t kMaxPlanes = 4;
constexpr std::uint32_t kMaxTiles = 64;

Result<void> refuse(const std::string& option, std::uint64_t value, std::string_view rule) {
  return fail(ErrorCode::kInvalidArgument,
              option + " = " + std::to_string(value) + "; it must be " + std::string(rule));
}

Result<void> check_multiple_of_32(const std::string& option, std::uint32_t value) {
  if (value > 0 && value % 32 == 0) return {};
  return refuse(option, value, "a positive multiple of 32");
}

Result<void> check_positive(const std::string& option, std::uint32_t value) {
  if (value > 0) return {};
  return refuse(option, value, "positive");
}

Result<void> check_stack(const std::string& name, const StackOptions& stack) {
  AFI_TRY_VOID(check_positive(name + ".layers", stack.layers));
  AFI_TRY_VOID(check_positive(name + ".heads", stack.heads));
  AFI_TRY_VOID(check_multiple_of_32(name + ".mlp", stack.mlp));
  if (stack.width == 0 || stack.width % (stack.heads * 32ULL) != 0) {
    return refuse(name + ".width", stack.width, "a positive multiple of 32 * heads");
  }
  return {};
}

Result<void> check_layer(const std::vector<LayerKind>& layers, std::size_t index) {
  const std::string name = "decoder.layers[" + std::to_string(index) + "]";
  if (const auto* sliding = std::get_if<SlidingAttention>(&layers[index])) {
    return check_positive(name + ".window", sliding->window);
  }
  if (const auto* shared = std::get_if<SharedAttention>(&layers[index])) {
    const bool owns_rows =
        shared->with < index && (std::holds_alternative<FullAttention>(layers[shared->with]) ||
                                 std::holds_alternative<SlidingAttention>(layers[shared->with]));
    if (!owns_rows) return refuse(name + ".with", shared->with, "an earlier full or sliding layer");
  }
  return {};
}

Result<void> check_decoder(const DecoderOptions& decoder) {
  AFI_TRY_VOID(check_multiple_of_32("decoder.hidden", decoder.hidden));
  AFI_TRY_VOID(check_multiple_of_32("decoder.head_dim", decoder.head_dim));
  AFI_TRY_VOID(check_multiple_of_32("decoder.mlp", decoder.mlp));
  AFI_TRY_VOID(check_positive("decoder.heads", decoder.heads));
  if (decoder.kv_heads == 0 || decoder.heads % decoder.kv_heads != 0) {
    return refuse("decoder.kv_heads", decoder.kv_heads, "a divisor of decoder.heads");
  }
  const auto& [time, row, column] = decoder.sections;
  const std::uint64_t pairs = std::uint64_t{time} + row + column;
  if (pairs != 0 && pairs != decoder.head_dim / 2) {
    return refuse("the sum of decoder.sections", pairs, "0 or decoder.head_dim / 2");
  }
  if (decoder.layers.empty()) return refuse("decoder.layers.size()", 0, "positive");
  for (std::size_t i = 0; i < decoder.layers.size(); ++i) {
    AFI_TRY_VOID(check_layer(decoder.layers, i));
  }
  return {};
}

Result<void> check_vision(const ReferenceOptions& options) {
  const VisionOptions& vision = options.vision;
  AFI_TRY_VOID(check_stack("vision.stack", vision.stack));
  AFI_TRY_VOID(check_positive("vision.patch", vision.patch));
  AFI_TRY_VOID(check_positive("vision.max_cells", vision.max_cells));
  AFI_TRY_VOID(check_positive("vision.max_frame_cells", vision.max_frame_cells));
  AFI_TRY_VOID(check_positive("vision.max_frames", vision.max_frames));
  if (vision.max_tiles > kMaxTiles) {
    return refuse("vision.max_tiles", vision.max_tiles, "at most 64");
  }
  const std::uint64_t planes = vision.deepstack_planes;
  if (planes > kMaxPlanes || planes > options.decoder.layers.size()) {
    return refuse("vision.deepstack_planes", planes, "at most 4 and at most decoder.layers.size()");
  }
  if (planes >= vision.stack.layers) {
    return refuse("vision.deepstack_planes", planes, "fewer than vision.stack.layers");
  }
  return {};
}

std::string describe(const StackOptions& stack) {
  return "l" + std::to_string(stack.layers) + "-w" + std::to_string(stack.width) + "-h" +
         std::to_string(stack.heads) + "-m" + std::to_string(stack.mlp);
}

}  // namespace

std::string to_string(const LayerKind& kind) {
  if (std::holds_alternative<FullAttention>(kind)) return "full";
  if (std::holds_alternative<Recurrence>(kind)) return "recurrent";
  if (const auto* sliding = std::get_if<SlidingAttention>(&kind)) {
    return "sliding(" + std::to_string(sliding->window) + ")";
  }
  return "shared(" + std::to_string(std::get<SharedAttention>(kind).with) + ")";
}

ReferenceOptions ReferenceOptions::tiny() {
  ReferenceOptions options;
  options.name = "afterimage-reference-tiny";
  options.decoder = {.hidden = 32,
                     .heads = 2,
                     .kv_heads = 1,
                     .head_dim = 32,
                     .mlp = 64,
                     .layers = {FullAttention{}, SlidingAttention{.window = 8}, Recurrence{},
                                SharedAttention{.with = 0}}};
  options.vision = {.stack = {.layers = 2, .width = 32, .heads = 1, .mlp = 64},
                    .patch = 4,
                    .max_cells = 4,
                    .max_frame_cells = 2,
                    .max_frames = 4};
  options.audio = {.stack = {.layers = 1, .width = 32, .heads = 1, .mlp = 64},
                   .max_embeddings = 16};
  options.prefill_chunk = TokenCount(32);
  return options;
}

ReferenceOptions ReferenceOptions::small() {
  ReferenceOptions options;
  options.name = "afterimage-reference-small";
  options.decoder = {
      .hidden = 256,
      .heads = 8,
      .kv_heads = 4,
      .head_dim = 32,
      .mlp = 768,
      .layers = {FullAttention{}, SlidingAttention{.window = 128}, Recurrence{},
                 SharedAttention{.with = 0}, FullAttention{}, SlidingAttention{.window = 128},
                 Recurrence{}, SharedAttention{.with = 5}}};
  options.vision = {.stack = {.layers = 8, .width = 256, .heads = 8, .mlp = 1024},
                    .patch = 14,
                    .max_cells = 12,
                    .max_frame_cells = 6,
                    .max_frames = 32};
  options.audio = {.stack = {.layers = 4, .width = 256, .heads = 8, .mlp = 1024},
                   .max_embeddings = 375};
  return options;
}

ReferenceOptions ReferenceOptions::full() {
  ReferenceOptions options = small();
  options.name = "afterimage-reference-full";
  options.decoder.layers.assign(4, FullAttention{});
  return options;
}

ReferenceOptions ReferenceOptions::flat() {
  ReferenceOptions options = full();
  options.name = "afterimage-reference-flat";
  options.decoder.layers.assign(1, FullAttention{});
  return options;
}

ReferenceOptions ReferenceOptions::tiled() {
  ReferenceOptions options = small();
  options.name = "afterimage-reference-tiled";
  options.vision.max_cells = 8;
  options.vision.max_tiles = 12;
  options.audio.window_embeddings = 25;  // two seconds
  return options;
}

// A quarter of the pairs for time and three eighths for each of the others, as in Qwen2-VL.
ReferenceOptions ReferenceOptions::with_mrope() const {
  ReferenceOptions options = *this;
  options.name += "-mrope";
  const std::uint32_t pairs = decoder.head_dim / 2;
  options.decoder.sections = {pairs - 2 * (pairs * 3 / 8), pairs * 3 / 8, pairs * 3 / 8};
  return options;
}

Result<void> check_options(const ReferenceOptions& options) {
  AFI_TRY_VOID(check_decoder(options.decoder));
  AFI_TRY_VOID(check_vision(options));
  AFI_TRY_VOID(check_stack("audio.stack", options.audio.stack));
  AFI_TRY_VOID(check_positive("audio.max_embeddings", options.audio.max_embeddings));
  AFI_TRY_VOID(check_positive("prefill_chunk", options.prefill_chunk.value()));
  AFI_TRY_VOID(check_positive("max_context", options.max_context.value()));
  return {};
}

std::string describe_decoder(const DecoderOptions& options) {
  std::string text = "w" + std::to_string(options.hidden) + "-h" + std::to_string(options.heads) +
                     "-kv" + std::to_string(options.kv_heads) + "-d" +
                     std::to_string(options.head_dim) + "-m" + std::to_string(options.mlp);
  for (const LayerKind& kind : options.layers) text += "-" + to_string(kind);
  const auto& [time, row, column] = options.sections;
  if (time + row + column == 0) return text;
  return text + "-mrope(" + std::to_string(time) + "," + std::to_string(row) + "," +
         std::to_string(column) + ")";
}

std::string describe_encoders(const ReferenceOptions& options) {
  const VisionOptions& vision = options.vision;
  return "vit-p" + std::to_string(vision.patch) + "-" + describe(vision.stack) + "-planes" +
         std::to_string(vision.deepstack_planes) + "+tones-" + describe(options.audio.stack) +
         "-to-w" + std::to_string(options.decoder.hidden);
}

}  // namespace afterimage
