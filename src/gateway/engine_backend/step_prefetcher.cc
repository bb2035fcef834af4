// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/step_prefetcher.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

namespace afterimage {
namespace {

constexpr std::size_t kMaxFollowing = 16;

std::uint64_t tokens_of(const std::shared_ptr<const PrefetchTarget>& target) {
  return target == nullptr ? 0 : target->prompt.tokens.size();
}

}  // namespace

StepPrefetcher::StepPrefetcher(const Options& options, Prefetch prefetch, const Clock& clock)
    : options_(options),
      prefetch_(std::move(prefetch)),
      clock_(clock),
      loader_(1, options.waiting) {}

void StepPrefetcher::begins(const ClientStep& name) {
  const MutexLock lock(mutex_);
  // Loads were made for the workflow's next step, which is this request.
  for (auto at = steps_.lower_bound({name.tenant, name.workflow, ""});
       at != steps_.end() && at->first.tenant == name.tenant && at->first.workflow == name.workflow;
       ++at) {
    if (!at->second.useful_until.has_value()) continue;
    const bool useful = at->first.step == name.step && clock_.now() <= *at->second.useful_until;
    at->second.useful_until = std::nullopt;
    ++(useful ? counts_.useful : counts_.useless);
    judge(name.tenant, useful);
  }
}

void StepPrefetcher::ends(const ClientStep& name, const std::vector<std::string>& next,
                          std::shared_ptr<const PrefetchTarget> used) {
  const MutexLock lock(mutex_);
  std::string& last = last_step_[{name.tenant, name.workflow}];
  const auto before = steps_.find({name.tenant, name.workflow, last});
  if (before != steps_.end()) before->second.note_next(name.step);
  last = name.step;
  const auto [at, is_new] = steps_.try_emplace(name);
  Step& step = at->second;
  if (is_new) step.in_order = order_.insert(order_.end(), name);
  order_.splice(order_.end(), order_, step.in_order);
  ++step.requests;
  if (used != nullptr) {
    tokens_ += tokens_of(used);
    tokens_ -= tokens_of(std::exchange(step.used, std::move(used)));
  }
  const std::vector<std::string> expected = next.empty() ? expected_after(step) : next;
  while (steps_.size() > options_.steps || tokens_ > options_.tokens) forget_oldest();
  for (const std::string& following : expected) {
    prefetch_step({name.tenant, name.workflow, following});
  }
}

/// A client that invents a step each time must not grow the map for ever.
void StepPrefetcher::Step::note_next(const std::string& next) {
  if (followed_by.size() >= kMaxFollowing && !followed_by.contains(next)) followed_by.clear();
  ++followed_by[next];
}

void StepPrefetcher::forget_oldest() {
  const auto oldest = steps_.find(order_.front());
  const auto [tenant, workflow, step] = oldest->first;
  if (oldest->second.useful_until.has_value()) {
    ++counts_.useless;
    judge(tenant, false);
  }
  tokens_ -= tokens_of(oldest->second.used);
  order_.pop_front();
  steps_.erase(oldest);
  const auto last = last_step_.find({tenant, workflow});
  if (last != last_step_.end() && last->second == step) last_step_.erase(last);
  const auto other = steps_.lower_bound({tenant, "", ""});
  if (other == steps_.end() || other->first.tenant != tenant) tenants_.erase(tenant);
}

/// The step that followed more often than all others together, if it was seen twice.
std::vector<std::string> StepPrefetcher::expected_after(const Step& step) const {
  std::uint32_t all = 0;
  const std::pair<const std::string, std::uint32_t>* most = nullptr;
  for (const auto& followed : step.followed_by) {
    all += followed.second;
    if (most == nullptr || followed.second > most->second) most = &followed;
  }
  if (most == nullptr || most->second < 2 || 2 * most->second <= all) return {};
  return {most->first};
}

void StepPrefetcher::judge(const std::string& tenant, bool useful) {
  Tenant& judged = tenants_[tenant];
  judged.history = ((judged.history << 1U) | (useful ? 1U : 0U)) & ((1U << kJudged) - 1);
  judged.judged = std::min(judged.judged + 1, kJudged);
}

void StepPrefetcher::expire(const ClientStep& name, Step& step) {
  if (!step.useful_until.has_value() || clock_.now() <= *step.useful_until) return;
  step.useful_until = std::nullopt;
  ++counts_.useless;
  judge(name.tenant, false);
}

bool StepPrefetcher::may_load(const std::string& tenant) {
  Tenant& judged = tenants_[tenant];
  const auto useful = static_cast<std::uint32_t>(std::popcount(judged.history));
  if (judged.judged < kJudged || useful >= kLeastUseful) return true;
  return ++judged.declined % kJudged == 0;
}

void StepPrefetcher::prefetch_step(const ClientStep& name) {
  const auto found = steps_.find(name);
  if (found == steps_.end() || found->second.used == nullptr) return;
  Step& step = found->second;
  expire(name, step);
  if (step.useful_until.has_value()) return;  // it was loaded, and may still come
  const bool posted = may_load(name.tenant) && loader_.post([this, name, used = step.used] {
    try {
      loaded(name, prefetch_(*used));
    } catch (const std::exception& error) {
      loaded(name, fail(ErrorCode::kUnavailable, error.what()));
    }
  });
  counts_.declined += posted ? 0 : 1;
  loading_ += posted ? 1 : 0;
}

void StepPrefetcher::await_loads() const {
  const MutexLock lock(mutex_);
  while (loading_ > 0) ended_.wait(mutex_);
}

void StepPrefetcher::loaded(const ClientStep& name, const Result<Prefetched>& loaded) {
  const MutexLock lock(mutex_);
  --loading_;
  ended_.notify_all();
  if (!loaded.has_value() || (loaded->kv_tokens == 0 && loaded->encoder_outputs == 0)) {
    ++counts_.nothing;
    return;
  }
  counts_.kv_tokens += loaded->kv_tokens;
  counts_.encoder_outputs += loaded->encoder_outputs;
  const auto found = steps_.find(name);
  if (found != steps_.end()) found->second.useful_until = clock_.now() + options_.useful_within;
}

std::vector<SeenStep> StepPrefetcher::steps(std::size_t most) const {
  const MutexLock lock(mutex_);
  std::vector<SeenStep> seen;
  for (auto name = order_.rbegin(); name != order_.rend() && seen.size() < most; ++name) {
    const Step& step = steps_.at(*name);
    seen.push_back({.tenant = name->tenant,
                    .workflow = name->workflow,
                    .step = name->step,
                    .requests = step.requests,
                    .prompt_tokens = tokens_of(step.used),
                    .loaded = step.useful_until.has_value(),
                    .followed_by = {step.followed_by.begin(), step.followed_by.end()}});
  }
  return seen;
}

PrefetchCounts StepPrefetcher::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

}  // namespace afterimage
