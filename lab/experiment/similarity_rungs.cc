// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/similarity_rungs.h"

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

void note(Techniques& techniques, const SimilarityRung& rung, TechniqueStatus status) {
  for (const SimilarityLayer& layer : rung.layers()) {
    const auto it = std::ranges::find(techniques, technique_of(layer), &Technique::name);
    if (it != techniques.end()) it->status = status;
  }
}

Result<std::unique_ptr<SimilarityRung>> make_rung(const ExperimentSpec& spec,
                                                  const std::vector<LayerSpec>& layers,
                                                  std::string_view prefix,
                                                  const SimilarityRungsParts& parts) {
  SimilarityOptions options{.mode = mode_of(spec), .acceptance = {}, .vetoes = spec.vetoes};
  for (const LayerSpec& layer : layers) {
    options.layers.push_back({.name = std::string(prefix) + layer.name,
                              .dimensions = layer.dimensions,
                              .threshold = static_cast<float>(layer.threshold)});
  }
  return SimilarityRung::create(std::move(options), parts.cache, parts.budget, parts.clock);
}

/// The engine's states as layers, by the first sample with an image. nullptr: it has none of them.
Result<std::unique_ptr<LayerVectors>> states_for(const ExperimentSpec& spec,
                                                 std::vector<LayerSpec> layers,
                                                 const SimilarityRungsParts& parts) {
  if (parts.samples.empty()) return nullptr;
  auto example = std::ranges::find_if(
      parts.samples, [](const Sample& sample) { return sample.content.has_value(); });
  if (example == parts.samples.end()) example = parts.samples.begin();
  const std::string prompt = render_prompt(spec.prompt_template, *example);
  return engine_vectors(std::move(layers), parts.engine, {*example, prompt, example->question});
}

}  // namespace

Result<std::unique_ptr<SimilarityRungs>> SimilarityRungs::create(
    const ExperimentSpec& spec, const SimilarityRungsParts& parts) {
  std::unique_ptr<SimilarityRungs> all(new SimilarityRungs());
  for (auto* const make : {&latent_rung, &fusion_rung, &text_rung}) {
    AFI_TRY(Rung rung, make(spec, parts));
    if (rung.rung != nullptr) all->rungs_.push_back(std::move(rung));
  }
  return all;
}

Result<SimilarityRungs::Rung> SimilarityRungs::text_rung(const ExperimentSpec& spec,
                                                         const SimilarityRungsParts& parts) {
  Rung text;
  if (!spec.enable_semantic_text_cache) return text;
  LayerSpec layer{
      .name = "text", .dimensions = kTextDimensions, .threshold = spec.similarity_threshold};
  if (parts.text_encoder != nullptr) layer.dimensions = parts.text_encoder->dimensions();
  AFI_TRY(text.layer_vectors, key_vectors(layer, parts.text_encoder));
  AFI_TRY(text.rung, make_rung(spec, {layer}, "", parts));
  return text;
}

Result<SimilarityRungs::Rung> SimilarityRungs::latent_rung(const ExperimentSpec& spec,
                                                           const SimilarityRungsParts& parts) {
  Rung latent;
  if (spec.layers.empty() || spec.hook.is_none()) return latent;
  if (spec.hook.engine) {
    AFI_TRY(latent.layer_vectors, states_for(spec, spec.layers, parts));
  } else {
    AFI_TRY(latent.layer_vectors, hook_vectors(spec, parts.images));
  }
  if (latent.layer_vectors == nullptr) return latent;
  AFI_TRY(latent.rung, make_rung(spec, latent.layer_vectors->layers(), "embedding:", parts));
  return latent;
}

/// Without an engine that exposes its states there is nothing to compare.
Result<SimilarityRungs::Rung> SimilarityRungs::fusion_rung(const ExperimentSpec& spec,
                                                           const SimilarityRungsParts& parts) {
  Rung fusion;
  if (!spec.enable_fusion_cache) return fusion;
  auto states = states_for(
      spec, {{.name = "fusion", .dimensions = 0, .threshold = spec.similarity_threshold}}, parts);
  if (!states.has_value() && states.error().code == ErrorCode::kUnsupported) return fusion;
  AFI_TRY(fusion.layer_vectors, std::move(states));
  if (fusion.layer_vectors == nullptr) return fusion;
  AFI_TRY(fusion.rung, make_rung(spec, fusion.layer_vectors->layers(), "", parts));
  return fusion;
}

Result<std::optional<SimilarAnswer>> SimilarityRungs::ask(Rung& rung, const Question& question,
                                                          const SampleToEmbed& sample,
                                                          Techniques& techniques) {
  AFI_TRY(rung.vectors, rung.layer_vectors->of(sample));
  AFI_TRY(rung.found, rung.rung->find(question, rung.vectors));
  if (std::ranges::any_of(rung.vectors, &Vector::empty)) return std::nullopt;  // skipped
  note(techniques, *rung.rung,
       rung.found->answer.has_value() ? TechniqueStatus::kHit : TechniqueStatus::kMiss);
  if (!rung.found->answer.has_value()) return std::nullopt;
  const Proposal& proposal = rung.found->proposals[*rung.found->judged];
  const auto least = std::ranges::min_element(proposal.similarity);
  const auto layer = static_cast<std::size_t>(least - proposal.similarity.begin());
  return SimilarAnswer{.answer = *rung.found->answer,
                       .source = rung.rung->layers()[layer].name,
                       .candidate = proposal.candidate,
                       .score = *least};
}

Result<std::optional<SimilarAnswer>> SimilarityRungs::find(const Question& question,
                                                           const Sample& sample,
                                                           const std::string& prompt,
                                                           Techniques& techniques) {
  for (Rung& rung : rungs_) rung.found.reset();
  for (Rung& rung : rungs_) {
    AFI_TRY(std::optional<SimilarAnswer> answer,
            ask(rung, question, {sample, prompt, question.text()}, techniques));
    if (answer.has_value()) return answer;
  }
  return std::nullopt;
}

Result<void> SimilarityRungs::insert(const Question& question) {
  for (Rung& rung : rungs_) {
    if (rung.found.has_value()) AFI_TRY_VOID(rung.rung->insert(question, rung.vectors));
  }
  return {};
}

std::vector<SimilarityRung*> SimilarityRungs::all() const {
  std::vector<SimilarityRung*> all;
  for (const Rung& rung : rungs_) all.push_back(rung.rung.get());
  return all;
}

void SimilarityRungs::learn(const Question& question, const Answer& truth) {
  for (Rung& rung : rungs_) {
    if (rung.found.has_value()) rung.rung->learn(question, *rung.found, truth);
  }
}

}  // namespace afterimage
