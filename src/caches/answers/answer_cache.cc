// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/answers/answer_cache.h"

#include <algorithm>
#include <span>
#include <utility>

#include "afterimage/check.h"
#include "caches/answers/answer_cache_state.h"
#include "policy/eviction/policies.h"
#include "storage/memory/payload.h"

namespace afterimage {
namespace {

/// Rung by rung until `look` has an answer. `look` fills the last step of what it is given.
template <typename Look>
AnswerLookup go_down_the_ladder(Question& question, const LookupRules& asked, const Clock& clock,
                                const Look& look) {
  LookupRules rules = asked;
  rules.serve = question.ceiling(asked.serve);
  AnswerLookup found;
  for (const TextRung rung : kTextRungs) {
    if (rung > std::max(asked.serve, asked.watch)) break;
    const Duration began = clock.now();
    const auto form = question.form(rung);
    if (!form.has_value()) continue;
    found.steps.emplace_back().rung = rung;
    look(AnswerFormKey::of(question.scope(), rung, *form), rules, found);
    found.steps.back().took = clock.now() - began;
    if (found.answer.has_value()) break;
  }
  return found;
}

}  // namespace

AnswerCache::AnswerCache(std::unique_ptr<State> state, const Clock& clock)
    : clock_(clock), state_(std::move(state)) {}

AnswerCache::~AnswerCache() = default;

Result<std::unique_ptr<AnswerCache>> AnswerCache::create(AnswerCacheOptions options,
                                                         MemoryBudget& budget, const Clock& clock) {
  if (options.max_entries.value() == 0) {
    return fail(ErrorCode::kInvalidArgument, "an answer cache holds at least one entry");
  }
  if (options.policy == nullptr) {
    AFI_TRY(options.policy, make_policy(policy_names().front()));
  }
  return std::unique_ptr<AnswerCache>(
      new AnswerCache(std::make_unique<State>(std::move(options), budget), clock));
}

AnswerLookup AnswerCache::find(Question& question, const LookupRules& rules) {
  return go_down_the_ladder(
      question, rules, clock_,
      [&](const AnswerFormKey& key, const LookupRules& allowed, AnswerLookup& found) {
        const MutexLock lock(mutex_);
        State& state = *state_;
        const Duration now = clock_.now();  // under the lock: what the policy hears never falls
        const State::Match match = state.match(key, now, allowed);
        state.describe(match, now, found.steps.back());
        if (match.verdict == Verdict::kServed) state.give(match, now, found);
        state.settle(match, /*serve=*/true, now,
                     state.stats.rungs[static_cast<std::size_t>(key.rung)]);
      });
}

AnswerLookup AnswerCache::peek(Question& question, const LookupRules& rules) const {
  std::vector<std::uint32_t> gone;  // what find would have removed on a rung before
  return go_down_the_ladder(
      question, rules, clock_,
      [&](const AnswerFormKey& key, const LookupRules& allowed, AnswerLookup& found) {
        const MutexLock lock(mutex_);
        const Duration now = clock_.now();
        const State::Match match = state_->match(key, now, allowed);
        if (match.place.has_value() && std::ranges::count(gone, *match.place) > 0) return;
        state_->describe(match, now, found.steps.back());
        if (match.verdict == Verdict::kServed) state_->give(match, now, found);
        if (match.verdict == Verdict::kExpired || match.verdict == Verdict::kDamaged) {
          gone.push_back(*match.place);
        }
      });
}

AnswerLookup AnswerCache::answer_to(Question& candidate, const LookupRules& rules, bool serve) {
  const Duration began = clock_.now();
  const AnswerFormKey key = AnswerFormKey::exact(candidate);
  AnswerLookup found;
  MatchStep& step = found.steps.emplace_back();
  {
    const MutexLock lock(mutex_);
    State& state = *state_;
    const Duration now = clock_.now();
    State::Match match = state.match(key, now, rules);
    // Whoever asks has found these words by likeness, and other words get whole answers only.
    if (match.verdict == Verdict::kServed && state.slots[*match.place].exact_only) {
      match.verdict = Verdict::kNotAllowed;
    }
    state.describe(match, now, step);
    if (match.verdict == Verdict::kServed) state.give(match, now, found);
    state.settle(match, serve, now, state.stats.proposed);
  }
  if (step.verdict == Verdict::kServed && !serve) {
    step.verdict = Verdict::kNotAllowed;
    found.saved = Duration(0);
  }
  step.took = clock_.now() - began;
  return found;
}

void AnswerCache::add_observer(AnswerObserver& observer) {
  const MutexLock lock(mutex_);
  state_->observers.push_back(&observer);
}

void AnswerCache::remove_observer(AnswerObserver& observer) {
  const MutexLock lock(mutex_);
  std::erase(state_->observers, &observer);
}

void AnswerCache::retract_hit(const AnswerLookup& served) {
  if (!served.answer.has_value() || served.steps.back().verdict != Verdict::kServed) return;
  const MutexLock lock(mutex_);
  RungStats& counts = state_->stats.rungs[static_cast<std::size_t>(served.steps.back().rung)];
  --counts.served;
  ++counts.matched_not_used;
  state_->stats.answer_time_saved -= served.saved;
}

Result<void> AnswerCache::insert(Question& question, const Answer& answer,
                                 const AnswerFacts& facts) {
  AFI_TRY(const AnswerDraft draft, AnswerDraft::of(question, answer, facts));
  AFI_TRY(const TensorView view,
          TensorView::over(DType::kU8, Shape{draft.bytes.size()}, draft.bytes));
  const std::span<const TensorView> views(&view, 1);
  const AnswerFormKey exact = AnswerFormKey::exact(question);
  const Bytes needed = Payload::bytes_needed(views);
  Bytes own;  // what the owner's quota frees
  SharedBudget* shared = nullptr;
  {
    const MutexLock lock(mutex_);
    if (state_->blocked) {
      ++state_->stats.blocked;
      return fail(ErrorCode::kUnavailable, "admission is blocked: memory is short");
    }
    if (state_->has_newer(exact, clock_.now() - facts.age)) return {};
    AFI_TRY(own, state_->admit(exact, needed, facts));
    shared = state_->options.shared;
  }
  if (shared != nullptr && own < needed) shared->make_room(sub_sat(needed, own));
  Reservation room;
  {
    const MutexLock lock(mutex_);
    AFI_TRY(room, state_->make_room(exact, needed, facts, clock_.now()));
  }
  AFI_TRY(Payload payload, Payload::copy_of(views, std::move(room)));
  const MutexLock lock(mutex_);
  return state_->keep(question, draft, std::move(payload), facts, clock_.now());
}

bool AnswerCache::erase(Question& question) {
  const AnswerFormKey key = AnswerFormKey::exact(question);
  const MutexLock lock(mutex_);
  const auto place = state_->forms.find(key);
  if (place.has_value()) state_->erase(*place);
  return place.has_value();
}

EntryCount AnswerCache::expire() {
  const MutexLock lock(mutex_);
  EntryCount left;
  for (const Duration now = clock_.now(); state_->expire_one(now);) left += EntryCount(1);
  return left;
}

Bytes AnswerCache::evict_bytes(Bytes wanted) {
  const MutexLock lock(mutex_);
  const Bytes& resident = state_->stats.resident;
  const Bytes before = resident;
  while (before - resident < wanted && state_->evict_one(clock_.now())) continue;
  return before - resident;
}

Bytes AnswerCache::trim_to_budget() {
  const MutexLock lock(mutex_);
  const MemoryBudget& budget = state_->budget;
  const Bytes before = state_->stats.resident;
  state_->obey_pin_limit();
  while (budget.used() > budget.capacity() && state_->evict_one(clock_.now())) continue;
  return before - state_->stats.resident;
}

std::optional<NextToLeave> AnswerCache::eviction_candidate() {
  const MutexLock lock(mutex_);
  state_->tell_uses();
  if (!state_->options.policy->victim().has_value()) return std::nullopt;
  return NextToLeave{.resident = state_->stats.resident,
                     .worth = state_->options.policy->victim_worth()};
}

void AnswerCache::block_admission(bool blocked) {
  const MutexLock lock(mutex_);
  state_->blocked = blocked;
}

std::span<const std::byte> AnswerCache::kept_bytes(Question& question) const {
  const AnswerFormKey key = AnswerFormKey::exact(question);
  const MutexLock lock(mutex_);
  return state_->slots.at(state_->forms.find(key).value()).payload->tensors().front().bytes();
}

AnswerCacheStats AnswerCache::stats() const {
  const MutexLock lock(mutex_);
  AnswerCacheStats stats = state_->stats;
  stats.owners = EntryCount(state_->owners.size());
  return stats;
}

void AnswerCache::check_invariants() const {
  const MutexLock lock(mutex_);
  state_->check_invariants();
}

}  // namespace afterimage
