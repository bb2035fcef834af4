// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/layer_vectors.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "caches/similarity/hashed_ngrams.h"
#include "lab/experiment/picture_grid.h"
#include "lab/experiment/plugin_hook.h"
#include "lab/experiment/python_hook.h"

namespace afterimage {
namespace {

enum class VectorsOf : unsigned char { kKey, kQuestion, kPicture, kEncoderOutput };

struct BuiltInLayer {
  VectorsOf of = VectorsOf::kKey;
  std::shared_ptr<Embedder> embedder;  // nullptr: of kEncoderOutput
  SampleEngine* engine = nullptr;      // of kEncoderOutput
};

/// One that outlives its use.
std::shared_ptr<Embedder> borrowed(Embedder* embedder) {
  return {embedder, [](Embedder*) {}};
}

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
    if (layer.of == VectorsOf::kEncoderOutput) {
      return layer.engine->state(asked.sample, asked.prompt, EngineState::kVision);
    }
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

std::optional<EngineState> state_named(std::string_view layer) {
  if (layer == "vision") return EngineState::kVision;
  if (layer == "prompt") return EngineState::kPrompt;
  if (layer == "fusion") return EngineState::kFusion;
  return std::nullopt;
}

class EngineVectors final : public LayerVectors {
 public:
  EngineVectors(std::vector<LayerSpec> layers, SampleEngine& engine)
      : LayerVectors(std::move(layers)), engine_(engine) {}

  Result<std::vector<Vector>> of(const SampleToEmbed& asked) override {
    std::vector<Vector> vectors;
    for (const LayerSpec& layer : layers()) {
      AFI_TRY(Vector vector, engine_.state(asked.sample, asked.prompt, *state_named(layer.name)));
      vectors.push_back(std::move(vector));
    }
    return vectors;
  }

 private:
  SampleEngine& engine_;
};

bool makes(const HookChoice& hook, const LayerSpec& layer) {
  if (hook.engine) return state_named(layer.name).has_value();
  return (hook.prompt && layer.name == "prompt") || (hook.vision && layer.name == "vision");
}

}  // namespace

Result<std::unique_ptr<LayerVectors>> key_vectors(const LayerSpec& layer, Embedder* encoder) {
  std::vector<BuiltInLayer> made(1);
  if (encoder != nullptr) {
    made[0].embedder = borrowed(encoder);
  } else {
    AFI_TRY(made[0].embedder, embedder_for<HashedNgrams>(layer));
  }
  return std::make_unique<BuiltInVectors>(std::vector{layer}, std::move(made), nullptr);
}

Result<std::unique_ptr<LayerVectors>> hook_vectors(const ExperimentSpec& spec,
                                                   const HookSources& sources) {
  if (!spec.hook.library.empty()) return plugin_vectors(spec, sources.images);
  if (!spec.hook.python.empty()) return python_vectors(spec, sources.images);
  std::vector<LayerSpec> layers;
  std::vector<BuiltInLayer> made;
  for (LayerSpec layer : spec.layers) {
    if (!makes(spec.hook, layer)) continue;
    BuiltInLayer built{.of = VectorsOf::kQuestion, .embedder = nullptr};
    if (layer.name == "vision" && sources.vision != nullptr) {
      built.of = VectorsOf::kEncoderOutput;
      built.engine = sources.vision;
      layer.dimensions = sources.vision_width;
    } else if (layer.name == "vision") {
      built.of = VectorsOf::kPicture;
      AFI_TRY(built.embedder, embedder_for<PictureGrid>(layer));
    } else if (sources.text_encoder != nullptr) {
      built.embedder = borrowed(sources.text_encoder);
      layer.dimensions = sources.text_encoder->dimensions();
    } else {
      AFI_TRY(built.embedder, embedder_for<HashedNgrams>(layer));
    }
    layers.push_back(std::move(layer));
    made.push_back(std::move(built));
  }
  if (layers.empty()) return nullptr;
  return std::make_unique<BuiltInVectors>(std::move(layers), std::move(made), &sources.images);
}

Result<std::unique_ptr<LayerVectors>> engine_vectors(std::vector<LayerSpec> layers,
                                                     SampleEngine& engine,
                                                     const SampleToEmbed& example) {
  std::vector<LayerSpec> made;
  for (LayerSpec& layer : layers) {
    const auto state = state_named(layer.name);
    if (!state.has_value()) continue;
    AFI_TRY(const Vector vector, engine.state(example.sample, example.prompt, *state));
    if (vector.empty()) continue;
    if (layer.dimensions == 0) layer.dimensions = vector.size();
    if (layer.dimensions != vector.size()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("layer \"{0}\": the engine's states have {1} dimensions and not {2}; "
                              "write {0}:{1}",
                              layer.name, vector.size(), layer.dimensions));
    }
    made.push_back(std::move(layer));
  }
  if (made.empty()) return nullptr;
  return std::make_unique<EngineVectors>(std::move(made), engine);
}

std::vector<std::string> layers_without_vectors(const ExperimentSpec& spec) {
  std::vector<std::string> without;
  // Only the library, or the Python code, knows its layers.
  if (!spec.hook.library.empty() || !spec.hook.python.empty()) return without;
  for (const LayerSpec& layer : spec.layers) {
    if (!makes(spec.hook, layer)) without.push_back(layer.name);
  }
  return without;
}

}  // namespace afterimage
