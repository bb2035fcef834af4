// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/similarity.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "afterimage/result.h"
#include "caches/language/same_answer.h"
#include "caches/similarity/vector_index.h"
#include "foundation/platform/random.h"
#include "foundation/types/digest_hash.h"

namespace afterimage {
namespace {

/// A candidate question.
struct Entry {
  std::string question;
  std::vector<std::optional<RowId>> rows;   // by layer
  std::unique_ptr<EvidenceTable> evidence;  // nullptr: none, as for most
  Reservation reservation;

  [[nodiscard]] Evidence seen() const {
    return evidence == nullptr ? Evidence() : evidence->total();
  }
};

/// Neighbours that are examined where rules without a model leave few of them.
constexpr std::size_t kManyNearest = 64;

/// Neither absent nor all zero.
bool has_features(const Vector& vector) {
  return std::ranges::any_of(vector, [](float x) { return x != 0.0F; });
}

bool is_about_media(const ScopeId& scope) { return scope.loosest < MatchLevel::kNear; }

}  // namespace

std::string_view to_string(SimilarityMode mode) {
  constexpr std::array<std::string_view, 3> kNames{"watch", "learned", "threshold"};
  return kNames[static_cast<std::size_t>(mode)];
}

/// All questions of one scope.
struct SimilarityLevel::Partition {
  std::vector<VectorIndex> indices;                      // by layer
  std::vector<std::map<RowId, std::uint32_t>> entry_of;  // by layer and row
  std::map<std::string, std::uint32_t, std::less<>> by_question;
  std::map<std::uint32_t, Entry> entries;
  std::uint32_t next_entry = 0;
  EvidenceTable evidence;
};

struct SimilarityLevel::State {
  explicit State(std::uint64_t seed) : rng(seed) {}

  void remove(const ScopeKey& scope, std::string_view question);
  Entry& add(const SimilarityOptions& options, const ScopeKey& scope, const std::string& question,
             std::span<const Vector> vectors, Reservation reserved);
  Entry* find(const ScopeKey& scope, std::string_view question);
  /// Of a match with this candidate; nothing if it is gone.
  void learn(const ScopeKey& scope, std::string_view candidate, const SimilarityKind& kind,
             bool right);

