// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/identity.h"

#include <string>

#include "engines/reference/audio_encoder.h"
#include "engines/reference/media_plan.h"
#include "foundation/media/decode.h"

namespace afterimage {
namespace {

// Increment the number on every change to what the code in this folder computes or to how it packs
// KV.
constexpr const char* kProcessor = "afterimage-reference-2";
constexpr const char* kRevision = "-2";

void describe_pixels(const VisionOptions& vision, std::uint32_t max_cells,
                     PreprocessRecipe& recipe) {
  recipe.width = recipe.height = 2 * vision.patch * max_cells;
  recipe.options = {{"fit", "longer side, aspect kept to the cell, never enlarged past one cell"},
                    {"cell", std::to_string(2 * vision.patch)},
                    {"resize", "area or bilinear"},
                    {"range", "[-1, 1]"}};
}

void describe_sound(const AudioOptions& audio, PreprocessRecipe& recipe) {
  recipe.sample_rate_hz = kAudioRateHz;
  recipe.options = {{"resample", "linear"},
                    {"window", std::to_string(kAudioWindow) + " hann"},
                    {"hop", std::to_string(kAudioHop)},
                    {"tones", std::to_string(kAudioBands) + " fourth root of energy"},
                    {"frames_per_embedding", std::to_string(kFramesPerEmbedding)},
                    {"max_embeddings", std::to_string(audio.max_embeddings)},
                    {"decoder", sound_decoder()}};
  if (audio.window_embeddings != 0) {
    recipe.options["windows"] = std::to_string(audio.window_embeddings) + " embeddings";
  }
}

}  // namespace

ModelIdentity identity_of(const ReferenceOptions& options, const Kernels& kernels) {
  const std::string rounding = kernels.fused ? "-fused" : "-separate";
  return {.model = options.name + kRevision + "-" + describe_decoder(options.decoder) + rounding,
          .weights_epoch = "seed-" + std::to_string(options.weights_seed),
          .encoder = describe_encoders(options) + kRevision + rounding,
          .adapter = "",
          .chat_template = "afterimage-chat-1",
          .kv_dtype = DType::kF32};
}

PreprocessRecipe recipe_of(Modality modality, const ReferenceOptions& options) {
  PreprocessRecipe recipe;
  recipe.processor = kProcessor;
  switch (modality) {
    case Modality::kImage:
      describe_pixels(options.vision, options.vision.max_cells, recipe);
      recipe.options["decoder"] = picture_decoder();
      if (options.vision.max_tiles != 0) {
        recipe.options["fit"] = "square tiles in the grid of the nearest aspect ratio";
        recipe.options["tiles"] =
            "at most " + std::to_string(options.vision.max_tiles) + ", then the whole";
      }
      break;
    case Modality::kVideo:
      describe_pixels(options.vision, options.vision.max_frame_cells, recipe);
      recipe.max_frames = options.vision.max_frames;
      recipe.frame_rate_mhz = options.vision.frame_rate_mhz;
      recipe.options["sampling"] = "at the rate; above max_frames even, middle of each share";
      recipe.options["slice"] = std::to_string(kFramesPerSlice) + " frames";
      recipe.options["decoder"] = video_decoder();
      break;
    case Modality::kAudio:
      describe_sound(options.audio, recipe);
      break;
  }
  return recipe;
}

}  // namespace afterimage
