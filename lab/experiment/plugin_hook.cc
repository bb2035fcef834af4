// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/plugin_hook.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lab/experiment/embedding_hook.h"

namespace afterimage {
namespace {

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

/// The dynamic loader's last error message.
std::string loader_error() {
  const char* words = ::dlerror();
  return words == nullptr ? "no reason given" : words;
}

class PluginVectors final : public LayerVectors {
 public:
  PluginVectors(std::vector<LayerSpec> layers, Library library, afterimage_embedding_hook hook,
                const ImageRoots& images)
      : LayerVectors(std::move(layers)),
        library_(std::move(library)),
        hook_(hook),
        images_(images) {}

  Result<std::vector<Vector>> of(const SampleToEmbed& asked) override {
    const Sample& sample = asked.sample;
    FileBytes bytes;
    if (sample.content.has_value()) {
      AFI_TRY(bytes, images_.bytes_of(sample));
    }
    const afterimage_hook_sample given{
        .dataset_id = sample.dataset_id.c_str(),
        .image_id = sample.image_id.c_str(),
        .question = sample.question.c_str(),
        .prompt = asked.prompt.c_str(),
        .image = bytes == nullptr ? nullptr : reinterpret_cast<const unsigned char*>(bytes->data()),
        .image_size = bytes == nullptr ? 0 : bytes->size()};
    std::vector<Vector> vectors;
    for (const LayerSpec& layer : layers()) {
      Vector vector(layer.dimensions);
      const std::size_t written =
          hook_(&given, layer.name.c_str(), vector.data(), layer.dimensions);
      if (written != layer.dimensions || !to_length_1(vector)) vector.clear();
      vectors.push_back(std::move(vector));
    }
    return vectors;
  }

 private:
  Library library_;
  afterimage_embedding_hook hook_;
  const ImageRoots& images_;
};

}  // namespace

bool to_length_1(Vector& vector) {
  double square = 0;
  for (const float x : vector) square += static_cast<double>(x) * x;
  if (!std::isfinite(square) || square <= 0) return false;
  for (float& x : vector) x = static_cast<float>(x / std::sqrt(square));
  return true;
}

Result<std::unique_ptr<LayerVectors>> plugin_vectors(const ExperimentSpec& spec,
                                                     const ImageRoots& images) {
  Library library(::dlopen(spec.hook.library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("cannot load the hook '{}': {}", spec.hook.library, loader_error()));
  }
  const auto hook =
      reinterpret_cast<afterimage_embedding_hook>(::dlsym(library.get(), spec.hook.symbol.c_str()));
  if (hook == nullptr) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("'{}' has no hook \"{}\": {}", spec.hook.library, spec.hook.symbol,
                            loader_error()));
  }
  std::vector<LayerSpec> layers;
  for (const LayerSpec& layer : spec.layers) {
    const std::size_t dimensions = hook(nullptr, layer.name.c_str(), nullptr, 0);
    if (dimensions == 0) continue;
    if (dimensions != layer.dimensions) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("layer \"{}\": the hook makes vectors of {} dimensions and not of {}",
                              layer.name, dimensions, layer.dimensions));
    }
    layers.push_back(layer);
  }
  if (layers.empty()) return nullptr;
  return std::make_unique<PluginVectors>(std::move(layers), std::move(library), hook, images);
}

}  // namespace afterimage