  std::unordered_map<ScopeKey, Partition, DigestHash> partitions;
  EvidenceTable everything;
  SimilarityStats stats;
  Rng rng;
};

void SimilarityLevel::State::remove(const ScopeKey& scope, std::string_view question) {
  const auto found = partitions.find(scope);
  if (found == partitions.end()) return;
  Partition& partition = found->second;
  const auto number = partition.by_question.find(question);
  if (number == partition.by_question.end()) return;
  const auto entry = partition.entries.find(number->second);
  for (std::size_t layer = 0; layer < entry->second.rows.size(); ++layer) {
    const auto row = entry->second.rows[layer];
    if (!row.has_value()) continue;
    partition.indices[layer].erase(*row);
    partition.entry_of[layer].erase(*row);
  }
  stats.entries -= EntryCount(1);
  stats.resident -= entry->second.reservation.bytes();
  partition.by_question.erase(number);
  partition.entries.erase(entry);
  if (partition.entries.empty()) partitions.erase(found);
}

Entry& SimilarityLevel::State::add(const SimilarityOptions& options, const ScopeKey& scope,
                                   const std::string& question, std::span<const Vector> vectors,
                                   Reservation reserved) {
  Partition& partition = partitions[scope];
  while (partition.indices.size() < options.layers.size()) {
    const std::size_t dimensions = options.layers[partition.indices.size()].dimensions;
    partition.indices.push_back(VectorIndex::create({.dimensions = dimensions}).value());
    partition.entry_of.emplace_back();
  }
  const std::uint32_t number = partition.next_entry++;
  Entry entry{
      .question = question, .rows = {}, .evidence = nullptr, .reservation = std::move(reserved)};
  for (std::size_t layer = 0; layer < vectors.size(); ++layer) {
    std::optional<RowId>& row = entry.rows.emplace_back();
    if (!has_features(vectors[layer])) continue;  // cannot be found by this layer
    row = partition.indices[layer].insert(vectors[layer]).value();
    partition.entry_of[layer].emplace(*row, number);
  }
  stats.entries += EntryCount(1);
  stats.resident += entry.reservation.bytes();
  partition.by_question.emplace(question, number);
  return partition.entries.emplace(number, std::move(entry)).first->second;
}

Entry* SimilarityLevel::State::find(const ScopeKey& scope, std::string_view question) {
  const auto partition = partitions.find(scope);
  if (partition == partitions.end()) return nullptr;
  const auto number = partition->second.by_question.find(question);
  if (number == partition->second.by_question.end()) return nullptr;
  return &partition->second.entries.at(number->second);
}

void SimilarityLevel::State::learn(const ScopeKey& scope, std::string_view candidate,
                                   const SimilarityKind& kind, bool right) {
  Entry* const entry = find(scope, candidate);
  if (entry == nullptr) return;
  if (entry->evidence == nullptr) entry->evidence = std::make_unique<EvidenceTable>();
  entry->evidence->add(kind, right);
  partitions.at(scope).evidence.add(kind, right);
}

SimilarityLevel::SimilarityLevel(SimilarityOptions options, AnswerCache& cache,
                                 MemoryBudget& budget, const Clock& clock)
    : options_(std::move(options)),
      cache_(cache),
      budget_(budget),
      clock_(clock),
      state_(std::make_unique<State>(options_.seed)) {
  cache_.add_observer(*this);
}

SimilarityLevel::~SimilarityLevel() { cache_.remove_observer(*this); }

Result<std::unique_ptr<SimilarityLevel>> SimilarityLevel::create(SimilarityOptions options,
                                                                 AnswerCache& cache,
                                                                 MemoryBudget& budget,
                                                                 const Clock& clock) {
  std::set<std::string> names;
  for (const SimilarityLayer& layer : options.layers) {
    AFI_TRY(const VectorIndex index, VectorIndex::create({.dimensions = layer.dimensions}));
    if (!names.insert(layer.name).second) {
      return fail(ErrorCode::kInvalidArgument, "two layers are named \"" + layer.name + "\"");
    }
  }
  if (names.empty()) {
    return fail(ErrorCode::kInvalidArgument, "layers is empty; similarity needs at least one");
  }
  options.acceptance.kinds_together = options.verifier != nullptr || !options.may_differ.empty();
  return std::unique_ptr<SimilarityLevel>(
      new SimilarityLevel(std::move(options), cache, budget, clock));
}

Result<void> SimilarityLevel::check(std::span<const Vector> vectors) const {
  if (vectors.size() != options_.layers.size()) {
    return fail(ErrorCode::kInvalidArgument, std::to_string(vectors.size()) + " vectors for " +
                                                 std::to_string(options_.layers.size()) +
                                                 " layers");
  }
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    const SimilarityLayer& layer = options_.layers[i];
    if (vectors[i].empty()) continue;
    if (auto fits = check_vector(vectors[i], layer.dimensions); !fits.has_value()) {
      return fail(ErrorCode::kInvalidArgument,
                  "layer \"" + layer.name + "\": " + fits.error().message);
    }
  }
  return {};
}

/// The neighbours that pass the threshold of every layer; largest margin first.
Result<std::vector<Proposal>> SimilarityLevel::propose(const ScopeId& scope,
                                                       std::span<const Vector> vectors) {
  const MutexLock lock(mutex_);
  const auto found = state_->partitions.find(scope.key);
  std::vector<Proposal> proposals;
  if (found == state_->partitions.end()) return proposals;
  const Partition& partition = found->second;
  std::set<std::uint32_t> candidates;
  const std::size_t examined =
      options_.may_differ.empty() ? options_.nearest : std::max(options_.nearest, kManyNearest);
  for (std::size_t layer = 0; layer < vectors.size(); ++layer) {
    AFI_TRY(const auto nearest, partition.indices[layer].nearest(vectors[layer], examined));
    for (const Neighbour& one : nearest) candidates.insert(partition.entry_of[layer].at(one.row));
  }
  const auto margin = [this](const Proposal& p) {
    return p.similarity[p.layer] - options_.layers[p.layer].threshold;
  };
  for (const std::uint32_t number : candidates) {
    const Entry& entry = partition.entries.at(number);
    if (!std::ranges::all_of(entry.rows, &std::optional<RowId>::has_value)) continue;
    Proposal proposal{.candidate = entry.question, .similarity = {}, .vetoes = {}};
    for (std::size_t layer = 0; layer < vectors.size(); ++layer) {
      proposal.similarity.push_back(
          partition.indices[layer].similarity(*entry.rows[layer], vectors[layer]));
      const std::size_t before = std::exchange(proposal.layer, layer);
      if (layer > 0 &&
          proposal.similarity[before] - options_.layers[before].threshold <= margin(proposal)) {
        proposal.layer = before;
      }
    }
    if (margin(proposal) >= 0.0F) proposals.push_back(std::move(proposal));
  }
  std::ranges::stable_sort(proposals, std::ranges::greater{}, margin);
  return proposals;
}

