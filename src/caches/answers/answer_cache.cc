// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/answer_cache.h"

#include <algorithm>
#include <span>
#include <utility>

#include "afterimage/eviction_policy.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "caches/answers/answer_cache_state.h"
#include "caches/answers/answer_observer.h"

namespace afterimage {
namespace {

constexpr int kExpiredAtOnce = 16;  // the rest later: a caller waits for this

/// Calls `look` match level by match level until it finds an answer. `look` fills the last step of `found`.
template <typename Look>
AnswerLookup look_up_levels(Question& question, const LookupRules& requested, const Clock& clock,
                            const std::function<bool()>& may_loosen, const Look& look) {
  LookupRules rules = requested;
  rules.serve = question.ceiling(requested.serve);
  AnswerLookup found;
  found.steps.reserve(kMatchLevels.size());
  for (const MatchLevel level : kMatchLevels) {
    if (level > std::max(requested.serve, requested.watch)) break;
    if (level > MatchLevel::kExact && may_loosen != nullptr && !may_loosen()) break;
    const Duration began = clock.now();
    const auto form = question.form(level);
    if (!form.has_value()) continue;
    found.steps.emplace_back().level = level;
    look(AnswerFormKey::of(question.scope(), level, *form), rules, found);
    found.steps.back().took = clock.now() - began;
    if (found.answer.has_value()) break;
  }
  return found;
}

}  // namespace

AnswerCache::AnswerCache(std::unique_ptr<Locked> locked) : locked_(std::move(locked)) {}

AnswerCache::~AnswerCache() = default;

Result<std::unique_ptr<AnswerCache>> AnswerCache::create(AnswerCacheOptions options,
                                                         MemoryBudget& budget, const Clock& clock) {
  if (options.max_entries.value() == 0) {
    return fail(ErrorCode::kInvalidArgument, "max_entries is 0; an answer cache holds at least 1");
  }
  if (options.policy == nullptr) {
    AFI_TRY(options.policy, make_policy(policy_names().front()));
  }
  return std::unique_ptr<AnswerCache>(
      new AnswerCache(std::make_unique<Locked>(std::move(options), budget, clock)));
}

AnswerLookup AnswerCache::find(Question& question, const LookupRules& rules,
                               const std::function<bool()>& may_loosen) {
  return look_up_levels(
      question, rules, locked_->clock, may_loosen,
      [&](const AnswerFormKey& key, const LookupRules& allowed, AnswerLookup& found) {
        const MutexLock lock(locked_->mutex);
        State& state = locked_->state;
        // Read under the lock, so that the policy sees time ascend.
        const Duration now = locked_->clock.now();
        const State::Match match = state.match(key, now, allowed);
        state.describe(match, now, found.steps.back());
        if (match.verdict == Verdict::kServed) state.copy_answer(match, now, allowed.share, found);
        state.settle(match, /*serve=*/true, now,
                     state.stats.levels[static_cast<std::size_t>(key.level)]);
      });
}

AnswerLookup AnswerCache::peek(Question& question, const LookupRules& rules) const {
  std::vector<std::uint32_t> gone;  // what find() would have removed on an earlier match level
  return look_up_levels(
      question, rules, locked_->clock, /*may_loosen=*/nullptr,
      [&](const AnswerFormKey& key, const LookupRules& allowed, AnswerLookup& found) {
        const MutexLock lock(locked_->mutex);
        const Duration now = locked_->clock.now();
        const State::Match match = locked_->state.match(key, now, allowed);
        if (match.place.has_value() && std::ranges::count(gone, *match.place) > 0) return;
        locked_->state.describe(match, now, found.steps.back());
        if (match.verdict == Verdict::kServed) {
          locked_->state.copy_answer(match, now, allowed.share, found);
        }
        if (match.verdict == Verdict::kExpired || match.verdict == Verdict::kDamaged) {
          gone.push_back(*match.place);
        }
      });
}

AnswerLookup AnswerCache::find_exact(Question& candidate, const LookupRules& rules, bool serve) {
  const Duration began = locked_->clock.now();
  const AnswerFormKey key = AnswerFormKey::exact(candidate);
  AnswerLookup found;
  MatchStep& step = found.steps.emplace_back();
  {
    const MutexLock lock(locked_->mutex);
    State& state = locked_->state;
    const Duration now = locked_->clock.now();
    State::Match match = state.match(key, now, rules);
    // The caller found this text by similarity, and other texts are served whole answers only.
    if (match.verdict == Verdict::kServed && state.slots[*match.place].exact_only) {
      match.verdict = Verdict::kNotAllowed;
    }
    state.describe(match, now, step);
    if (match.verdict == Verdict::kServed) state.copy_answer(match, now, rules.share, found);
    state.settle(match, serve, now, state.stats.proposed);
  }
  if (step.verdict == Verdict::kServed && !serve) {
    step.verdict = Verdict::kNotAllowed;
    found.saved = Duration(0);
  }
  step.took = locked_->clock.now() - began;
  return found;
}

void AnswerCache::add_observer(AnswerObserver& observer) {
  const MutexLock lock(locked_->mutex);
  locked_->state.observers.push_back(&observer);
}

void AnswerCache::remove_observer(AnswerObserver& observer) {
  const MutexLock lock(locked_->mutex);
  std::erase(locked_->state.observers, &observer);
}

void AnswerCache::retract_hit(const AnswerLookup& served) {
  if (!served.answer.has_value() || served.steps.back().verdict != Verdict::kServed) return;
  const MutexLock lock(locked_->mutex);
  MatchLevelStats& counts =
      locked_->state.stats.levels[static_cast<std::size_t>(served.steps.back().level)];
  --counts.served;
  ++counts.matched_not_used;
  locked_->state.stats.answer_time_saved -= served.saved;
}

Result<void> AnswerCache::insert(Question& question, const Answer& answer,
                                 const AnswerFacts& facts) {
  AFI_TRY(const AnswerDraft draft, AnswerDraft::of(question, answer, facts));
  AFI_TRY(const TensorView view,
          TensorView::over(DType::kU8, Shape{draft.bytes.size()}, draft.bytes));
  const std::span<const TensorView> views(&view, 1);
  const AnswerFormKey exact = AnswerFormKey::exact(question);
  const Bytes needed = Payload::bytes_needed(views);
  Bytes own;  // what evictions for the owner's quota free
  SharedBudget* shared = nullptr;
  {
    const MutexLock lock(locked_->mutex);
    if (locked_->state.blocked) {
      ++locked_->state.stats.blocked;
      return fail(ErrorCode::kUnavailable, "admission is blocked: memory is short");
    }
    if (locked_->state.has_newer(exact, locked_->clock.now() - facts.age)) return {};
    AFI_TRY(own, locked_->state.admit(exact, needed, facts));
    shared = locked_->state.options.shared;
  }
  if (shared != nullptr && own < needed) shared->make_room(sub_sat(needed, own));
  Reservation reservation;
  {
    const MutexLock lock(locked_->mutex);
    AFI_TRY(reservation, locked_->state.reserve(exact, needed, facts, locked_->clock.now()));
  }
  AFI_TRY(Payload payload, Payload::copy_of(views, std::move(reservation)));
  const MutexLock lock(locked_->mutex);
  return locked_->state.store(question, draft, std::move(payload), facts, locked_->clock.now());
}

bool AnswerCache::erase(Question& question) {
  const AnswerFormKey key = AnswerFormKey::exact(question);
  const MutexLock lock(locked_->mutex);
  const auto place = locked_->state.forms.find(key);
  if (place.has_value()) locked_->state.erase(*place);
  return place.has_value();
}

Bytes AnswerCache::evict_bytes(Bytes wanted) {
  const MutexLock lock(locked_->mutex);
  const Bytes& resident = locked_->state.stats.resident;
  const Bytes before = resident;
  while (before - resident < wanted && locked_->state.evict_one(locked_->clock.now())) continue;
  return before - resident;
}

Bytes AnswerCache::trim_to_budget() {
  const MutexLock lock(locked_->mutex);
  const MemoryBudget& budget = locked_->state.budget;
  const Bytes before = locked_->state.stats.resident;
  locked_->state.enforce_pin_limit();
  while (budget.used() > budget.capacity() && locked_->state.evict_one(locked_->clock.now()))
    continue;
  return before - locked_->state.stats.resident;
}

Bytes AnswerCache::evict_idle(Duration since) {
  const MutexLock lock(locked_->mutex);
  const Bytes before = locked_->state.stats.resident;
  while (locked_->state.evict_idle_one(since)) continue;
  return before - locked_->state.stats.resident;
}

std::optional<EvictionCandidate> AnswerCache::eviction_candidate() {
  const MutexLock lock(locked_->mutex);
  const Duration now = locked_->clock.now();
  for (int n = 0; n < kExpiredAtOnce && locked_->state.expire_one(now); ++n) continue;
  locked_->state.report_uses();
  if (!locked_->state.options.policy->victim().has_value()) return std::nullopt;
  return EvictionCandidate{.resident = locked_->state.stats.resident,
                           .worth = locked_->state.options.policy->victim_worth(),
                           .overuse = locked_->state.options.policy->victim_overuse()};
}

void AnswerCache::block_admission(bool blocked) {
  const MutexLock lock(locked_->mutex);
  locked_->state.blocked = blocked;
}

AnswerCacheStats AnswerCache::stats() const {
  const MutexLock lock(locked_->mutex);
  AnswerCacheStats stats = locked_->state.stats;
  stats.owners = EntryCount(locked_->state.owners.size());
  return stats;
}

void AnswerCache::check_invariants() const {
  const MutexLock lock(locked_->mutex);
  locked_->state.check_invariants();
}

}  // namespace afterimage
