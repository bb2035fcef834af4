// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/similarity_archive.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

constexpr std::size_t kMostScopes = 10'000;  // remembered; then all are read again
constexpr int kRaces = 32;                   // lost in a row by a process that shares evidence

std::vector<std::string> names_of(const std::vector<SimilarityLayer>& layers) {
  std::vector<std::string> names;
  for (const SimilarityLayer& layer : layers) names.push_back(layer.name);
  return names;
}

auto find_in(SimilarPage& page, std::string_view question) {
  return std::ranges::find(page.candidates, question, &SimilarCandidate::question);
}

}  // namespace

SimilarityArchive::SimilarityArchive(const SimilarityArchiveDependencies& dependencies)
    : dependencies_(dependencies),
      layers_(names_of(dependencies.level.layers())),
      verified_by_(dependencies.level.verified_by()) {
  dependencies_.cache.add_observer(*this);
}

SimilarityArchive::~SimilarityArchive() { dependencies_.cache.remove_observer(*this); }

TierKey SimilarityArchive::key_of(const ScopeId& scope, std::size_t page) const {
  FieldWriter fields("afterimage/similar-questions-key/1");
  for (const std::string& layer : layers_) fields.text("layer", layer);
  if (!verified_by_.empty()) fields.text("verifier", verified_by_);
  fields.bytes("space", scope.space.bytes).bytes("scope", scope.key.bytes).number("page", page);
  return {.entry_class = EntryClass::kAnswer,
          .bytes = hmac_sha256(dependencies_.secret, fields.message())};
}

SimilarityArchive::Known& SimilarityArchive::known(const ScopeId& scope) {
  if (scopes_.size() >= kMostScopes && !scopes_.contains(scope.key)) scopes_.clear();
  return scopes_[scope.key];
}

bool SimilarityArchive::is_due(const std::optional<Duration>& read_at) const {
  return !read_at.has_value() || dependencies_.clock.now() - *read_at >= kReadAgain;
}

SimilarPage SimilarityArchive::read(const TierKey& key) {
  SimilarPage nothing{.layers = layers_, .epoch = epoch_, .candidates = {}};
  if (dependencies_.tier.is_pending(key)) static_cast<void>(dependencies_.tier.flush());
  auto stored = dependencies_.tier.get(key, dependencies_.transfer);
  if (!stored.has_value()) fail_once();
  if (!stored.has_value() || !stored->has_value()) return nothing;
  auto page = similar_page_from((*stored)->bytes);
  if (!page.has_value() || page->layers != layers_) {
    fail_once();
    return nothing;
  }
  if (page->epoch < epoch_) {
    for (SimilarCandidate& candidate : page->candidates) candidate.evidence.forget_right();
    page->epoch = epoch_;
  }
  return *std::move(page);
}

void SimilarityArchive::write(const TierKey& key, const SimilarPage& page, std::uint64_t since) {
  const std::vector<std::byte> bytes = to_bytes(page);
  if (!dependencies_.tier.put(key, {.tensors = {}, .cost = Duration(0)}, bytes).has_value())
    fail_once();
  // The sweep of the tier may have been before the page was written.
  if (erasures() != since) static_cast<void>(dependencies_.tier.erase(key));
}

void SimilarityArchive::refresh(const ScopeId& scope) {
  const MutexLock lock(mutex_);
  if (is_due(evidence_read_at_)) share_evidence();
  Known& known = this->known(scope);
  if (!is_due(known.read_at)) return;
  {
    const MutexLock dropped(dropped_mutex_);
    if (dropped_.erase(scope.key) > 0) known = {};
  }
  known.read_at = dependencies_.clock.now();
  read_pages(scope, known);
}

void SimilarityArchive::read_pages(const ScopeId& scope, Known& known) {
  for (std::size_t pages = 0; pages < kPagesAtOnce; ++pages) {
    const TierKey key = key_of(scope, known.last);
    dependencies_.tier.invalidate_negative(std::span(&key, 1));
    const SimilarPage page = read(key);
    for (const SimilarCandidate& candidate : page.candidates) {
      if (dependencies_.level.restore(scope, candidate).value_or(false)) ++stats_.restored;
      known.page_of.insert_or_assign(candidate.question, known.last);
    }
    if (to_bytes(page).size() < kPageBytes) return;
    ++known.last;
  }
}

