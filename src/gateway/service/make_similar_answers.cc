// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/service/make_similar_answers.h"

#include <utility>

#include "caches/similarity/endpoint_embedder.h"
#include "caches/similarity/endpoint_verifier.h"
#include "caches/similarity/hashed_ngrams.h"
#include "caches/similarity/projected_embedder.h"
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
  ModelEndpointOptions options{
      .url = std::move(url), .model = settings.model, .key = key, .deadline = settings.deadline};
  AFI_TRY(auto endpoint, EndpointEmbedder::create(std::move(options), clock));
  return endpoint;
}

Result<std::unique_ptr<Verifier>> make_verifier(const SimilaritySettings& settings,
                                                const std::string& key, const Clock& clock) {
  if (settings.verifier.empty()) return nullptr;
  AFI_TRY(Url url, parse_url(settings.verifier));
  return std::make_unique<EndpointVerifier>(ModelEndpointOptions{.url = std::move(url),
                                                                 .model = settings.verifier_model,
                                                                 .key = key,
                                                                 .deadline = settings.deadline},
                                            clock);
}

/// The gateway's answers are records of the API; what they say is compared.
std::optional<std::string> text_of(const Answer& answer) {
  const auto record = ApiRecord::parse(answer.record);
  return record.has_value() ? std::optional(std::string(record->text())) : std::nullopt;
}

}  // namespace

Result<std::unique_ptr<SimilarAnswers>> make_similar_answers(const SimilaritySettings& settings,
                                                             SimilarityModels models,
                                                             const SimilarityKeys& keys,
                                                             std::optional<SimilarStorage> storage,
                                                             Reuse& reuse, const Clock& clock) {
  if (settings.mode == "off") return nullptr;
  SimilarAnswersOptions options{
      .embedder = std::move(models.embedder),
      .embedder_waits = settings.embedder != kBuiltInEmbedder,
      .verifier = std::move(models.verifier),
      .verifier_threshold = static_cast<float>(settings.verifier_threshold),
      .verifier_overrules_vetoes = settings.verifier_overrules_vetoes,
      .may_differ = {settings.may_differ.begin(), settings.may_differ.end()},
      .only_if_faster = settings.only_if_faster,
      .threshold = static_cast<float>(settings.threshold),
      .mode = settings.mode == "on" ? SimilarityMode::kLearned : SimilarityMode::kWatch,
      .acceptance = {.error_budget = settings.error_budget},
      .text_of = text_of,
      .storage = std::move(storage),
      .shared = &reuse.shared_memory()};
  if (options.embedder == nullptr) {
    AFI_TRY(options.embedder, make_embedder(settings, keys.embedder, clock));
  }
  if (!models.projection.empty()) {
    AFI_TRY(options.embedder,
            ProjectedEmbedder::create(std::move(options.embedder), models.projection));
  }
  if (options.verifier == nullptr) {
    AFI_TRY(options.verifier, make_verifier(settings, keys.verifier, clock));
  }
  return SimilarAnswers::create(std::move(options), *reuse.answer_cache(), reuse.memory(), clock);
}

}  // namespace afterimage
