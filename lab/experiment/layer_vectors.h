// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "caches/similarity/embedder.h"
#include "lab/datasets/image_roots.h"
#include "lab/datasets/sample.h"
#include "lab/experiment/sample_engine.h"
#include "lab/experiment/spec.h"

namespace afterimage {

/// The inputs of the embedders.
struct SampleToEmbed {
  const Sample& sample;
  const std::string& prompt;
  const std::string& key;
};

/// Makes the vectors of a match level's layers.
///
/// prompt   Of the question alone, not of the rendered prompt: the template would make all prompts
///          similar. The encoder of keys makes them; without one, hashed n-grams.
/// vision   Of the image; none without one. The engine's own encoder makes them; without one, a grid
///          of colours.
/// text     Of the key.
/// Threads  One at a time.
class LayerVectors {
 public:
  virtual ~LayerVectors() = default;
  /// The layers it makes vectors for, in order.
  [[nodiscard]] const std::vector<LayerSpec>& layers() const { return layers_; }
  /// One vector per layer; empty where there is none.
  virtual Result<std::vector<Vector>> of(const SampleToEmbed& sample) = 0;

 protected:
  explicit LayerVectors(std::vector<LayerSpec> layers) : layers_(std::move(layers)) {}

 private:
  std::vector<LayerSpec> layers_;
};

/// For a sample's key: `encoder`'s, which outlives the result; nullptr: hashed n-grams.
/// kInvalidArgument: the encoder's vectors have other dimensions.
Result<std::unique_ptr<LayerVectors>> key_vectors(const LayerSpec& layer, Embedder* encoder);

/// States of an engine, which outlives the result, for the layers "vision", "prompt" and "fusion".
/// Other layers, and those that `example` has no state for, are left out; nullptr if none remain.
/// Dimensions of 0 become the engine's.
///
/// Errors   kInvalidArgument: the engine's states have other dimensions than the layer;
///          kUnsupported: it exposes none; its errors with `example`.
Result<std::unique_ptr<LayerVectors>> engine_vectors(std::vector<LayerSpec> layers,
                                                     SampleEngine& engine,
                                                     const SampleToEmbed& example);

/// What a hook makes vectors with. All outlive them.
struct HookSources {
  const ImageRoots& images;
  Embedder* text_encoder = nullptr;  // nullptr: hashed n-grams
  SampleEngine* vision = nullptr;    // whose encoder reads images; nullptr: a grid of colours
  std::size_t vision_width = 0;      // of its vectors
};
/// For the latent layers of a spec, made by its hook, which is not "engine". Layers that the hook does not make are left
/// out; nullptr if none remain. Vectors of an encoder or an engine have their own
/// dimensions, whatever the layer says.
///
/// Errors   kInvalidArgument: the hook's vectors have other dimensions than the layer;
///          kUnavailable: a library that cannot be loaded or lacks the symbol.
Result<std::unique_ptr<LayerVectors>> hook_vectors(const ExperimentSpec& spec,
                                                   const HookSources& sources);

/// Names of the layers of a spec that its hook does not make.
[[nodiscard]] std::vector<std::string> layers_without_vectors(const ExperimentSpec& spec);

}  // namespace afterimage