void SimilarityArchive::keep(const Question& question, std::span<const Vector> vectors,
                             std::uint64_t since) {
  const MutexLock lock(mutex_);
  Known& known = this->known(question.scope());
  const auto written = known.page_of.find(question.text());
  std::size_t number = written == known.page_of.end() ? known.last : written->second;
  SimilarPage page = read(key_of(question.scope(), number));
  const auto before = find_in(page, question.text());
  if (before != page.candidates.end()) {
    page.candidates.erase(before);  // another answer: evidence about the old one is void
  } else if (to_bytes(page).size() >= kPageBytes) {
    number = ++known.last;
    page = read(key_of(question.scope(), number));
  }
  page.candidates.push_back(
      {.question = question.text(), .vectors = {vectors.begin(), vectors.end()}, .evidence = {}});
  write(key_of(question.scope(), number), page, since);
  known.page_of.insert_or_assign(question.text(), number);
  ++stats_.kept;
}

void SimilarityArchive::learned(const Question& question, const SimilarityLookup& found,
                                bool right) {
  const SimilarityKind kind = SimilarityLevel::kind_of(question, found);
  const MutexLock lock(mutex_);
  unshared_.add(kind, right);
  share_evidence();
  learn_in_page(question.scope(), found.proposals[*found.judged].candidate, kind, right);
}

void SimilarityArchive::suspected(const ScopeId& scope, std::span<const Suspect> suspects) {
  const MutexLock lock(mutex_);
  for (const Suspect& suspect : suspects) {
    learn_in_page(scope, suspect.candidate, suspect.kind, false);
  }
}

void SimilarityArchive::learn_in_page(const ScopeId& scope, const std::string& candidate,
                                      const SimilarityKind& kind, bool right) {
  Known& known = this->known(scope);
  const auto number = known.page_of.find(candidate);
  if (number == known.page_of.end()) return;
  const TierKey key = key_of(scope, number->second);
  const std::uint64_t since = erasures();
  SimilarPage page = read(key);
  const auto there = find_in(page, candidate);
  if (there == page.candidates.end()) return;
  there->evidence.add(kind, right);
  write(key, page, since);
}

void SimilarityArchive::share_evidence() {
  evidence_read_at_ = dependencies_.clock.now();
  for (int race = 0; race < kRaces; ++race) {
    if (try_to_share()) return;
  }
  fail_once();
}

bool SimilarityArchive::try_to_share() {
  const auto value = dependencies_.evidence.read();
  if (!value.has_value()) {  // later; until then this process goes by what it knows
    fail_once();
    return true;
  }
  SharedEvidence shared{.epoch = epoch_, .table = {}};
  if (value->has_value()) {
    auto parsed = shared_evidence_from((*value)->bytes);
    if (parsed.has_value()) {
      shared = *std::move(parsed);
    } else {  // without its epoch nothing that was learnt can be trusted
      fail_once();
      ++shared.epoch;
    }
  }
  if (shared.epoch > epoch_) {
    epoch_ = shared.epoch;
    unshared_ = {};
    dependencies_.level.forget_evidence();
  }
  const bool ended_here = shared.epoch < epoch_;
  if (ended_here) shared = {.epoch = epoch_, .table = {}};
  if (ended_here || unshared_ != EvidenceTable()) {
    shared.table.add(unshared_);
    const auto version = value->has_value() ? std::optional((*value)->version) : std::nullopt;
    const auto replaced = dependencies_.evidence.replace(version, to_bytes(shared));
    if (!replaced.has_value()) {
      fail_once();
      return true;
    }
    if (!*replaced) return false;
    unshared_ = {};
  }
  dependencies_.level.take_evidence(shared.table);
  return true;
}

void SimilarityArchive::forget() {
  const MutexLock lock(mutex_);
  share_evidence();  // also what was learnt in an epoch that this process has not seen yet is void
  ++epoch_;
  unshared_ = {};
  dependencies_.level.forget_evidence();
  share_evidence();
}

void SimilarityArchive::answer_removed(const ScopeId& scope, std::string_view /*question*/) {
  const MutexLock lock(dropped_mutex_);
  if (dropped_.size() < kMostScopes) dropped_.insert(scope.key);
}

SimilarityArchiveStats SimilarityArchive::stats() const {
  const MutexLock lock(mutex_);
  SimilarityArchiveStats stats = stats_;
  stats.epoch = epoch_;
  return stats;
}

}  // namespace afterimage
