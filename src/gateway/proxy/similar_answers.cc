// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/similar_answers.h"

#include <utility>

#include "caches/similarity/endpoint_embedder.h"
#include "caches/similarity/hashed_ngrams.h"
#include "gateway/openai/record.h"

namespace afterimage {
namespace {

Result<std::unique_ptr<Embedder>> make_embedder(const SimilaritySettings& settings,
                                                const std::string& key, const Clock& clock) {
  if (settings.embedder == kBuiltInEmbedder) {
    AFI_TRY(HashedNgrams built_in, HashedNgrams::create());
    return std::make_unique<HashedNgrams>(std::move(built_in));
  }
  AFI_TRY(Url url, parse_url(settings.embedder));
  EndpointOptions options{
      .url = std::move(url), .model = settings.model, .key = key, .deadline = settings.deadline};
  AFI_TRY(auto endpoint, EndpointEmbedder::create(std::move(options), clock));
  return endpoint;
}

}  // namespace

SimilarAnswers::SimilarAnswers(std::unique_ptr<Embedder> embedder,
                               std::unique_ptr<SimilarityRung> rung, bool waits)
    : embedder_(std::move(embedder)), rung_(std::move(rung)), waits_(waits) {}

Result<std::unique_ptr<SimilarAnswers>> SimilarAnswers::create(const SimilaritySettings& settings,
                                                               std::unique_ptr<Embedder> model,
                                                               const std::string& key, Reuse& reuse,
                                                               const Clock& clock) {
  if (settings.mode == "off") return nullptr;
  std::unique_ptr<Embedder> embedder = std::move(model);
  if (embedder == nullptr) {
    AFI_TRY(embedder, make_embedder(settings, key, clock));
  }
  SimilarityOptions options{
      .layers = {{.name = embedder->name(),
                  .dimensions = embedder->dimensions(),
                  .threshold = static_cast<float>(settings.threshold)}},
      .mode = settings.mode == "on" ? SimilarityMode::kLearned : SimilarityMode::kWatch,
      .acceptance = {.error_budget = settings.error_budget},
      .shared = &reuse.shared_memory()};
  AFI_TRY(auto rung,
          SimilarityRung::create(std::move(options), *reuse.answer_cache(), reuse.memory(), clock));
  return std::unique_ptr<SimilarAnswers>(new SimilarAnswers(std::move(embedder), std::move(rung),
                                                            settings.embedder != kBuiltInEmbedder));
}

std::optional<SimilarLookup> SimilarAnswers::find(const Question& question,
                                                  const LookupRules& rules) {
  auto vector = embedder_->embed_one(std::string_view(question.text()));
  if (!vector.has_value()) {
    ++not_embedded_;
    return std::nullopt;
  }
  SimilarLookup lookup;
  lookup.vectors.push_back(*std::move(vector));
  auto found = rung_->find(question, lookup.vectors, rules);
  if (!found.has_value()) return std::nullopt;
  lookup.found = *std::move(found);
  return lookup;
}

void SimilarAnswers::learn(const Question& question, const SimilarLookup& lookup,
                           std::string_view answer) {
  compare(question, lookup, answer);
  // Without room it is not found by similarity, which stats() counts.
  static_cast<void>(rung_->insert(question, lookup.vectors));
}

bool SimilarAnswers::verify(const Question& question, const SimilarLookup& lookup,
                            std::string_view answer) {
  if (compare(question, lookup, answer).value_or(false)) return true;
  ++demotions_;
  rung_->forget_evidence();
  return false;
}

std::optional<bool> SimilarAnswers::compare(const Question& question, const SimilarLookup& lookup,
                                            std::string_view answer) {
  if (!lookup.found.given.has_value()) return std::nullopt;
  // The gateway's answers are records of the API; what they say is compared.
  const auto record = ApiRecord::parse(lookup.found.given->record);
  if (!record.has_value()) return std::nullopt;
  SimilarityLookup found = lookup.found;
  found.answer.reset();
  found.given->text = record->text();
  return rung_->learn(question, found, {.text = std::string(answer)});
}

SimilarAnswersStats SimilarAnswers::stats() const {
  return {.rung = rung_->stats(), .not_embedded = not_embedded_, .demotions = demotions_};
}

}  // namespace afterimage
