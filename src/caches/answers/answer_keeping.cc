// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <string>
#include <utility>

#include "afterimage/result.h"
#include "caches/answers/answer_cache_state.h"
#include "caches/answers/answer_observer.h"
#include "foundation/platform/fault_points.h"

namespace afterimage {
namespace {

std::string bytes_in_words(Bytes bytes) { return std::to_string(bytes.value()) + " bytes"; }

}  // namespace

void AnswerCache::State::note_use(std::uint32_t place, Duration now) {
  AnswerSlot& slot = slots[place];
  ++slot.uses;
  slot.used = ++last_used;
  unreported[uses++] = id_of(place);
  last_use = now;
  if (uses == unreported.size()) report_uses();
}

void AnswerCache::State::report_uses() {
  if (uses == 0) return;
  options.policy->begin_request({.now = last_use});
  for (std::size_t i = 0; i < uses; ++i) options.policy->touch(unreported[i]);
  uses = 0;
}

std::uint32_t AnswerCache::State::take_place() {
  if (free_places.empty()) {
    slots.emplace_back();
    return static_cast<std::uint32_t>(slots.size() - 1);
  }
  const std::uint32_t place = free_places.back();
  free_places.pop_back();
  return place;
}

void AnswerCache::State::add_to_owner(std::uint32_t place, const TenantId& owner) {
  AnswerSlot& slot = slots[place];
  slot.owner = &*owners.try_emplace(owner).first;
  slot.used = slot.queued = ++last_used;
  slot.owner->second.kept += slot.count();
  slot.owner->second.by_use.emplace(slot.queued, place);
}

void AnswerCache::State::remove_from_owner(AnswerSlot& slot, std::uint32_t place) {
  AnswerOwner& owner = slot.owner->second;
  owner.kept -= slot.count();
  if (slot.pinned) {
    owner.pinned -= slot.count();
  } else {
    owner.by_use.erase({slot.queued, place});
  }
  if (owner.kept.entries.value() == 0) owners.erase(owners.find(slot.owner->first));
}

void AnswerCache::State::remove(std::uint32_t place, RemovalReason why) {
  AnswerSlot& slot = slots[place];
  for (AnswerObserver* observer : observers) observer->answer_removed(slot.scope, slot.question());
  report_uses();
  options.policy->erase(id_of(place), why);
  forms.unlist(place);
  if (slot.expires != AnswerSlot::kNever) by_expiry.erase({slot.expires, place});
  by_id.erase(slot.id);
  remove_from_owner(slot, place);
  if (slot.pinned) {
    pins.erase(slot.id);
    stats.pinned -= slot.count();
  }
  stats.entries -= EntryCount(1);
  stats.resident -= slot.payload->bytes();
  const std::uint32_t next_generation = slot.generation + 1;
  slot = AnswerSlot{};  // frees the payload and its reservation
  slot.generation = next_generation;
  free_places.push_back(place);
}

void AnswerCache::State::erase(std::uint32_t place) {
  remove(place, RemovalReason::kErased);
  ++stats.erased;
}

void AnswerCache::State::expire(std::uint32_t place) {
  remove(place, RemovalReason::kErased);
  ++stats.expired;
}

bool AnswerCache::State::expire_one(Duration now) {
  if (by_expiry.empty() || by_expiry.begin()->first > now) return false;
  expire(by_expiry.begin()->second);
  return true;
}

bool AnswerCache::State::evict_one(Duration now) {
  if (expire_one(now)) return true;
  report_uses();
  const auto victim = options.policy->victim();
  if (!victim.has_value()) return false;
  AFI_CHECK(*victim == id_of(victim->index));
  remove(victim->index, RemovalReason::kEvicted);
  ++stats.evictions;
  return true;
}

bool AnswerCache::State::evict_idle_one(Duration since) {
  report_uses();
  const auto idle = options.policy->idle_victim(since);
  if (!idle.has_value()) return false;
  AFI_CHECK(*idle == id_of(idle->index));
  remove(idle->index, RemovalReason::kEvicted);
  ++stats.evictions;
  return true;
}

// A hit only records its use; the queue is updated when the entry reaches the front. Uses only move
// entries back, so an entry whose position is current is the least recently used.
std::uint32_t AnswerCache::State::least_used(AnswerOwner& owner) {
  while (true) {
    AFI_CHECK(!owner.by_use.empty());
    const auto [queued, place] = *owner.by_use.begin();
    AnswerSlot& slot = slots[place];
    if (slot.used == queued) return place;
    owner.by_use.erase(owner.by_use.begin());
    slot.queued = slot.used;
    owner.by_use.emplace(slot.queued, place);
  }
}

void AnswerCache::State::evict_of(AnswerOwner& owner) {
  remove(least_used(owner), RemovalReason::kEvicted);
  ++stats.evictions;
  ++stats.evicted_for_quota;
}

bool AnswerCache::State::may_pin(const AnswerCount& count) const {
  return count.bytes.value() <= budget.capacity().value() / 2 &&
         count.entries.value() <= options.max_entries.value() / 2;
}

Result<void> AnswerCache::State::pin(std::uint32_t place) {
  AnswerSlot& slot = slots[place];
  if (slot.pinned) return {};
  if (!may_pin(stats.pinned + slot.count())) {
    return fail(ErrorCode::kNoSpace,
                "cannot pin an answer of " + bytes_in_words(slot.payload->bytes()) +
                    ": at most half of " + bytes_in_words(budget.capacity()) + " and of " +
                    std::to_string(options.max_entries.value()) + " entries may be pinned, and " +
                    bytes_in_words(stats.pinned.bytes) + " in " +
                    std::to_string(stats.pinned.entries.value()) +
                    " entries are; unpin others first");
  }
  report_uses();
  options.policy->park(id_of(place));
  slot.pinned = true;
  pins.insert(slot.id);
  stats.pinned += slot.count();
  slot.owner->second.pinned += slot.count();
  slot.owner->second.by_use.erase({slot.queued, place});
  return {};
}

void AnswerCache::State::unpin(std::uint32_t place) {
  AnswerSlot& slot = slots[place];
  if (!slot.pinned) return;
  report_uses();
  options.policy->unpark(id_of(place));
  slot.pinned = false;
  pins.erase(slot.id);
  stats.pinned -= slot.count();
  slot.owner->second.pinned -= slot.count();
  slot.queued = slot.used;
  slot.owner->second.by_use.emplace(slot.queued, place);
}

void AnswerCache::State::enforce_pin_limit() {
  while (!pins.empty() && !may_pin(stats.pinned)) {
    unpin(by_id.at(*pins.begin()));
    ++stats.unpinned;
  }
}

bool AnswerCache::State::has_newer(const AnswerFormKey& exact, Duration stored) const {
  const AnswerSlot* old = replaced(exact);
  return old != nullptr && old->stored > stored;
}

const AnswerSlot* AnswerCache::State::replaced(const AnswerFormKey& exact) const {
  const auto place = forms.find(exact);
  return place.has_value() ? &slots[*place] : nullptr;
}

Result<Bytes> AnswerCache::State::admit(const AnswerFormKey& exact, Bytes bytes,
                                        const AnswerFacts& facts) {
  const AnswerCount added{.entries = EntryCount(1), .bytes = bytes};
  const AnswerSlot* old = replaced(exact);
  if (old != nullptr && old->pinned && !may_pin(stats.pinned - old->count() + added)) {
    ++stats.refused_no_space;
    return fail(ErrorCode::kNoSpace, "an answer of " + bytes_in_words(bytes) +
                                         " would replace a pinned one and exceed the limit on "
                                         "pinned answers; unpin others first");
  }
  AnswerCount kept;
  AnswerCount pinned;
  if (const auto owner = owners.find(facts.owner); owner != owners.end()) {
    kept = owner->second.kept;
    pinned = owner->second.pinned;
    const bool own = old != nullptr && old->owner == &*owner;
    if (own) kept -= old->count();
    if (own && old->pinned) pinned -= old->count();
  }
  if (!facts.quota.holds(pinned + added)) {
    ++stats.refused_over_quota;
    return fail(ErrorCode::kNoSpace,
                "an answer of " + bytes_in_words(bytes) + " does not fit into the quota of " +
                    facts.owner.text() + ", of which " + bytes_in_words(pinned.bytes) + " in " +
                    std::to_string(pinned.entries.value()) + " entries are pinned");
  }
  return sub_sat(kept.bytes + bytes, facts.quota.bytes.value_or(Bytes::max()));
}

void AnswerCache::State::fit_quota(const AnswerFormKey& exact, Bytes bytes,
                                   const AnswerFacts& facts, Duration now) {
  const AnswerCount added{.entries = EntryCount(1), .bytes = bytes};
  while (true) {
    const auto owner = owners.find(facts.owner);
    if (owner == owners.end()) return;
    AnswerCount kept = owner->second.kept;
    const AnswerSlot* old = replaced(exact);
    if (old != nullptr && old->owner == &*owner) kept -= old->count();
    if (facts.quota.holds(kept + added)) return;
    if (!expire_one(now)) evict_of(owner->second);
  }
}

// The replaced entry is removed first, so that no other is evicted for it; but not before it is
// clear that the new answer can fit.
Result<Reservation> AnswerCache::State::reserve(const AnswerFormKey& exact, Bytes bytes,
                                                const AnswerFacts& facts, Duration now) {
  AFI_TRY([[maybe_unused]] const Bytes leaves, admit(exact, bytes, facts));
  const Bytes taken = sub_sat(budget.used(), stats.resident) + stats.pinned.bytes;
  bool possible = bytes <= sub_sat(budget.capacity(), taken);
  if (possible) {
    const auto old = forms.find(exact);
    const bool stays =
        !old.has_value() || slots[*old].pinned || slots[*old].stored > now - facts.age;
    if (!stays) erase(*old);
    fit_quota(exact, bytes, facts, now);
  }
  while (possible) {
    auto reserved = budget.reserve(bytes);
    if (reserved.has_value()) return reserved;
    possible = evict_one(now);  // another cache may take the space meanwhile
  }
  ++stats.refused_no_space;
  return fail(ErrorCode::kNoSpace, "an answer of " + bytes_in_words(bytes) + " does not fit: of " +
                                       bytes_in_words(budget.capacity()) +
                                       " other caches and pinned answers hold " +
                                       std::to_string(taken.value()));
}

// Checks again: other answers may have been inserted and pinned since reserve().
Result<void> AnswerCache::State::store(Question& question, const AnswerDraft& draft,
                                       Payload payload, const AnswerFacts& facts, Duration now) {
  const AnswerFormKey exact = AnswerFormKey::exact(question);
  if (has_newer(exact, now - facts.age)) return {};
  AFI_TRY([[maybe_unused]] const Bytes leaves, admit(exact, payload.bytes(), facts));
  const auto old = forms.find(exact);
  const bool pinned = old.has_value() && slots[*old].pinned;
  if (old.has_value()) erase(*old);
  fit_quota(exact, payload.bytes(), facts, now);
  while (stats.entries >= options.max_entries) AFI_CHECK(evict_one(now));

  const std::uint32_t place = take_place();
  AnswerSlot& slot = slots[place];
  slot.scope = question.scope();
  slot.payload = std::move(payload);
  slot.ends = draft.ends;
  slot.exact_only = draft.exact_only;
  slot.id = AnswerEntryId{++last_id};
  slot.stored = now - facts.age;
  slot.cost = facts.cost;
  if (facts.ttl.has_value() && *facts.ttl < AnswerSlot::kNever - now) {
    slot.expires = now + std::max(*facts.ttl, Duration(0));
    by_expiry.emplace(slot.expires, place);
  }
  for (const MatchLevel level : kMatchLevels) {
    if (level != MatchLevel::kExact && draft.exact_only) continue;
    const auto form = question.form(level);
    if (form.has_value()) forms.list(place, AnswerFormKey::of(question.scope(), level, *form));
  }
  by_id.emplace_hint(by_id.end(), slot.id, place);
  add_to_owner(place, facts.owner);
  report_uses();
  options.policy->begin_request({.now = now});
  EntryFacts told =
      facts.weight.value_or(EntryFacts{.bytes = slot.payload->bytes(), .cost = slot.cost});
  told.key = exact.hash;
  if (options.owner_of != nullptr) told.owner = options.owner_of(facts.tags);
  options.policy->insert(id_of(place), told);
  ++stats.insertions;
  stats.entries += EntryCount(1);
  stats.resident += slot.payload->bytes();
  if (pinned) AFI_CHECK(pin(place).has_value());
  return {};
}

AnswerCache::State::Match AnswerCache::State::match(const AnswerFormKey& key, Duration now,
                                                    const LookupRules& rules) const {
  const auto place = forms.find(key);
  if (!place.has_value()) return {};
  const AnswerSlot& slot = slots[*place];
  auto shared = rules.share ? slot.shared.lock() : nullptr;
  const auto verdict = [&] {
    if (!AFI_GUARD("answer.cached.not.over", slot.expires > now)) return Verdict::kExpired;
    if (key.level > rules.serve) return Verdict::kNotAllowed;
    if (rules.max_age.has_value() && now - slot.stored > *rules.max_age) return Verdict::kTooOld;
    const auto left = slot.left(now);
    if (left.has_value() && rules.min_fresh.has_value() && *left < *rules.min_fresh) {
      return Verdict::kTooOld;
    }
    // What other hits use was verified when it was copied, and does not change.
    if (shared != nullptr) return Verdict::kServed;
    return slot.payload->intact() ? Verdict::kServed : Verdict::kDamaged;
  };
  const Verdict found = verdict();
  return {.place = place, .verdict = found, .shared = std::move(shared)};
}

void AnswerCache::State::describe(const Match& match, Duration now, MatchStep& step) const {
  step.verdict = match.verdict;
  if (!match.place.has_value()) return;
  const AnswerSlot& slot = slots[*match.place];
  step.candidate = slot.question();
  step.entry = slot.id;
  step.age = now - slot.stored;
}

void AnswerCache::State::copy_answer(const Match& match, Duration now, bool share,
                                     AnswerLookup& found) {
  AnswerSlot& slot = slots[*match.place];
  found.left = slot.left(now);
  found.saved = slot.cost;
  found.shared = match.shared;
  if (found.shared == nullptr) {
    auto answer = from_record(std::as_bytes(std::span(slot.part(AnswerParts::kRecord))));
    AFI_CHECK(answer.has_value());  // its checksum was verified
    if (!share || answer->record.size() < kLeastShared) {
      found.answer = *std::move(answer);
      return;
    }
    found.shared = std::make_shared<const Answer>(*std::move(answer));
    slot.shared = found.shared;
  }
  found.answer = Answer{.text = found.shared->text,
                        .finish_reason = found.shared->finish_reason,
                        .model = found.shared->model,
                        .prompt_tokens = found.shared->prompt_tokens,
                        .output_tokens = found.shared->output_tokens};
}

void AnswerCache::State::settle(const Match& match, bool serve, Duration now,
                                MatchLevelStats& counts) {
  if (!match.place.has_value()) {
    ++counts.missed;
    return;
  }
  if (match.verdict == Verdict::kServed && serve) {
    ++counts.served;
    stats.answer_time_saved += slots[*match.place].cost;
    note_use(*match.place, now);
    return;
  }
  ++counts.matched_not_used;
  if (match.verdict == Verdict::kExpired) expire(*match.place);
  if (match.verdict == Verdict::kDamaged) {
    remove(*match.place, RemovalReason::kErased);
    ++stats.damaged;
  }
}

void AnswerCache::State::check_invariants() const {
  AnswerCount kept;
  AnswerCount pinned;
  std::uint64_t listings = 0;
  std::uint64_t timed = 0;
  std::map<TenantId, AnswerUsage> usages;
  for (std::uint32_t place = 0; place < slots.size(); ++place) {
    const AnswerSlot& slot = slots[place];
    if (!slot.payload.has_value()) continue;
    kept += slot.count();
    AnswerUsage& usage = usages[slot.owner->first];
    usage.kept += slot.count();
    if (slot.pinned) {
      pinned += slot.count();
      usage.pinned += slot.count();
    }
    AFI_CHECK(slot.pinned == pins.contains(slot.id));
    AFI_CHECK(slot.pinned != slot.owner->second.by_use.contains({slot.queued, place}));
    AFI_CHECK(slot.queued <= slot.used && slot.used <= last_used);
    AFI_CHECK(by_id.at(slot.id) == place && slot.id.value <= last_id);
    if (slot.expires != AnswerSlot::kNever) ++timed;
    AFI_CHECK(slot.expires == AnswerSlot::kNever || by_expiry.contains({slot.expires, place}));
    AFI_CHECK(slot.listed[static_cast<std::size_t>(MatchLevel::kExact)]);
    AFI_CHECK(!slot.exact_only || std::ranges::count(slot.listed, true) == 1);
    for (const MatchLevel level : kMatchLevels) {
      if (!slot.listed[static_cast<std::size_t>(level)]) continue;
      ++listings;
      AFI_CHECK(forms.find(AnswerFormKey::of(slot.scope, level, slot.form(level))) == place);
    }
  }
  AFI_CHECK(kept.entries == stats.entries && kept.entries <= options.max_entries);
  AFI_CHECK(kept.bytes == stats.resident && kept.bytes <= budget.used());
  AFI_CHECK(pinned == stats.pinned && pinned.entries.value() == pins.size());
  AFI_CHECK(listings == forms.size() && timed == by_expiry.size());
  AFI_CHECK(by_id.size() == kept.entries.value());
  AFI_CHECK(by_id.size() + free_places.size() == slots.size());
  AFI_CHECK(usages.size() == owners.size());
  for (const auto& [name, usage] : usages) {
    const AnswerOwner& owner = owners.at(name);
    AFI_CHECK(owner.kept == usage.kept && owner.pinned == usage.pinned);
    AFI_CHECK(owner.by_use.size() + owner.pinned.entries.value() == owner.kept.entries.value());
  }
}

}  // namespace afterimage