/// The verdict on the judged proposal.
Verdict SimilarityLevel::decide(const Question& question, SimilarityLookup& found) {
  const Proposal& proposal = found.proposals[*found.judged];
  if (options_.mode == SimilarityMode::kWatch) return Verdict::kNotAllowed;
  if (options_.mode == SimilarityMode::kThreshold) return Verdict::kServed;
  const SimilarityKind kind = kind_of(question, found);
  const MutexLock lock(mutex_);
  State& state = *state_;
  const auto partition = state.partitions.find(question.scope().key);
  const Entry* entry = state.find(question.scope().key, proposal.candidate);
  if (entry == nullptr) return Verdict::kMissed;  // just removed
  found.judgement =
      judge(options_.acceptance, kind, entry->seen(), partition->second.evidence, state.everything);
  return found.judgement->serve ? Verdict::kServed : Verdict::kInsufficientEvidence;
}

bool SimilarityLevel::explores() {
  const MutexLock lock(mutex_);
  if (options_.mode != SimilarityMode::kLearned || !state_->rng.chance(options_.explore))
    return false;
  ++state_->stats.explored;
  return true;
}

/// A candidate without an answer anywhere is dropped.
AnswerLookup SimilarityLevel::answer_of(Question& candidate, const LookupRules& rules, bool serve) {
  const auto is_there = [&](const AnswerLookup& found) {
    return found.steps.front().verdict != Verdict::kMissed;
  };
  if (options_.bring && !is_there(cache_.peek(candidate, rules))) options_.bring(candidate, rules);
  AnswerLookup found = cache_.find_exact(candidate, rules, serve);
  if (!is_there(found)) answer_removed(candidate.scope(), candidate.text());
  return found;
}

/// Finds the proposal to be judged, and decides on it.
Result<void> SimilarityLevel::judge_proposals(const Question& question,
                                              std::span<const Vector> vectors,
                                              SimilarityLookup& found) {
  AFI_TRY(found.proposals, propose(question.scope(), vectors));
  found.judged = choose(question, found);
  if (!found.judged.has_value()) return {};
  Proposal& judged = found.proposals[*found.judged];
  judged.change = word_change(question.text(), judged.candidate);
  found.verdict = decide(question, found);
  found.source = options_.layers[judged.layer].name;
  return {};
}

Result<SimilarityLookup> SimilarityLevel::find(const Question& question,
                                               std::span<const Vector> vectors,
                                               const LookupRules& rules) {
  const Duration began = clock_.now();
  AFI_TRY_VOID(check(vectors));
  SimilarityLookup found;
  const bool skipped = !std::ranges::all_of(vectors, has_features);
  if (!skipped) AFI_TRY_VOID(judge_proposals(question, vectors, found));
  if (found.verdict == Verdict::kServed && explores()) found.verdict = Verdict::kExplored;
  if (found.judged.has_value()) {
    Question candidate(question.scope(), found.proposals[*found.judged].candidate);
    const bool serve = found.verdict == Verdict::kServed;
    AnswerLookup answered = answer_of(candidate, rules, serve);
    // An answer that may not be served is no evidence either.
    const Verdict cached = answered.steps.front().verdict;
    if (cached != Verdict::kServed && cached != Verdict::kNotAllowed) found.verdict = cached;
    found.age = answered.steps.front().age;
    found.saved = answered.saved;
    if (serve) found.answer = answered.answer;
    found.given = std::move(answered.answer);
  }
  found.took = clock_.now() - began;
  count(found, skipped);
  return found;
}

