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
#include "lab/experiment/spec.h"

namespace afterimage {

/// What vectors are made of.
struct SampleToEmbed {
  const Sample& sample;
  const std::string& prompt;
  const std::string& key;
};

/// Makes the vectors of a rung's layers.
///
/// prompt   Of the question alone. Not of the rendered prompt: most of that is the template, which
///          makes all questions alike.
/// vision   Of the picture's pixels; none if there is no picture.
/// text     Of the key.
/// Threads  One at a time.
class LayerVectors {
 public:
  virtual ~LayerVectors() = default;
  /// The layers that it has vectors for, in order.
  [[nodiscard]] const std::vector<LayerSpec>& layers() const { return layers_; }
  /// One a layer; empty where there is none.
  virtual Result<std::vector<Vector>> of(const SampleToEmbed& sample) = 0;

 protected:
  explicit LayerVectors(std::vector<LayerSpec> layers) : layers_(std::move(layers)) {}

 private:
  std::vector<LayerSpec> layers_;
};

/// For the key of a sample: hashed n-grams.
Result<std::unique_ptr<LayerVectors>> key_vectors(const LayerSpec& layer);

/// For the latent layers of a spec, of its hook. Layers that the hook does not make are left out;
/// none left: nullptr. `images` outlives them.
///
/// Errors   kInvalidArgument: the hook's vectors have other dimensions than the layer says;
///          kUnavailable: a library that cannot be loaded, or has no such symbol.
Result<std::unique_ptr<LayerVectors>> hook_vectors(const ExperimentSpec& spec,
                                                   const ImageRoots& images);

/// Names of layers that a spec has and its hook does not make.
[[nodiscard]] std::vector<std::string> layers_without_vectors(const ExperimentSpec& spec);

}  // namespace afterimage
