// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/similarity_levels.h"

#include <algorithm>
#include <utility>

#include "lab/datasets/prompt.h"

namespace afterimage {
namespace {

constexpr std::size_t kTextDimensions = 384;  // as in the sentence encoder that it replaces

SimilarityMode mode_of(const ExperimentSpec& spec) {
  if (spec.similarity == "watch") return SimilarityMode::kWatch;
  return spec.similarity == "learned" ? SimilarityMode::kLearned : SimilarityMode::kThreshold;
}

/// The technique name of a layer.
std::string technique_of(const SimilarityLayer& layer) {
  return layer.name == "text" ? "semantic_text" : layer.name;
}

void note(Techniques& techniques, const SimilarityLevel& level, TechniqueStatus status) {
  for (const SimilarityLayer& layer : level.layers()) {
    const auto it = std::ranges::find(techniques, technique_of(layer), &Technique::name);
    if (it != techniques.end()) it->status = status;
  }
}

Result<std::unique_ptr<SimilarityLevel>> make_level(
    const ExperimentSpec& spec, const std::vector<LayerSpec>& layers, std::string_view prefix,
    const SimilarityLevelsDependencies& dependencies) {
  SimilarityOptions options{.mode = mode_of(spec), .acceptance = {}, .vetoes = spec.vetoes};
  for (const LayerSpec& layer : layers) {
    options.layers.push_back({.name = std::string(prefix) + layer.name,
                              .dimensions = layer.dimensions,
                              .threshold = static_cast<float>(layer.threshold)});
  }
  return SimilarityLevel::create(std::move(options), dependencies.cache, dependencies.budget,
                                 dependencies.clock);
}

/// The first sample with an image, else the first.
const Sample& example_of(std::span<const Sample> samples) {
  const auto example = std::ranges::find_if(
      samples, [](const Sample& sample) { return sample.content.has_value(); });
  return example == samples.end() ? samples.front() : *example;
}

/// The engine's states as layers, by an example. nullptr: it has none of them.
Result<std::unique_ptr<LayerVectors>> states_for(const ExperimentSpec& spec,
                                                 std::vector<LayerSpec> layers,
                                                 const SimilarityLevelsDependencies& dependencies) {
  if (dependencies.samples.empty()) return nullptr;
  const Sample& example = example_of(dependencies.samples);
  const std::string prompt = render_prompt(spec.prompt_template, example);
  return engine_vectors(std::move(layers), dependencies.engine,
                        {example, prompt, example.question});
}

/// What a hook other than "engine" works with: the engine's encoder, if it reads images here.
HookSources sources_of(const ExperimentSpec& spec,
                       const SimilarityLevelsDependencies& dependencies) {
  HookSources sources{.images = dependencies.images, .text_encoder = dependencies.text_encoder};
  const bool has_vision =
      spec.hook.vision && dependencies.engine.shows_states() && !dependencies.samples.empty();
  if (!has_vision) return sources;
  const Sample& example = example_of(dependencies.samples);
  const auto state = dependencies.engine.state(
      example, render_prompt(spec.prompt_template, example), EngineState::kVision);
  if (!state.has_value() || state->empty()) return sources;
  sources.vision = &dependencies.engine;
  sources.vision_width = state->size();
  return sources;
}

}  // namespace

Result<std::unique_ptr<SimilarityLevels>> SimilarityLevels::create(
    const ExperimentSpec& spec, const SimilarityLevelsDependencies& dependencies) {
  std::unique_ptr<SimilarityLevels> all(new SimilarityLevels());
  for (auto* const make : {&latent_level, &fusion_level, &text_level}) {
    AFI_TRY(Level level, make(spec, dependencies));
    if (level.level != nullptr) all->levels_.push_back(std::move(level));
  }
  return all;
}

Result<SimilarityLevels::Level> SimilarityLevels::text_level(
    const ExperimentSpec& spec, const SimilarityLevelsDependencies& dependencies) {
  Level text;
  if (!spec.enable_semantic_text_cache) return text;
  LayerSpec layer{
      .name = "text", .dimensions = kTextDimensions, .threshold = spec.similarity_threshold};
  if (dependencies.text_encoder != nullptr)
    layer.dimensions = dependencies.text_encoder->dimensions();
  AFI_TRY(text.layer_vectors, key_vectors(layer, dependencies.text_encoder));
  AFI_TRY(text.level, make_level(spec, {layer}, "", dependencies));
  return text;
}

Result<SimilarityLevels::Level> SimilarityLevels::latent_level(
    const ExperimentSpec& spec, const SimilarityLevelsDependencies& dependencies) {
  Level latent;
  if (spec.layers.empty() || spec.hook.is_none()) return latent;
  if (spec.hook.engine) {
    AFI_TRY(latent.layer_vectors, states_for(spec, spec.layers, dependencies));
  } else {
    AFI_TRY(latent.layer_vectors, hook_vectors(spec, sources_of(spec, dependencies)));
  }
  if (latent.layer_vectors == nullptr) return latent;
  AFI_TRY(latent.level,
          make_level(spec, latent.layer_vectors->layers(), "embedding:", dependencies));
  return latent;
}

/// Without an engine that exposes its states there is nothing to compare.
Result<SimilarityLevels::Level> SimilarityLevels::fusion_level(
    const ExperimentSpec& spec, const SimilarityLevelsDependencies& dependencies) {
  Level fusion;
  if (!spec.enable_fusion_cache) return fusion;
  auto states = states_for(
      spec, {{.name = "fusion", .dimensions = 0, .threshold = spec.similarity_threshold}},
      dependencies);
  if (!states.has_value() && states.error().code == ErrorCode::kUnsupported) return fusion;
  AFI_TRY(fusion.layer_vectors, std::move(states));
  if (fusion.layer_vectors == nullptr) return fusion;
  AFI_TRY(fusion.level, make_level(spec, fusion.layer_vectors->layers(), "", dependencies));
  return fusion;
}

Result<std::optional<SimilarAnswer>> SimilarityLevels::ask(Level& level, const Question& question,
                                                           const SampleToEmbed& sample,
                                                           Techniques& techniques) {
  AFI_TRY(level.vectors, level.layer_vectors->of(sample));
  AFI_TRY(level.found, level.level->find(question, level.vectors));
  if (std::ranges::any_of(level.vectors, &Vector::empty)) return std::nullopt;  // skipped
  note(techniques, *level.level,
       level.found->answer.has_value() ? TechniqueStatus::kHit : TechniqueStatus::kMiss);
  if (!level.found->answer.has_value()) return std::nullopt;
  const Proposal& proposal = level.found->proposals[*level.found->judged];
  const auto least = std::ranges::min_element(proposal.similarity);
  const auto layer = static_cast<std::size_t>(least - proposal.similarity.begin());
  return SimilarAnswer{.answer = *level.found->answer,
                       .source = level.level->layers()[layer].name,
                       .candidate = proposal.candidate,
                       .score = *least};
}

Result<std::optional<SimilarAnswer>> SimilarityLevels::find(const Question& question,
                                                            const Sample& sample,
                                                            const std::string& prompt,
                                                            Techniques& techniques) {
  for (Level& level : levels_) level.found.reset();
  for (Level& level : levels_) {
    AFI_TRY(std::optional<SimilarAnswer> answer,
            ask(level, question, {sample, prompt, question.text()}, techniques));
    if (answer.has_value()) return answer;
  }
  return std::nullopt;
}

Result<void> SimilarityLevels::insert(const Question& question) {
  for (Level& level : levels_) {
    if (level.found.has_value()) AFI_TRY_VOID(level.level->insert(question, level.vectors));
  }
  return {};
}

std::vector<SimilarityLevel*> SimilarityLevels::all() const {
  std::vector<SimilarityLevel*> all;
  for (const Level& level : levels_) all.push_back(level.level.get());
  return all;
}

void SimilarityLevels::learn(const Question& question, const Answer& truth) {
  for (Level& level : levels_) {
    if (level.found.has_value()) level.level->learn(question, *level.found, truth);
  }
}

}  // namespace afterimage
