// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/reuse/reuse.h"

#include <algorithm>
#include <utility>

#include "policy/eviction/policies.h"

namespace afterimage {
namespace {

// Names come with requests; a client that invents one each time must not grow a table for ever.
constexpr std::size_t kMaxNamedAgents = 100'000;

/// What is between tier and caches is memory like any other: the budget is for both.
Bytes transfer_bytes(const ReuseOptions& options) {
  return options.tier == nullptr ? Bytes(0) : std::min(256_MiB, Bytes(options.budget.value() / 8));
}

}  // namespace

Reuse::Reuse(const ReuseOptions& options, const Secret& root, const Clock& clock)
    : root_(root),
      clock_(clock),
      leases_(options.leases),
      transfer_(transfer_bytes(options)),
      budget_(options.budget - transfer_bytes(options)) {
  if (options.tier == nullptr) return;
  if (options.weigh_loads) load_or_compute_ = std::make_unique<LoadOrCompute>(clock);
  LoadOrCompute* const quicker = load_or_compute_.get();
  encoder_archive_ = std::make_unique<EncoderArchive>(*options.tier, transfer_, quicker);
  if (options.prefixes) {
    prefix_archive_ = std::make_unique<PrefixArchive>(*options.tier, transfer_, quicker);
  }
}

Result<std::unique_ptr<Reuse>> Reuse::create(const ReuseOptions& options, const Secret& root,
                                             const Clock& clock) {
  std::unique_ptr<Reuse> reuse(new Reuse(options, root, clock));
  EncoderCacheOptions cache_options;
  cache_options.max_entries = options.max_encoder_entries;
  AFI_TRY(cache_options.policy, make_policy(options.policy));
  AFI_TRY(reuse->cache_, EncoderCache::create(std::move(cache_options), reuse->budget_));
  reuse->front_ = std::make_unique<EncodeOnce>(
      *reuse->cache_, clock,
      EncodeOnceOptions{.verify_hits = options.verify_hits, .shared = &reuse->shared_});
  reuse->shared_.join(*reuse->front_);
  if (options.prefixes) {
    PrefixCacheOptions prefix_options;
    prefix_options.max_sequences = options.max_sequences;
    AFI_TRY(prefix_options.policy, make_policy(options.policy));
    AFI_TRY(reuse->prefixes_, PrefixCache::create(std::move(prefix_options), reuse->budget_));
    reuse->prefill_ = std::make_unique<PrefillOnce>(
        *reuse->prefixes_,
        PrefillOnceOptions{.verify_hits = options.verify_hits, .shared = &reuse->shared_});
    reuse->shared_.join(*reuse->prefill_);
  }
  if (options.answers.has_value()) {
    reuse->answer_options_ = options.answers;
    AnswerCacheOptions answer_options{
        .max_entries = options.answers->max_entries, .policy = nullptr, .shared = &reuse->shared_};
    AFI_TRY(answer_options.policy, make_policy(options.policy));
    AFI_TRY(reuse->answer_cache_,
            AnswerCache::create(std::move(answer_options), reuse->budget_, clock));
    if (options.answers->in_serve) {
      reuse->answer_once_ = std::make_unique<AnswerOnce>(*reuse->answer_cache_, clock);
    }
    reuse->shared_.join(*reuse->answer_cache_);
  }
  if (options.pressure.gauge != nullptr) {
    AFI_TRY(reuse->pressure_, PressureController::create(options.pressure, reuse->shared_, clock));
  }
  return reuse;
}

Result<Plan> Reuse::plan(const RequestIdentity& identity, const RequestFacts& facts,
                         const std::stop_token& stop) {
  Plan plan(*this, identity, facts);
  AFI_TRY_VOID(plan.add_answer(stop));
  return plan;
}

MediaPlan Reuse::plan_media(const Fingerprint& prints, const std::string& agent,
                            std::size_t covered, const RequestFacts& facts) {
  const AgentId requester = agent_id(agent);
  std::vector<MediaPlan::Item> items;
  items.reserve(prints.keys.size());
  for (std::size_t i = 0; i < prints.keys.size(); ++i) {
    MediaPlan::Item item;
    item.modality = prints.modalities[i];
    item.key = prints.keys[i];
    if (i < covered) {
      item.same_as = i;
      item.source = MediaSource::kCovered;
      items.push_back(std::move(item));
      continue;
    }
    const auto first = std::find(prints.keys.begin() + static_cast<std::ptrdiff_t>(covered),
                                 prints.keys.end(), prints.keys[i]);
    item.same_as = static_cast<std::size_t>(first - prints.keys.begin());
    // Only the first of equal items claims, so that a request never waits for itself.
    if (item.same_as == i) item.claim = front_->claim(prints.keys[i], requester);
    items.push_back(std::move(item));
  }
  MediaPlan plan(*front_, encoder_archive_.get(), leases_, facts, std::move(items));
  for (MediaPlan::Item& item : plan.items_) {
    if (item.claim.has_value()) plan.load(item);
  }
  return plan;
}

ReuseStats Reuse::stats() const {
  return {.encoder = front_->cache_stats(),
          .encodes = front_->stats(),
          .prefix = prefill_ == nullptr ? PrefixCacheStats() : prefill_->cache_stats(),
          .prefills = prefill_ == nullptr ? PrefillOnceStats() : prefill_->stats(),
          .answers = answer_cache_ == nullptr ? AnswerCacheStats() : answer_cache_->stats(),
          .answering = answer_once_ == nullptr ? AnswerOnceStats() : answer_once_->stats(),
          .encoder_archive =
              encoder_archive_ == nullptr ? EncoderArchiveStats() : encoder_archive_->stats(),
          .prefix_archive =
              prefix_archive_ == nullptr ? PrefixArchiveStats() : prefix_archive_->stats(),
          .loads = load_or_compute_ == nullptr ? LoadOrComputeStats() : load_or_compute_->stats(),
          .governed = pressure_ == nullptr ? std::nullopt : std::optional(pressure_->stats()),
          .budget = budget_.capacity() + transfer_.capacity(),
          .used = budget_.used() + transfer_.used(),
          .peak = budget_.peak() + transfer_.peak()};
}

AgentId Reuse::agent_id(const std::string& agent) {
  if (agent.empty()) return kNoAgent;
  const MutexLock lock(agents_mutex_);
  if (const auto it = agents_.find(agent); it != agents_.end()) return it->second;
  if (agents_.size() >= kMaxNamedAgents) return kNoAgent;
  const auto id = static_cast<AgentId>(agents_.size());
  agents_.emplace(agent, id);
  return id;
}

}  // namespace afterimage
