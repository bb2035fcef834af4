// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/similarity_rungs.h"

#include <algorithm>
#include <utility>

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
                                                  std::string_view prefix, AnswerCache& cache,
                                                  MemoryBudget& budget, const Clock& clock) {
  SimilarityOptions options{.mode = mode_of(spec), .acceptance = {}, .vetoes = spec.vetoes};
  for (const LayerSpec& layer : layers) {
    options.layers.push_back({.name = std::string(prefix) + layer.name,
                              .dimensions = layer.dimensions,
                              .threshold = static_cast<float>(layer.threshold)});
  }
  return SimilarityRung::create(std::move(options), cache, budget, clock);
}

}  // namespace

Result<std::unique_ptr<SimilarityRungs>> SimilarityRungs::create(const ExperimentSpec& spec,
                                                                 AnswerCache& cache,
                                                                 MemoryBudget& budget,
                                                                 const Clock& clock,
                                                                 const ImageRoots& images) {
  std::unique_ptr<SimilarityRungs> all(new SimilarityRungs());
  AFI_TRY(Rung latent, latent_rung(spec, cache, budget, clock, images));
  AFI_TRY(Rung text, text_rung(spec, cache, budget, clock));
  for (Rung* rung : {&latent, &text}) {
    if (rung->rung != nullptr) all->rungs_.push_back(std::move(*rung));
  }
  return all;
}

Result<SimilarityRungs::Rung> SimilarityRungs::text_rung(const ExperimentSpec& spec,
                                                         AnswerCache& cache, MemoryBudget& budget,
                                                         const Clock& clock) {
  Rung text;
  if (!spec.enable_semantic_text_cache) return text;
  const LayerSpec layer{
      .name = "text", .dimensions = kTextDimensions, .threshold = spec.similarity_threshold};
  AFI_TRY(text.layer_vectors, key_vectors(layer));
  AFI_TRY(text.rung, make_rung(spec, {layer}, "", cache, budget, clock));
  return text;
}

Result<SimilarityRungs::Rung> SimilarityRungs::latent_rung(const ExperimentSpec& spec,
                                                           AnswerCache& cache, MemoryBudget& budget,
                                                           const Clock& clock,
                                                           const ImageRoots& images) {
  Rung latent;
  if (spec.layers.empty() || spec.hook.is_none()) return latent;
  AFI_TRY(latent.layer_vectors, hook_vectors(spec, images));
  if (latent.layer_vectors == nullptr) return latent;
  AFI_TRY(latent.rung,
          make_rung(spec, latent.layer_vectors->layers(), "embedding:", cache, budget, clock));
  return latent;
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

void SimilarityRungs::learn(const Question& question, const Answer& truth) {
  for (Rung& rung : rungs_) {
    if (rung.found.has_value()) rung.rung->learn(question, *rung.found, truth);
  }
}

}  // namespace afterimage
