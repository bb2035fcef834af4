// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/similar_answers.h"

#include <algorithm>

#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

constexpr Duration::rep kMemory = 16;    // values that an average remembers
constexpr std::size_t kNameDigits = 32;  // of an evidence's name

void add_to(std::optional<Duration>& average, Duration value) {
  average = average.has_value() ? *average + (value - *average) / kMemory : value;
}

/// Falls at once and rises slowly: one slow call, such as the first, says little.
void add_to_lowest(std::optional<Duration>& lowest, Duration value) {
  lowest = lowest.has_value() ? std::min(value, *lowest + *lowest / kMemory) : value;
}

/// What is judged: matches by these vectors that this verifier accepts.
std::string evidence_name(const SimilarAnswersOptions& options, const std::string& verified_by) {
  const std::string what = options.embedder->name() + "\n" + verified_by;
  return to_hex(sha256(std::as_bytes(std::span(what)))).substr(0, kNameDigits);
}

}  // namespace

Result<std::unique_ptr<SimilarAnswers>> SimilarAnswers::create(SimilarAnswersOptions options,
                                                               AnswerCache& cache,
                                                               MemoryBudget& budget,
                                                               const Clock& clock) {
  std::unique_ptr<SimilarAnswers> similar(new SimilarAnswers(std::move(options), cache, clock));
  const SimilarAnswersOptions& made = similar->options_;
  SimilarityOptions level{.layers = {{.name = made.embedder->name(),
                                      .dimensions = made.embedder->dimensions(),
                                      .threshold = made.threshold}},
                          .mode = made.mode,
                          .acceptance = made.acceptance,
                          .verifier = made.verifier.get(),
                          .verifier_threshold = made.verifier_threshold,
                          .verifier_overrules_vetoes = made.verifier_overrules_vetoes,
                          .may_differ = made.may_differ,
                          .shared = made.shared};
  if (made.storage.has_value()) {
    // Inserts what it finds into the cache.
    level.bring = [&answers = made.storage->answers](Question& candidate,
                                                     const LookupRules& rules) {
      static_cast<void>(answers.restore(candidate, rules));
    };
  }
  AFI_TRY(similar->level_, SimilarityLevel::create(std::move(level), cache, budget, clock));
  if (made.storage.has_value()) {
    const std::string verified_by = similar->level_->verified_by();
    AFI_TRY(SharedCell* const evidence, made.storage->evidence(evidence_name(made, verified_by)));
    similar->archive_ = std::make_unique<SimilarityArchive>(SimilarityArchiveDependencies{
        .level = *similar->level_,
        .cache = cache,
        .tier = made.storage->tier,
        .evidence = *evidence,
        .transfer = made.storage->transfer,
        .clock = clock,
        .secret = made.storage->secret,
        .erasures = [&answers = made.storage->answers] { return answers.erasures(); }});
  }
  return similar;
}

std::optional<SimilarLookup> SimilarAnswers::embed(const Question& question) {
  const Duration began = clock_.now();
  auto vector = options_.embedder->embed_one(std::string_view(question.text()));
  if (!vector.has_value()) return std::nullopt;
  {
    const MutexLock lock(costs_mutex_);
    add_to_lowest(vector_cost_, clock_.now() - began);
  }
  if (archive_ != nullptr) archive_->refresh(question.scope());
  SimilarLookup lookup;
  lookup.vectors.push_back(*std::move(vector));
  return lookup;
}

bool SimilarAnswers::is_worth_a_vector() {
  if (!options_.only_if_faster) return true;
  if (!options_.embedder_waits && options_.verifier == nullptr) return true;
  {
    const MutexLock lock(costs_mutex_);
    if (!vector_cost_.has_value() || !answer_cost_.has_value()) return true;
    if (*vector_cost_ + verify_cost_.value_or(Duration(0)) < *answer_cost_) return true;
  }
  return ++not_worth_ % kRemeasure == 0;
}

std::optional<SimilarLookup> SimilarAnswers::find(const Question& question,
                                                  const LookupRules& rules) {
  if (!is_worth_a_vector()) return std::nullopt;
  auto lookup = embed(question);
  if (!lookup.has_value()) {
    ++not_embedded_;
    return std::nullopt;
  }
  auto found = level_->find(question, lookup->vectors, rules);
  if (!found.has_value()) return std::nullopt;
  if (found->verification != Verification::kNone) {
    const MutexLock lock(costs_mutex_);
    add_to_lowest(verify_cost_, found->verified_in);
  }
  lookup->found = *std::move(found);
  return lookup;
}

std::optional<SimilarLookup> SimilarAnswers::peek(const Question& question,
                                                  const LookupRules& rules) {
  auto lookup = embed(question);
  if (!lookup.has_value()) return std::nullopt;
  auto found = level_->peek(question, lookup->vectors, rules);
  if (!found.has_value()) return std::nullopt;
  lookup->found = *std::move(found);
  return lookup;
}

void SimilarAnswers::learn(const Question& question, const SimilarLookup& lookup,
                           std::string_view answer, Duration cost) {
  if (cost > Duration(0)) {
    const MutexLock lock(costs_mutex_);
    add_to(answer_cost_, cost);
  }
  compare(question, lookup, answer);
  const std::uint64_t since = archive_ == nullptr ? 0 : archive_->erasures();
  // Work that waits may be overtaken by an erasure, which then holds for the question, too.
  Question kept(question);
  if (waits() && !cache_.peek(kept, {.serve = MatchLevel::kExact}).answer.has_value()) return;
  // Without room it is not found by similarity, which stats() counts.
  static_cast<void>(level_->insert(question, lookup.vectors));
  if (archive_ != nullptr) archive_->keep(question, lookup.vectors, since);
}

bool SimilarAnswers::verify(const Question& question, const SimilarLookup& lookup,
                            std::string_view answer) {
  if (compare(question, lookup, answer).value_or(false)) return true;
  ++demotions_;
  archive_ != nullptr ? archive_->forget() : level_->forget_evidence();
  return false;
}

void SimilarAnswers::reported_wrong(const Question& question,
                                    const std::optional<SimilarLookup>& served) {
  if (served.has_value()) {
    level_->learn(question, served->found, false);
    if (archive_ != nullptr) archive_->learned(question, served->found, false);
  }
  const auto near = served.has_value() ? served : embed(question);
  if (!near.has_value()) return;
  const auto suspects = level_->suspect(question, near->vectors);
  if (archive_ != nullptr && suspects.has_value()) {
    archive_->suspected(question.scope(), *suspects);
  }
}

std::optional<bool> SimilarAnswers::compare(const Question& question, const SimilarLookup& lookup,
                                            std::string_view answer) {
  if (!lookup.found.given.has_value()) return std::nullopt;
  SimilarityLookup found = lookup.found;
  found.answer.reset();
  if (options_.text_of) {
    auto said = options_.text_of(*found.given);
    if (!said.has_value()) return std::nullopt;
    found.given->text = *std::move(said);
  }
  const auto right = level_->learn(question, found, {.text = std::string(answer)});
  if (archive_ != nullptr && right.has_value()) archive_->learned(question, found, *right);
  return right;
}

SimilarAnswersStats SimilarAnswers::stats() const {
  return {.level = level_->stats(),
          .archive = archive_ == nullptr ? SimilarityArchiveStats() : archive_->stats(),
          .not_embedded = not_embedded_,
          .not_worth = not_worth_,
          .demotions = demotions_};
}

}  // namespace afterimage
