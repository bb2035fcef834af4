// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "answer_store.h"

#include <chrono>
#include <iterator>
#include <string_view>
#include <utility>
#include <variant>

#include "afterimage/eviction_policy.h"
#include "policy/eviction/governed_policy.h"

namespace afterimage::python {

namespace {

/// Shorter than the wait for it, so that those who wait for a process that died take over.
constexpr Duration kLease = std::chrono::seconds(5);
/// Answers of the gateway are records, with other leases.
constexpr std::string_view kAnswerForm = "python";

/// An embedder that Python owns, too.
class BorrowedEmbedder final : public Embedder {
 public:
  explicit BorrowedEmbedder(std::shared_ptr<Embedder> embedder) : embedder_(std::move(embedder)) {}
  [[nodiscard]] const std::string& name() const override { return embedder_->name(); }
  [[nodiscard]] std::size_t dimensions() const override { return embedder_->dimensions(); }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override {
    return embedder_->embed(inputs);
  }

 private:
  const std::shared_ptr<Embedder> embedder_;
};

}  // namespace

Result<std::shared_ptr<AnswerStore>> AnswerStore::open(const AnswerStoreArgs& args) {
  std::shared_ptr<AnswerStore> store(new AnswerStore(args.budget));
  AFI_TRY(auto policy, make_governed_policy(
                           {.policy = args.policy, .keep_idle_order = args.budget.keeps_times()}));
  AFI_TRY(store->cache_, AnswerCache::create({.max_entries = args.max_entries,
                                              .policy = std::move(policy),
                                              .shared = args.budget.shared()},
                                             args.budget.pool->budget(), store->clock_));
  AFI_TRY(store->place_, args.budget.join(*store->cache_));
  AFI_TRY_VOID(store->open_archive(args));
  AFI_TRY_VOID(store->open_similarity(args));
  store->front_ = std::make_unique<AnswerOnce>(*store->cache_, store->clock_);
  return store;
}

Result<void> AnswerStore::open_archive(const AnswerStoreArgs& args) {
  AFI_TRY(TierPtr below, open_below(args.below, transfer_.capacity()));
  if (below == nullptr) return {};
  AFI_TRY(below_, InvalidationPlace::open(std::move(below), "answers", args.secret));
  if (below_->servers() != nullptr && args.coalesce_timeout > Duration(0)) {
    leases_ = std::make_unique<RedisLeases>(
        *below_->servers(), RedisLeasesOptions{.lease = kLease, .timeout = args.coalesce_timeout});
  }
  AFI_TRY(archive_, AnswerArchive::open({.tier = below_->tier(),
                                         .transfer = transfer_,
                                         .cache = *cache_,
                                         .files = below_->files(),
                                         .erasures = below_->file(),
                                         .clock = clock_,
                                         .wall = wall_,
                                         .shared = below_->log(),
                                         .wait = {},
                                         .turns = leases_.get()}));
  if (below_->log() == nullptr) return {};
  // Servers that cannot be reached now are tried again by the poller, and cost hits only.
  static_cast<void>(archive_->refresh());
  poller_ = std::make_unique<PeriodicTask>([this] { static_cast<void>(archive_->refresh()); },
                                           InvalidationLog::kPollEvery);
  return {};
}

Result<void> AnswerStore::open_similarity(const AnswerStoreArgs& args) {
  if (!args.similarity.has_value()) return {};
  const SimilarityArgs& wanted = *args.similarity;
  SimilarAnswersOptions options{.embedder = std::make_unique<BorrowedEmbedder>(wanted.embedder),
                                .embedder_waits = true,
                                .threshold = wanted.threshold,
                                .mode = wanted.mode,
                                .acceptance = {.error_budget = wanted.error_budget},
                                .text_of = {},
                                .storage = std::nullopt,
                                .shared = args.budget.shared()};
  if (archive_ != nullptr) {
    const auto evidence = [this, root = args.secret](const std::string& name) {
      return below_->shared_value("afterimage/similarity-evidence-of-python/2/" + name,
                                  "similarity-evidence-" + name, root);
    };
    options.storage.emplace(SimilarStorage{.answers = *archive_,
                                           .tier = below_->shared_tier(),
                                           .evidence = evidence,
                                           .transfer = transfer_,
                                           .secret = args.secret});
  }
  AFI_TRY(similar_,
          SimilarAnswers::create(std::move(options), *cache_, args.budget.pool->budget(), clock_));
  return {};
}

std::optional<AnswerLookup> AnswerStore::find_similar(const Question& question,
                                                      const LookupRules& rules,
                                                      const AnswerArchive::ReadLease& before,
                                                      std::vector<MatchStep> looked,
                                                      std::optional<SimilarLookup>& lookup) {
  // Who allows exact matches only wants no looser ones.
  if (similar_ == nullptr || rules.serve == MatchLevel::kExact) return std::nullopt;
  lookup = similar_->find(question, rules);
  if (!lookup.has_value() || !lookup->found.answer.has_value() || !may_serve(before)) {
    return std::nullopt;
  }
  const SimilarityLookup& found = lookup->found;
  looked.push_back({.level = MatchLevel::kNear,
                    .verdict = Verdict::kServed,
                    .candidate = found.proposals[*found.judged].candidate,
                    .age = found.age});
  return AnswerLookup{.answer = found.answer,
                      .steps = std::move(looked),
                      .saved = found.saved,
                      .by_similarity = true};
}

AnswerArchive::ReadLease AnswerStore::lease() const {
  return archive_ == nullptr ? AnswerArchive::ReadLease() : archive_->read_lease();
}

bool AnswerStore::may_serve(const AnswerArchive::ReadLease& before) {
  return archive_ == nullptr || archive_->may_serve(before);
}

std::vector<MatchStep> AnswerStore::retract(AnswerLookup hit) {
  cache_->retract_hit(hit);
  hit.steps.back().verdict = Verdict::kNotAllowed;
  return std::move(hit.steps);
}

std::optional<AnswerLookup> AnswerStore::restore(Question& question, const LookupRules& rules,
                                                 std::vector<MatchStep> looked) {
  if (archive_ == nullptr) return std::nullopt;
  auto found = archive_->restore(question, rules);
  if (!found.has_value()) return std::nullopt;
  std::ranges::move(found->steps, std::back_inserter(looked));
  found->steps = std::move(looked);
  return found;
}

AnswerLookup AnswerStore::find(Question& question, const LookupRules& rules) {
  const auto before = lease();
  AnswerLookup found = cache_->find(question, rules);
  if (found.answer.has_value()) {
    if (may_serve(before)) return found;
    return {.answer = std::nullopt, .steps = retract(std::move(found))};
  }
  auto restored = restore(question, rules, found.steps);
  return restored.has_value() ? *std::move(restored) : std::move(found);
}

Result<void> AnswerStore::insert(Question& question, const Answer& answer,
                                 const AnswerFacts& facts) {
  return archive_ == nullptr ? cache_->insert(question, answer, facts)
                             : archive_->insert(question, answer, facts);
}

Result<AnswerLookup> AnswerStore::get_or_answer(Question& question, const LookupRules& rules,
                                                const AnswerOnce::Generate& generate) {
  while (true) {
    const auto before = lease();
    AnswerOnce::Claim claim = front_->claim(question, rules);
    if (auto* hit = std::get_if<AnswerLookup>(&claim)) {
      if (may_serve(before)) return std::move(*hit);
      return generate_uncached(retract(std::move(*hit)), generate);
    }
    if (auto* leader = std::get_if<AnswerLeader>(&claim)) {
      return lead(std::move(*leader), question, rules, before, generate);
    }
    AFI_TRY(auto waited, std::get<AnswerWaiter>(std::move(claim)).wait());
    if (auto* joined = std::get_if<AnswerLookup>(&waited)) {
      if (joined->answer.has_value()) return std::move(*joined);
      continue;
    }
    // The leader before may have given up because it found the answer in the tier.
    if (cache_->peek(question, rules).answer.has_value()) continue;
    return lead(std::get<AnswerLeader>(std::move(waited)), question, rules, before, generate);
  }
}

/// An answer from the tier may be to another wording, so it is not published: dropping the leader
/// lets the waiters look for themselves.
Result<AnswerLookup> AnswerStore::lead(AnswerLeader leader, Question& question,
                                       const LookupRules& rules,
                                       const AnswerArchive::ReadLease& before,
                                       const AnswerOnce::Generate& generate) {
  if (auto restored = restore(question, rules, leader.looked())) return *std::move(restored);
  std::optional<SimilarLookup> similar;
  if (auto found = find_similar(question, rules, before, leader.looked(), similar)) {
    return *std::move(found);
  }
  std::unique_ptr<Lease> lease;  // dropped when the answer is stored
  AFI_TRY(auto elsewhere, wait_for_lease_holder(question, rules, lease));
  if (elsewhere.has_value()) return *std::move(elsewhere);
  const Duration began = clock_.now();
  AnswerLookup own{.answer = std::nullopt, .steps = leader.looked()};
  auto generated = generate();
  if (!generated.has_value()) {
    std::move(leader).fail(generated.error());
    return std::unexpected(generated.error());
  }
  auto& [answer, facts] = *generated;
  facts.cost = clock_.now() - began;
  if (is_whole(answer)) {
    const auto insert = [&](Question& asked) -> Result<void> {
      if (archive_ == nullptr) return cache_->insert(asked, answer, facts);
      return archive_->insert_into_cache(asked, answer, facts, before);
    };
    const auto published = std::move(leader).publish(answer, facts, insert);
    const bool invalidated =
        !published.has_value() && published.error().code == ErrorCode::kCancelled;
    if (!published.has_value() && !invalidated) return std::unexpected(published.error());
    if (archive_ != nullptr && published.value_or(false)) {
      archive_->keep(question, answer, facts, before);
    }
    if (similar.has_value() && published.value_or(false)) {
      similar_->learn(question, *similar, answer.text);
    }
  }
  own.answer = std::move(answer);
  return own;
}

Result<std::optional<AnswerLookup>> AnswerStore::wait_for_lease_holder(
    Question& question, const LookupRules& rules, std::unique_ptr<Lease>& lease) {
  std::optional<AnswerLookup> found;
  if (leases_ == nullptr || rules.max_age == Duration(0)) return found;
  const auto claim = [&] { return archive_->claim(question, kAnswerForm); };
  const auto look = [&]() -> Result<LeaseLoop::Found> {
    found = archive_->restore_uncached(question, rules);
    return found.has_value() ? LeaseLoop::Found::kAll : LeaseLoop::Found::kNothing;
  };
  LeaseLoop loop;
  AFI_TRY(const LeaseLoop::Next next, loop.run(*leases_, claim, look, {}));
  lease = loop.take_lease();
  if (next == LeaseLoop::Next::kUse) {
    ++answered_elsewhere_;
    return found;
  }
  return std::optional<AnswerLookup>();
}

Result<AnswerLookup> AnswerStore::generate_uncached(std::vector<MatchStep> looked,
                                                    const AnswerOnce::Generate& generate) {
  AFI_TRY(auto generated, generate());
  return AnswerLookup{.answer = std::move(generated.answer), .steps = std::move(looked)};
}

Result<bool> AnswerStore::report_wrong(Question& question, const LookupRules& rules) {
  std::optional<SimilarLookup> served;
  AFI_TRY(bool erased, erase(question));
  if (similar_ == nullptr) return erased;
  if (!erased && rules.serve > MatchLevel::kExact) {
    served = similar_->peek(question, rules);
    if (!served.has_value() || served->found.verdict != Verdict::kServed) return false;
    Question candidate(question.scope(), served->found.proposals[*served->found.judged].candidate);
    AFI_TRY(erased, erase(candidate));
  }
  similar_->reported_wrong(question, served);
  return erased;
}

std::optional<SimilarAnswersStats> AnswerStore::similarity_stats() const {
  if (similar_ == nullptr) return std::nullopt;
  return similar_->stats();
}

Result<bool> AnswerStore::erase(Question& question) {
  if (archive_ == nullptr) return cache_->erase(question);
  return archive_->erase(question);
}

Result<AnswerCount> AnswerStore::erase(const AnswerFilter& filter) {
  if (archive_ == nullptr) return cache_->erase(filter);
  return archive_->erase(filter);
}

Result<void> AnswerStore::flush() {
  return below_ == nullptr ? Result<void>() : below_->tier().flush();
}

std::optional<AnswerArchiveStats> AnswerStore::archive_stats() const {
  if (archive_ == nullptr) return std::nullopt;
  return archive_->stats();
}

}  // namespace afterimage::python
