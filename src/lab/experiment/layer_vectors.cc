// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/layer_vectors.h"

#include <fmt/format.h>

#include <utility>

#include "caches/similarity/hashed_ngrams.h"
#include "caches/similarity/picture_grid.h"
#include "lab/experiment/plugin_hook.h"

namespace afterimage {
namespace {

enum class VectorsOf : unsigned char { kKey, kQuestion, kPicture };

struct BuiltInLayer {
  VectorsOf of = VectorsOf::kKey;
  std::unique_ptr<Embedder> embedder;
};

class BuiltInVectors final : public LayerVectors {
 public:
  BuiltInVectors(std::vector<LayerSpec> layers, std::vector<BuiltInLayer> makes,
                 const ImageRoots* images)
      : LayerVectors(std::move(layers)), layers_made_(std::move(makes)), images_(images) {}

  Result<std::vector<Vector>> of(const SampleToEmbed& sample) override {
    std::vector<Vector> vectors;
    for (const BuiltInLayer& layer : layers_made_) {
      AFI_TRY(Vector vector, one(layer, sample));
      vectors.push_back(std::move(vector));
    }
    return vectors;
  }

 private:
  Result<Vector> one(const BuiltInLayer& layer, const SampleToEmbed& asked) {
    if (layer.of == VectorsOf::kKey) return layer.embedder->embed_one(std::string_view(asked.key));
    if (layer.of == VectorsOf::kQuestion) {
      return layer.embedder->embed_one(std::string_view(asked.sample.question));
    }
    if (!asked.sample.content.has_value()) return Vector{};
    AFI_TRY(const FileBytes bytes, images_->bytes_of(asked.sample));
    return layer.embedder->embed_one(std::span<const std::byte>(*bytes));
  }

  std::vector<BuiltInLayer> layers_made_;
  const ImageRoots* images_;
};

template <typename Made>
Result<std::unique_ptr<Embedder>> embedder_for(const LayerSpec& layer) {
  auto made = Made::create(layer.dimensions);
  if (!made.has_value()) {
    return fail(made.error().code,
                fmt::format("layer \"{}\": {}", layer.name, made.error().message));
  }
  return std::make_unique<Made>(*std::move(made));
}

bool makes(const HookChoice& hook, const LayerSpec& layer) {
  return (hook.prompt && layer.name == "prompt") || (hook.vision && layer.name == "vision");
}

}  // namespace

Result<std::unique_ptr<LayerVectors>> key_vectors(const LayerSpec& layer) {
  std::vector<BuiltInLayer> made(1);
  AFI_TRY(made[0].embedder, embedder_for<HashedNgrams>(layer));
  return std::make_unique<BuiltInVectors>(std::vector{layer}, std::move(made), nullptr);
}

Result<std::unique_ptr<LayerVectors>> hook_vectors(const ExperimentSpec& spec,
                                                   const ImageRoots& images) {
  if (!spec.hook.library.empty()) return plugin_vectors(spec, images);
  std::vector<LayerSpec> layers;
  std::vector<BuiltInLayer> made;
  for (const LayerSpec& layer : spec.layers) {
    if (!makes(spec.hook, layer)) continue;
    BuiltInLayer built{.of = VectorsOf::kQuestion, .embedder = nullptr};
    if (layer.name == "vision") {
      built.of = VectorsOf::kPicture;
      AFI_TRY(built.embedder, embedder_for<PictureGrid>(layer));
    } else {
      AFI_TRY(built.embedder, embedder_for<HashedNgrams>(layer));
    }
    layers.push_back(layer);
    made.push_back(std::move(built));
  }
  if (layers.empty()) return nullptr;
  return std::make_unique<BuiltInVectors>(std::move(layers), std::move(made), &images);
}

std::vector<std::string> layers_without_vectors(const ExperimentSpec& spec) {
  std::vector<std::string> without;
  if (!spec.hook.library.empty()) return without;  // only the library knows its layers
  for (const LayerSpec& layer : spec.layers) {
    if (!makes(spec.hook, layer)) without.push_back(layer.name);
  }
  return without;
}

}  // namespace afterimage
