// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/semantic/answer_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstring>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "afterimage/check.h"
#include "afterimage/memory/payload.h"
#include "afterimage/residency/policies.h"

namespace afterimage {
namespace {

constexpr std::size_t kRungs = kTextRungs.size();
constexpr Duration kNever = Duration::max();

constexpr std::size_t index_of(TextRung rung) { return static_cast<std::size_t>(rung); }

/// Seeded with bytes of a MAC, so that nobody outside can choose questions that collide.
std::uint64_t hash_of(const ScopeId& scope, TextRung rung, std::string_view form) {
  return XXH3_64bits_withSeed(form.data(), form.size(), DigestHash()(scope.key) + index_of(rung));
}

/// What an entry keeps, one after the other.
enum Part : std::size_t { kRecord, kForms, kTags = kForms + kRungs, kParts };

/// The bytes of an entry before they are charged to anybody.
struct Draft {
  std::vector<std::byte> bytes;
  std::array<std::size_t, kParts> ends{};
  void add(std::size_t part, std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
    ends[part] = bytes.size();
  }
};

struct Slot {
  ScopeId scope;
  std::optional<Payload> payload;  // empty: the place is free
  std::array<std::size_t, kParts> ends{};
  std::array<std::uint64_t, kRungs> hashes{};
  std::array<bool, kRungs> listed{};  // the index leads here from this form
  Duration stored{0};
  Duration expires = kNever;
  Duration cost{0};
  std::uint32_t generation = 0;