Result<SimilarityLookup> SimilarityLevel::peek(const Question& question,
                                               std::span<const Vector> vectors,
                                               const LookupRules& rules) {
  AFI_TRY_VOID(check(vectors));
  SimilarityLookup found;
  if (!std::ranges::all_of(vectors, has_features)) return found;
  AFI_TRY_VOID(judge_proposals(question, vectors, found));
  if (!found.judged.has_value()) return found;
  Question candidate(question.scope(), found.proposals[*found.judged].candidate);
  AnswerLookup answered = cache_.peek(candidate, rules);
  const MatchStep& step = answered.steps.front();
  found.age = step.age;
  found.saved = answered.saved;
  if (step.verdict != Verdict::kServed) {
    // An answer that is elsewhere would be brought.
    if (step.verdict != Verdict::kMissed || !options_.bring) found.verdict = step.verdict;
  } else if (found.verdict == Verdict::kServed) {
    found.answer = std::move(answered.answer);
  }
  return found;
}

void SimilarityLevel::count(const SimilarityLookup& found, bool skipped) {
  const MutexLock lock(mutex_);
  SimilarityStats& stats = state_->stats;
  ++stats.lookups;
  ++(skipped                    ? stats.skipped
     : found.answer.has_value() ? stats.served
     : found.judged.has_value() ? stats.not_used
                                : stats.missed);
  switch (found.verification) {
    case Verification::kNone:
      break;
    case Verification::kAccepted:
      ++stats.verified;
      break;
    case Verification::kRefused:
      ++stats.refused;
      break;
    case Verification::kUnavailable:
      ++stats.not_verified;
      break;
  }
  for (const Proposal& proposal : found.proposals) {
    if (!forbids(proposal.vetoes)) continue;
    for (const Veto veto : proposal.vetoes) ++stats.vetoed[static_cast<std::size_t>(veto)];
  }
}

Result<Reservation> SimilarityLevel::reserve(std::string_view question) {
  Bytes needed(question.size());
  for (const SimilarityLayer& layer : options_.layers) {
    needed += VectorIndex::bytes_per_row({.dimensions = layer.dimensions});
  }
  if (options_.shared != nullptr) options_.shared->make_room(needed);
  auto reserved = budget_.reserve(needed);
  if (!reserved.has_value()) {
    const MutexLock lock(mutex_);
    ++state_->stats.refused_no_space;
  }
  return reserved;
}

Result<void> SimilarityLevel::insert(const Question& question, std::span<const Vector> vectors) {
  AFI_TRY_VOID(check(vectors));
  AFI_TRY(auto reserved, reserve(question.text()));
  const MutexLock lock(mutex_);
  const ScopeKey& scope = question.scope().key;
  state_->remove(scope, question.text());
  state_->add(options_, scope, question.text(), vectors, std::move(reserved));
  return {};
}

Result<bool> SimilarityLevel::restore(const ScopeId& scope, const SimilarCandidate& candidate) {
  AFI_TRY_VOID(check(candidate.vectors));
  bool is_new = false;
  {
    const MutexLock lock(mutex_);
    is_new = state_->find(scope.key, candidate.question) == nullptr;
  }
  Reservation reserved;
  if (is_new) {
    AFI_TRY(reserved, reserve(candidate.question));
  }
  const MutexLock lock(mutex_);
  Entry* entry = state_->find(scope.key, candidate.question);
  if (entry == nullptr && !is_new) return false;  // just removed
  if (entry == nullptr) {
    entry = &state_->add(options_, scope.key, candidate.question, candidate.vectors,
                         std::move(reserved));
  }
  EvidenceTable& around = state_->partitions.at(scope.key).evidence;
  if (entry->evidence != nullptr) around.subtract(*entry->evidence);
  around.add(candidate.evidence);
  entry->evidence = candidate.evidence == EvidenceTable()
                        ? nullptr
                        : std::make_unique<EvidenceTable>(candidate.evidence);
  return is_new;
}

std::optional<SimilarCandidate> SimilarityLevel::candidate(const ScopeId& scope,
                                                           std::string_view question) const {
  const MutexLock lock(mutex_);
  const Entry* const entry = state_->find(scope.key, question);
  if (entry == nullptr) return std::nullopt;
  const Partition& partition = state_->partitions.at(scope.key);
  SimilarCandidate candidate{.question = entry->question, .vectors = {}, .evidence = {}};
  for (std::size_t layer = 0; layer < entry->rows.size(); ++layer) {
    Vector& vector = candidate.vectors.emplace_back();
    if (!entry->rows[layer].has_value()) continue;
    const std::span<const float> stored = partition.indices[layer].vector(*entry->rows[layer]);
    vector.assign(stored.begin(), stored.end());
  }
  if (entry->evidence != nullptr) candidate.evidence = *entry->evidence;
  return candidate;
}