  [[nodiscard]] std::string_view part(std::size_t which) const {
    const std::span<const std::byte> bytes = payload->tensors().front().bytes();
    const std::size_t begin = which == 0 ? 0 : ends[which - 1];
    return {reinterpret_cast<const char*>(bytes.data()) + begin, ends[which] - begin};
  }
  [[nodiscard]] std::string_view form(std::size_t rung) const { return part(kForms + rung); }
};
using Slots = std::vector<Slot>;

/// One form of one entry, as the index has it.
struct Listing {
  std::uint32_t place = 0;
  TextRung rung = TextRung::kExact;
};
struct FormKey {
  const ScopeId* scope;
  TextRung rung;
  std::string_view form;
  std::uint64_t hash;
};
struct ListingHash {
  using is_transparent = void;
  using is_avalanching = void;
  const Slots* slots;
  std::size_t operator()(const FormKey& key) const { return key.hash; }
  std::size_t operator()(const Listing& listing) const {
    return (*slots)[listing.place].hashes[index_of(listing.rung)];
  }
};
struct ListingEqual {
  using is_transparent = void;
  const Slots* slots;
  bool operator()(const FormKey& key, const Listing& listing) const {
    if (key.rung != listing.rung) return false;
    const Slot& slot = (*slots)[listing.place];
    return slot.hashes[index_of(key.rung)] == key.hash && slot.scope == *key.scope &&
           slot.form(index_of(key.rung)) == key.form;
  }
  bool operator()(const Listing& listing, const FormKey& key) const {
    return (*this)(key, listing);
  }
  bool operator()(const Listing& a, const Listing& b) const {
    return a.place == b.place && a.rung == b.rung;
  }
};

FormKey key_of(const ScopeId& scope, TextRung rung, std::string_view form) {
  return {.scope = &scope, .rung = rung, .form = form, .hash = hash_of(scope, rung, form)};
}

Result<Draft> draft_of(Question& question, const Answer& answer, const AnswerFacts& facts) {
  if (!is_whole(answer)) {
    return fail(ErrorCode::kInvalidArgument, "an answer that ended with \"" + answer.finish_reason +
                                                 "\" is not whole and not kept");
  }
  Draft draft;
  draft.add(kRecord, to_record(answer));
  for (const TextRung rung : kTextRungs) {
    const auto form = question.form(rung);
    draft.add(kForms + index_of(rung), std::as_bytes(std::span(form.value_or(""))));
  }
  std::string tags;
  for (const std::string& tag : facts.tags) {
    if (tag.contains('\0')) return fail(ErrorCode::kInvalidArgument, "a tag holds a zero byte");
    tags.append(tag).push_back('\0');
  }
  draft.add(kTags, std::as_bytes(std::span(tags)));
  return draft;
}

bool has_tag(std::string_view tags, std::string_view tag) {
  while (!tags.empty()) {
    const std::size_t end = tags.find('\0');
    if (tags.substr(0, end) == tag) return true;
    tags.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace

std::optional<std::string_view> Question::form(TextRung rung) {
  if (rung == TextRung::kExact) return text_;
  Form& form = forms_[static_cast<std::size_t>(rung)];
  if (!form.made) form = {.made = true, .text = fold_text(text_, rung)};
  return form.text;
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kServed:
      return "served";
    case Verdict::kJoined:
      return "joined";
    case Verdict::kMissed:
      return "missed";
    case Verdict::kNotAllowed:
      return "not_allowed";
    case Verdict::kTooOld:
      return "too_old";
    case Verdict::kExpired:
      return "expired";
    case Verdict::kDamaged:
      return "damaged";
    case Verdict::kUnsure:
      return "unsure";
    case Verdict::kExplored:
      return "explored";
  }
  return "unknown";
}

struct AnswerCache::State {
  State(AnswerCacheOptions chosen, MemoryBudget& shared)
      : budget(shared), options(std::move(chosen)) {}

  [[nodiscard]] SlotId id_of(std::uint32_t place) const {
    return {.index = place, .generation = slots[place].generation};
  }
  [[nodiscard]] std::optional<std::uint32_t> place_of(const FormKey& key) const {
    const auto it = index.find(key);
    return it == index.end() ? std::nullopt : std::optional(it->place);
  }
  std::uint32_t take_place();
  void list(std::uint32_t place, TextRung rung, const FormKey& key);
  void remove(std::uint32_t place, Leaving why);
  void expire(std::uint32_t place);
  bool expire_one(Duration now);
  bool evict_one(Duration now);
  Result<Reservation> make_room(const FormKey& exact, Bytes bytes, Duration now);
  void erase_exact(const FormKey& exact);
  void keep(Question& question, const Draft& draft, Payload payload, const AnswerFacts& facts,
            Duration now);
  Duration try_rung(const FormKey& key, Duration now, const LookupRules& rules, bool serve,
                    RungStats& counts, LadderStep& step, std::vector<std::byte>& record);
  template <typename Leaves>
  EntryCount erase_if(const Leaves& leaves);

  MemoryBudget& budget;
  AnswerCacheOptions options;
  Slots slots;
  boost::unordered_flat_set<Listing, ListingHash, ListingEqual> index{0, ListingHash{&slots},
                                                                      ListingEqual{&slots}};
  std::vector<std::uint32_t> free_places;
  std::set<std::pair<Duration, std::uint32_t>> by_expiry;  // of entries that have one
  AnswerCacheStats stats;
  std::vector<AnswerObserver*> observers;
  bool blocked = false;
};

std::uint32_t AnswerCache::State::take_place() {
  if (free_places.empty()) {
    slots.emplace_back();
    return static_cast<std::uint32_t>(slots.size() - 1);
  }
  const std::uint32_t place = free_places.back();
  free_places.pop_back();
  return place;
}

// The newest entry takes over; the older one is still found by the forms that only it has.
void AnswerCache::State::list(std::uint32_t place, TextRung rung, const FormKey& key) {
  if (const auto it = index.find(key); it != index.end()) {
    slots[it->place].listed[index_of(rung)] = false;
    index.erase(it);
  }
  slots[place].hashes[index_of(rung)] = key.hash;
  slots[place].listed[index_of(rung)] = true;
  index.insert(Listing{.place = place, .rung = rung});
}

void AnswerCache::State::remove(std::uint32_t place, Leaving why) {
  Slot& slot = slots[place];
  for (AnswerObserver* observer : observers) {
    observer->answer_left(slot.scope, slot.form(index_of(TextRung::kExact)));
  }
  options.policy->erase(id_of(place), why);
  for (const TextRung rung : kTextRungs) {
    if (slot.listed[index_of(rung)]) index.erase(Listing{.place = place, .rung = rung});
  }
  if (slot.expires != kNever) by_expiry.erase({slot.expires, place});
  stats.entries -= EntryCount(1);
  stats.resident -= slot.payload->bytes();
  const std::uint32_t next_generation = slot.generation + 1;
  slot = Slot{};  // the payload goes, and its reservation with it
  slot.generation = next_generation;
  free_places.push_back(place);
}

void AnswerCache::State::expire(std::uint32_t place) {
  remove(place, Leaving::kErased);
  ++stats.expired;
}

bool AnswerCache::State::expire_one(Duration now) {
  if (by_expiry.empty() || by_expiry.begin()->first > now) return false;
  expire(by_expiry.begin()->second);
  return true;
}

bool AnswerCache::State::evict_one(Duration now) {
  if (expire_one(now)) return true;
  const auto victim = options.policy->victim();
  if (!victim.has_value()) return false;
  AFI_CHECK(*victim == id_of(victim->index));
  remove(victim->index, Leaving::kEvicted);
  ++stats.evictions;
  return true;
}

void AnswerCache::State::erase_exact(const FormKey& exact) {
  const auto place = place_of(exact);
  if (!place.has_value()) return;
  remove(*place, Leaving::kErased);
  ++stats.erased;
}

/// The entry that is replaced goes first, so that no other has to leave for it; but not before it
/// is clear that there can be room.
Result<Reservation> AnswerCache::State::make_room(const FormKey& exact, Bytes bytes, Duration now) {
  const std::uint64_t used = budget.used().value();
  const std::uint64_t others = used - std::min(used, stats.resident.value());
  const std::uint64_t capacity = budget.capacity().value();
  bool possible = bytes.value() <= capacity && others <= capacity - bytes.value();
  if (possible) erase_exact(exact);
  while (possible) {
    auto room = budget.reserve(bytes);
    if (room.has_value()) return room;
    possible = evict_one(now);  // another cache may take the room meanwhile
  }
  ++stats.refused_no_room;
  return fail(ErrorCode::kNoSpace, "an answer of " + std::to_string(bytes.value()) +
                                       " bytes does not fit: of " + std::to_string(capacity) +
                                       " bytes others hold " + std::to_string(others));
}

void AnswerCache::State::keep(Question& question, const Draft& draft, Payload payload,
                              const AnswerFacts& facts, Duration now) {
  erase_exact(key_of(question.scope(), TextRung::kExact, question.text()));  // another came first
  while (stats.entries >= options.max_entries) AFI_CHECK(evict_one(now));
  const std::uint32_t place = take_place();
  Slot& slot = slots[place];
  slot.scope = question.scope();
  slot.payload = std::move(payload);
  slot.ends = draft.ends;
  slot.stored = now;
  slot.cost = facts.cost;
  if (facts.ttl.has_value() && *facts.ttl < kNever - now) {
    slot.expires = now + std::max(*facts.ttl, Duration(0));
    by_expiry.emplace(slot.expires, place);
  }
  for (const TextRung rung : kTextRungs) {
    const auto form = question.form(rung);
    if (form.has_value()) list(place, rung, key_of(question.scope(), rung, *form));
  }
  options.policy->begin_request({.now = now});
  options.policy->insert(id_of(place), {.bytes = slot.payload->bytes(),
                                        .cost = slot.cost,
                                        .key = slot.hashes[index_of(TextRung::kExact)]});
  ++stats.insertions;
  stats.entries += EntryCount(1);
  stats.resident += slot.payload->bytes();
}

/// Returns what the answer had taken, if it is served. One that is only looked at is copied, too.
Duration AnswerCache::State::try_rung(const FormKey& key, Duration now, const LookupRules& rules,
                                      bool serve, RungStats& counts, LadderStep& step,
                                      std::vector<std::byte>& record) {
  const auto place = place_of(key);
  if (!place.has_value()) {
    ++counts.missed;
    return Duration(0);
  }
  const Slot& slot = slots[*place];
  step.candidate = slot.form(index_of(TextRung::kExact));
  step.age = now - slot.stored;
  if (slot.expires <= now) {
    step.verdict = Verdict::kExpired;
    expire(*place);
  } else if (key.rung > rules.serve) {
    step.verdict = Verdict::kNotAllowed;
  } else if (rules.max_age.has_value() && step.age > *rules.max_age) {
    step.verdict = Verdict::kTooOld;
  } else if (!slot.payload->intact()) {
    step.verdict = Verdict::kDamaged;
    remove(*place, Leaving::kErased);
    ++stats.damaged;
  } else {
    const auto bytes = std::as_bytes(std::span(slot.part(kRecord)));
    record.assign(bytes.begin(), bytes.end());
    if (!serve) {
      step.verdict = Verdict::kNotAllowed;
      ++counts.matched_not_used;
      return Duration(0);
    }
    step.verdict = Verdict::kServed;
    ++counts.served;
    stats.answer_time_saved += slot.cost;
    options.policy->begin_request({.now = now});
    options.policy->touch(id_of(*place));
    return slot.cost;
  }
  ++counts.matched_not_used;
  return Duration(0);
}

template <typename Leaves>
EntryCount AnswerCache::State::erase_if(const Leaves& leaves) {
  EntryCount left;
  for (std::uint32_t place = 0; place < slots.size(); ++place) {
    if (!slots[place].payload.has_value() || !leaves(slots[place])) continue;
    remove(place, Leaving::kErased);
    left += EntryCount(1);
  }
  stats.erased += left.value();
  return left;
}

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

AnswerLookup AnswerCache::find(Question& question, const LookupRules& asked) {
  LookupRules rules = asked;
  rules.serve = question.ceiling(asked.serve);
  AnswerLookup found;
  for (const TextRung rung : kTextRungs) {
    if (rung > std::max(asked.serve, asked.watch)) break;
    const Duration began = clock_.now();
    const auto form = question.form(rung);
    if (!form.has_value()) continue;
    const FormKey key = key_of(question.scope(), rung, *form);
    LadderStep& step = found.steps.emplace_back();
    step.rung = rung;
    std::vector<std::byte> record;
    {
      const MutexLock lock(mutex_);
      // Read under the lock: what the policy hears of time never falls.
      found.saved = state_->try_rung(key, clock_.now(), rules, /*serve=*/true,
                                     state_->stats.rungs[index_of(rung)], step, record);
    }
    if (step.verdict == Verdict::kServed) {
      auto answer = from_record(record);
      AFI_CHECK(answer.has_value());  // its checksum was right
      found.answer = *std::move(answer);
    }
    step.took = clock_.now() - began;
    if (found.answer.has_value()) break;
  }
  return found;
}

AnswerLookup AnswerCache::answer_to(Question& candidate, const LookupRules& rules, bool serve) {
  const Duration began = clock_.now();
  const FormKey key = key_of(candidate.scope(), TextRung::kExact, candidate.text());
  AnswerLookup found;
  LadderStep& step = found.steps.emplace_back();
  std::vector<std::byte> record;
  {
    const MutexLock lock(mutex_);
    State& state = *state_;
    found.saved =
        state.try_rung(key, clock_.now(), rules, serve, state.stats.proposed, step, record);
  }
  if (!record.empty()) found.answer = from_record(record).value();
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

void AnswerCache::take_back(const AnswerLookup& served) {
  if (!served.answer.has_value() || served.steps.back().verdict != Verdict::kServed) return;
  const MutexLock lock(mutex_);
  RungStats& counts = state_->stats.rungs[index_of(served.steps.back().rung)];
  --counts.served;
  ++counts.matched_not_used;
  state_->stats.answer_time_saved -= served.saved;
}

Result<void> AnswerCache::insert(Question& question, const Answer& answer,
                                 const AnswerFacts& facts) {
  AFI_TRY(const Draft draft, draft_of(question, answer, facts));
  AFI_TRY(const TensorView view,
          TensorView::over(DType::kU8, Shape{draft.bytes.size()}, draft.bytes));
  const std::span<const TensorView> views(&view, 1);
  const FormKey exact = key_of(question.scope(), TextRung::kExact, question.text());
  const Bytes needed = Payload::bytes_needed(views);
  SharedBudget* shared = nullptr;
  {
    const MutexLock lock(mutex_);
    if (state_->blocked) {
      ++state_->stats.blocked;
      return fail(ErrorCode::kUnavailable, "admission is blocked: memory is short");
    }
    shared = state_->options.shared;
  }
  if (shared != nullptr) shared->make_room(needed);
  Reservation room;
  {
    const MutexLock lock(mutex_);
    AFI_TRY(room, state_->make_room(exact, needed, clock_.now()));
  }
  AFI_TRY(Payload payload, Payload::copy_of(views, std::move(room)));
  const MutexLock lock(mutex_);
  state_->keep(question, draft, std::move(payload), facts, clock_.now());
  return {};
}

bool AnswerCache::erase(Question& question) {
  const FormKey key = key_of(question.scope(), TextRung::kExact, question.text());
  const MutexLock lock(mutex_);
  const auto place = state_->place_of(key);
  if (!place.has_value()) return false;
  state_->remove(*place, Leaving::kErased);
  ++state_->stats.erased;
  return true;
}

EntryCount AnswerCache::erase_tagged(std::string_view tag) {
  const MutexLock lock(mutex_);
  return state_->erase_if([&](const Slot& slot) { return has_tag(slot.part(kTags), tag); });
}

EntryCount AnswerCache::erase_scope(const ScopeKey& scope) {
  const MutexLock lock(mutex_);
  return state_->erase_if([&](const Slot& slot) { return slot.scope.key == scope; });
}

EntryCount AnswerCache::purge(const NamespaceId& space) {
  const MutexLock lock(mutex_);
  return state_->erase_if([&](const Slot& slot) { return slot.scope.space == space; });
}

void AnswerCache::clear() {
  const MutexLock lock(mutex_);
  state_->erase_if([](const Slot& /*slot*/) { return true; });
}

EntryCount AnswerCache::expire() {
  const MutexLock lock(mutex_);
  EntryCount left;
  for (const Duration now = clock_.now(); state_->expire_one(now);) left += EntryCount(1);
  return left;
}

Bytes AnswerCache::shed(Bytes wanted) {
  const MutexLock lock(mutex_);
  const Bytes& resident = state_->stats.resident;
  const Bytes before = resident;
  while (before - resident < wanted && state_->evict_one(clock_.now())) continue;
  return before - resident;
}

Bytes AnswerCache::obey_budget() {
  const MutexLock lock(mutex_);
  const MemoryBudget& budget = state_->budget;
  const Bytes before = state_->stats.resident;
  while (budget.used() > budget.capacity() && state_->evict_one(clock_.now())) continue;
  return before - state_->stats.resident;
}

std::optional<NextToLeave> AnswerCache::next_to_leave() {
  const MutexLock lock(mutex_);
  if (!state_->options.policy->victim().has_value()) return std::nullopt;
  return NextToLeave{.resident = state_->stats.resident,
                     .worth = state_->options.policy->victim_worth()};
}

void AnswerCache::block_admission(bool blocked) {
  const MutexLock lock(mutex_);
  state_->blocked = blocked;
}

std::span<const std::byte> AnswerCache::kept_bytes(Question& question) const {
  const FormKey key = key_of(question.scope(), TextRung::kExact, question.text());
  const MutexLock lock(mutex_);
  return state_->slots.at(state_->place_of(key).value()).payload->tensors().front().bytes();
}

AnswerCacheStats AnswerCache::stats() const {
  const MutexLock lock(mutex_);
  return state_->stats;
}

void AnswerCache::check_invariants() const {
  const MutexLock lock(mutex_);
  const State& state = *state_;
  Bytes resident;
  std::uint64_t entries = 0;
  std::uint64_t listings = 0;
  std::uint64_t timed = 0;
  for (std::uint32_t place = 0; place < state.slots.size(); ++place) {
    const Slot& slot = state.slots[place];
    if (!slot.payload.has_value()) continue;
    ++entries;
    resident += slot.payload->bytes();
    if (slot.expires != kNever) ++timed;
    AFI_CHECK(slot.expires == kNever || state.by_expiry.contains({slot.expires, place}));
    AFI_CHECK(slot.listed[index_of(TextRung::kExact)]);
    for (const TextRung rung : kTextRungs) {
      if (!slot.listed[index_of(rung)]) continue;
      ++listings;
      const FormKey key = key_of(slot.scope, rung, slot.form(index_of(rung)));
      AFI_CHECK(state.place_of(key) == place);
    }
  }
  AFI_CHECK(entries == state.stats.entries.value());
  AFI_CHECK(entries <= state.options.max_entries.value());
  AFI_CHECK(resident == state.stats.resident && resident <= state.budget.used());
  AFI_CHECK(listings == state.index.size() && timed == state.by_expiry.size());
  AFI_CHECK(entries + state.free_places.size() == state.slots.size());
}

}  // namespace afterimage