EvidenceTable SimilarityLevel::evidence() const {
  const MutexLock lock(mutex_);
  return state_->everything;
}

std::optional<bool> SimilarityLevel::learn(const Question& question, const SimilarityLookup& found,
                                           const Answer& truth) {
  if (!found.given.has_value() || found.answer.has_value()) return std::nullopt;
  // kUnclear counts as wrong: the error budget must hold for everything that is served.
  const bool right = same_answer(found.given->text, truth.text) == SameAnswer::kSame;
  learn(question, found, right);
  return right;
}

void SimilarityLevel::learn(const Question& question, const SimilarityLookup& found, bool right) {
  const SimilarityKind kind = kind_of(question, found);
  const MutexLock lock(mutex_);
  State& state = *state_;
  ++(right ? state.stats.learned.right : state.stats.learned.wrong);
  state.everything.add(kind, right);
  state.learn(question.scope().key, found.proposals[*found.judged].candidate, kind, right);
}

Result<std::vector<Suspect>> SimilarityLevel::suspect(const Question& question,
                                                      std::span<const Vector> vectors) {
  AFI_TRY_VOID(check(vectors));
  std::vector<Suspect> suspects;
  if (!std::ranges::all_of(vectors, has_features)) return suspects;
  AFI_TRY(auto proposals, propose(question.scope(), vectors));
  find_vetoes(question, proposals);
  std::erase_if(proposals, [&](const Proposal& proposal) { return forbids(proposal.vetoes); });
  const MutexLock lock(mutex_);
  for (const Proposal& proposal : proposals) {
    const SimilarityKind kind{.change = word_change(question.text(), proposal.candidate),
                              .about_media = is_about_media(question.scope()),
                              .similarity = proposal.similarity[proposal.layer]};
    state_->learn(question.scope().key, proposal.candidate, kind, false);
    suspects.push_back({.candidate = proposal.candidate, .kind = kind});
  }
  return suspects;
}

void SimilarityLevel::forget_evidence() {
  const MutexLock lock(mutex_);
  state_->everything = {};
  for (auto& [scope, partition] : state_->partitions) {
    partition.evidence.forget_right();
    for (auto& [number, entry] : partition.entries) {
      if (entry.evidence != nullptr) entry.evidence->forget_right();
    }
  }
}

void SimilarityLevel::take_evidence(const EvidenceTable& everything) {
  const MutexLock lock(mutex_);
  state_->everything = everything;
}

SimilarityKind SimilarityLevel::kind_of(const Question& question, const SimilarityLookup& found) {
  const Proposal& proposal = found.proposals[*found.judged];
  return {.change = proposal.change,
          .about_media = is_about_media(question.scope()),
          .similarity = proposal.similarity[proposal.layer]};
}

void SimilarityLevel::answer_removed(const ScopeId& scope, std::string_view question) {
  const MutexLock lock(mutex_);
  state_->remove(scope.key, question);
}

SimilarityStats SimilarityLevel::stats() const {
  const MutexLock lock(mutex_);
  return state_->stats;
}

void SimilarityLevel::check_invariants() const {
  const MutexLock lock(mutex_);
  std::uint64_t entries = 0;
  Bytes resident;
  for (const auto& [scope, partition] : state_->partitions) {
    AFI_CHECK(!partition.entries.empty());
    AFI_CHECK(partition.entries.size() == partition.by_question.size());
    for (std::size_t layer = 0; layer < partition.indices.size(); ++layer) {
      partition.indices[layer].check_invariants();
      AFI_CHECK(partition.indices[layer].size() == partition.entry_of[layer].size());
    }
    for (const auto& [number, entry] : partition.entries) {
      ++entries;
      resident += entry.reservation.bytes();
      AFI_CHECK(partition.by_question.at(entry.question) == number);
    }
  }
  AFI_CHECK(entries == state_->stats.entries.value() && resident == state_->stats.resident);
}

}  // namespace afterimage
