// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/encoder_cache.h"

#include <algorithm>
#include <utility>

#include "afterimage/result.h"
#include "caches/encoder/encoder_cache_state.h"

namespace afterimage {

void EncoderCache::State::Slot::count_agent(AgentId agent) {
  constexpr std::size_t kMaxCountedAgents = 1024;
  if (agent == kNoAgent || agent == last_agent) return;
  last_agent = agent;
  std::vector<AgentId>& agents = record->agents;
  const auto at = std::ranges::lower_bound(agents, agent);
  if (at != agents.end() && *at == agent) return;
  if (agents.size() < kMaxCountedAgents) agents.insert(at, agent);
}

void EncoderCache::State::report_use(SlotId id) {
  Slot& slot = slots[id.index];
  slot.use_pending = false;
  if (slot.in_policy) return options.policy->touch(id);
  slot.in_policy = true;
  const std::uint64_t key = DigestHash()(slot.key);
  const std::vector<EntryLabel>& labels = slot.record->facts.labels;
  options.policy->insert(id, {.bytes = slot.bytes,
                              .cost = slot.cost,
                              .key = key,
                              .owner = labels.empty() ? EntryLabel() : labels.front()});
}

std::uint32_t EncoderCache::State::take_place() {
  if (!free_places.empty()) {
    const std::uint32_t place = free_places.back();
    free_places.pop_back();
    return place;
  }
  slots.emplace_back();
  return static_cast<std::uint32_t>(slots.size() - 1);
}

std::optional<SlotId> EncoderCache::State::next_victim() {
  return first_unpinned([this] { return options.policy->victim(); });
}

std::optional<SlotId> EncoderCache::State::next_idle(Duration since) {
  return first_unpinned([this, since] { return options.policy->idle_victim(since); });
}

// Entries are parked lazily: the policy learns that an entry is pinned only when it chose it.
template <typename Propose>
std::optional<SlotId> EncoderCache::State::first_unpinned(const Propose& propose) {
  flush_uses();
  while (const std::optional<SlotId> victim = propose()) {
    Slot& slot = at(*victim);
    if (slot.pins == 0) return victim;
    options.policy->park(*victim);
    slot.parked = true;
  }
  return std::nullopt;
}

void EncoderCache::State::remove(SlotId id, RemovalReason why) {
  Slot& slot = at(id);
  AFI_CHECK(slot.resident);
  flush_uses();
  if (slot.in_policy) options.policy->erase(id, why);
  index.erase(id.index);  // before the slot's key is cleared
  stats.entries -= EntryCount(1);
  stats.resident -= slot.bytes;
  stats.tokens -= slot.record->facts.tokens;
  if (why == RemovalReason::kEvicted) {
    ++stats.evictions;
    if (options.on_evicted) options.on_evicted(slot.info());
  }
  slot.resident = slot.in_policy = slot.parked = slot.use_pending = false;
  if (slot.pins == 0) free_place(id.index);
}

void EncoderCache::State::free_place(std::uint32_t place) {
  Slot& slot = slots[place];
  const std::uint32_t next_generation = slot.generation + 1;
  slot = Slot{};  // frees the payload and its reservation
  slot.generation = next_generation;
  free_places.push_back(place);
}

std::uint64_t EncoderCache::State::floor() const { return options.min_entries.value(); }

// Chooses all victims first, and evicts them only if they free enough.
Result<void> EncoderCache::State::evict_for(Bytes bytes, std::optional<SlotId> replaced,
                                            std::uint64_t tokens) {
  if (bytes > budget.capacity()) {
    ++stats.refused_oversize;
    return fail(ErrorCode::kNoSpace, "an encoder output of " + std::to_string(bytes.value()) +
                                         " bytes is larger than the whole budget of " +
                                         std::to_string(budget.capacity().value()));
  }
  flush_uses();
  if (tokens > options.max_tokens) {
    ++stats.refused_oversize;
    return fail(ErrorCode::kNoSpace, "an entry of " + std::to_string(tokens) +
                                         " tokens is larger than the limit of " +
                                         std::to_string(options.max_tokens) + " on all of them");
  }
  const std::uint64_t entries = stats.entries.value() - (replaced.has_value() ? 1 : 0);
  std::uint64_t held_tokens =
      stats.tokens - (replaced.has_value() ? at(*replaced).record->facts.tokens : 0);
  const std::uint64_t min_entries = std::min(floor(), stats.entries.value());
  Bytes freed;
  if (replaced.has_value() && at(*replaced).pins == 0) freed = at(*replaced).bytes;
  std::vector<SlotId> victims;
  // The replaced entry must not be chosen as a victim: its bytes are counted already.
  const bool hide_replaced =
      replaced.has_value() && at(*replaced).in_policy && !at(*replaced).parked;
  if (hide_replaced) options.policy->park(*replaced);
  std::optional<Error> refused;
  const auto fits = [&] {
    const std::uint64_t held = budget.used().value();
    return held - std::min(held, freed.value()) <= (budget.capacity() - bytes).value() &&
           entries - victims.size() < options.max_entries.value() &&
           held_tokens <= options.max_tokens - tokens;
  };
  while (!refused.has_value() && !fits()) {
    const auto victim = next_victim();
    if (!victim.has_value()) {
      ++stats.refused_in_use;
      refused = Error{ErrorCode::kNoSpace,
                      "no space for an encoder output of " + std::to_string(bytes.value()) +
                          " bytes: all other entries are in use, or others hold the budget"};
    } else if (entries - victims.size() < min_entries) {  // counted after the exchange
      ++stats.refused_by_floor;
      refused = Error{ErrorCode::kNoSpace, "no space for an encoder output of " +
                                               std::to_string(bytes.value()) +
                                               " bytes without evicting below the floor of " +
                                               std::to_string(min_entries) + " entries"};
    } else {
      options.policy->park(*victim);
      freed += at(*victim).bytes;
      held_tokens -= at(*victim).record->facts.tokens;
      victims.push_back(*victim);
    }
  }
  if (hide_replaced) options.policy->unpark(*replaced);
  if (refused.has_value()) {
    // In reverse order, so that the first victim is again the policy's next candidate.
    for (std::size_t i = victims.size(); i-- > 0;) options.policy->unpark(victims[i]);
    return std::unexpected(*refused);
  }
  for (const SlotId id : victims) remove(id, RemovalReason::kEvicted);
  return {};
}

EncoderCache::EncoderCache(std::unique_ptr<State> state) : state_(std::move(state)) {}

EncoderCache::~EncoderCache() {
  const MutexLock lock(state_->mutex);
  for (const State::Slot& slot : state_->slots) AFI_CHECK(slot.pins == 0);
}

Result<std::unique_ptr<EncoderCache>> EncoderCache::create(EncoderCacheOptions options,
                                                           MemoryBudget& budget) {
  if (options.max_entries.value() == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "max_entries of an encoder cache is 0; it must be at least 1");
  }
  if (options.policy == nullptr) {
    AFI_TRY(options.policy, make_policy(policy_names().front()));
  }
  return std::unique_ptr<EncoderCache>(
      new EncoderCache(std::make_unique<State>(std::move(options), budget)));
}

Pin::~Pin() {
  if (owner_ != nullptr) owner_->unpin(slot_);
}

std::optional<Pin> EncoderCache::find(const EncoderKey& key, AgentId agent) {
  const MutexLock lock(state_->mutex);
  const auto it = state_->index.find(key);
  if (it == state_->index.end()) {
    ++state_->stats.misses;
    return std::nullopt;
  }
  const SlotId id = state_->id_of(*it);
  state_->hit(id, agent);
  return Pin(*this, id, state_->at(id).record->payload);
}

Pin EncoderCache::add_pin(SlotId id) {
  const MutexLock lock(state_->mutex);
  State::Slot& slot = state_->at(id);
  AFI_CHECK(slot.pins > 0);
  ++slot.pins;
  return Pin(*this, id, slot.record->payload);
}

Pin EncoderCache::hit(SlotId id, AgentId agent) {
  const MutexLock lock(state_->mutex);
  state_->hit(id, agent);
  return Pin(*this, id, state_->at(id).record->payload);
}

void EncoderCache::State::hit(SlotId id, AgentId agent) {
  Slot& slot = at(id);
  AFI_CHECK(slot.record != nullptr);
  ++slot.pins;
  ++slot.hits;
  ++stats.hits;
  stats.bytes_reused += slot.bytes;
  stats.encode_time_saved += slot.cost;
  slot.use_pending = true;
  slot.count_agent(agent);
}

void EncoderCache::note_covered(const EncoderKey& key, AgentId agent) {
  const MutexLock lock(state_->mutex);
  const auto it = state_->index.find(key);
  if (it == state_->index.end()) return;
  State::Slot& slot = state_->slots[*it];
  ++slot.hits;
  ++state_->stats.covered;
  state_->stats.bytes_covered += slot.bytes;
  slot.count_agent(agent);
}

void EncoderCache::note_parts(std::uint64_t hits, std::uint64_t misses) {
  const MutexLock lock(state_->mutex);
  EncoderCacheStats& stats = state_->stats;
  AFI_CHECK(hits <= stats.hits && misses <= stats.misses);
  stats.hits -= misses > 0 ? hits : hits - std::min<std::uint64_t>(hits, 1);
  stats.misses -= misses - std::min<std::uint64_t>(misses, 1);
}

void EncoderCache::discard_damaged(SlotId id) {
  const MutexLock lock(state_->mutex);
  State::Slot& slot = state_->at(id);
  AFI_CHECK(slot.pins > 0);
  --state_->stats.hits;
  ++state_->stats.misses;
  state_->stats.bytes_reused -= slot.bytes;
  state_->stats.encode_time_saved -= slot.cost;
  if (slot.resident) state_->remove(id, RemovalReason::kErased);
}

Result<Reservation> EncoderCache::make_room(Bytes bytes) {
  const MutexLock lock(state_->mutex);
  return state_->make_room(bytes);
}

Result<Reservation> EncoderCache::State::make_room(Bytes bytes) {
  if (blocked) {
    ++stats.blocked;
    return fail(ErrorCode::kUnavailable,
                "the encoder output is not cached: admission is blocked while memory is short");
  }
  while (true) {
    AFI_TRY_VOID(evict_for(bytes, std::nullopt));
    auto reservation = budget.reserve(bytes);
    // Another cache may have taken the space in between. Each round evicts something or fails.
    if (reservation.has_value()) return reservation;
  }
}

Result<Pin> EncoderCache::insert(const EncoderKey& key, std::span<const TensorView> tensors,
                                 const EncoderEntryFacts& facts, AgentId agent) {
  const Bytes needed = Payload::bytes_needed(tensors);
  Reservation reservation;
  {
    const MutexLock lock(state_->mutex);
    const auto it = state_->index.find(key);
    if (it != state_->index.end() && !state_->blocked) {
      const SlotId old = state_->id_of(*it);
      AFI_TRY_VOID(state_->evict_for(needed, old));
      state_->remove(old, RemovalReason::kErased);
    }
    AFI_TRY(reservation, state_->make_room(needed));
  }
  AFI_TRY(Payload payload, Payload::copy_of(tensors, std::move(reservation)));
  return insert(key, std::move(payload), facts, agent);
}

Result<Pin> EncoderCache::insert(const EncoderKey& key, Payload payload,
                                 const EncoderEntryFacts& facts, AgentId agent) {
  const MutexLock lock(state_->mutex);
  AFI_TRY(const SlotId id, state_->insert(key, std::move(payload), facts, agent));
  return Pin(*this, id, state_->at(id).record->payload);
}

Result<SlotId> EncoderCache::State::insert(const EncoderKey& key, Payload payload,
                                           const EncoderEntryFacts& facts, AgentId agent) {
  std::optional<SlotId> replaced;
  if (const auto it = index.find(key); it != index.end()) replaced = id_of(*it);
  AFI_TRY_VOID(evict_for(0_B, replaced, facts.tokens));
  if (replaced.has_value()) remove(*replaced, RemovalReason::kErased);
  const std::uint32_t place = take_place();
  Slot& slot = slots[place];
  slot.bytes = payload.bytes();
  slot.cost = facts.cost;
  slot.record = std::make_unique<Record>(std::move(payload), facts, std::vector<AgentId>());
  slot.key = key;
  slot.pins = 1;
  slot.resident = true;
  slot.count_agent(agent);
  index.insert(place);
  slot.use_pending = true;
  ++stats.insertions;
  stats.entries += EntryCount(1);
  stats.resident += slot.bytes;
  stats.tokens += facts.tokens;
  return id_of(place);
}

void EncoderCache::note_request(const RequestFacts& facts, std::span<const SlotId> used) {
  const MutexLock lock(state_->mutex);
  state_->flush_uses();
  state_->options.policy->begin_request(facts);
  for (std::size_t i = used.size(); i-- > 0;) {
    const State::Slot& slot = state_->at(used[i]);
    AFI_CHECK(slot.pins > 0);
    if (slot.resident) state_->report_use(used[i]);
  }
}

bool EncoderCache::erase(const EncoderKey& key) {
  const MutexLock lock(state_->mutex);
  const auto it = state_->index.find(key);
  if (it == state_->index.end()) return false;
  state_->remove(state_->id_of(*it), RemovalReason::kErased);
  return true;
}

EntryCount EncoderCache::erase_matching(const EntryFilter& filter) {
  const MutexLock lock(state_->mutex);
  EntryCount erased;
  for (std::uint32_t place = 0; place < state_->slots.size(); ++place) {
    const State::Slot& slot = state_->slots[place];
    if (!slot.resident || !filter.matches(slot.record->facts.labels)) continue;
    state_->remove(state_->id_of(place), RemovalReason::kErased);
    erased += EntryCount(1);
  }
  return erased;
}

void EncoderCache::clear() {
  const MutexLock lock(state_->mutex);
  for (std::uint32_t place = 0; place < state_->slots.size(); ++place) {
    if (state_->slots[place].resident) state_->remove(state_->id_of(place), RemovalReason::kErased);
  }
}

std::optional<EvictionCandidate> EncoderCache::eviction_candidate() {
  State& state = *state_;
  const MutexLock lock(state.mutex);
  if (state.stats.entries.value() <= state.floor() || !state.next_victim().has_value()) {
    return std::nullopt;
  }
  return EvictionCandidate{.resident = state.stats.resident,
                           .worth = state.options.policy->victim_worth(),
                           .overuse = state.options.policy->victim_overuse()};
}

Bytes EncoderCache::evict_bytes(Bytes wanted) {
  const MutexLock lock(state_->mutex);
  Bytes freed;
  const std::uint64_t min_entries = state_->floor();
  while (freed < wanted && state_->stats.entries.value() > min_entries) {
    const auto victim = state_->next_victim();
    if (!victim.has_value()) break;
    freed += state_->at(*victim).bytes;
    state_->remove(*victim, RemovalReason::kEvicted);
  }
  return freed;
}

Bytes EncoderCache::trim_to_budget() {
  const MutexLock lock(state_->mutex);
  Bytes freed;
  while (state_->budget.used() > state_->budget.capacity()) {
    const auto victim = state_->next_victim();
    if (!victim.has_value()) break;
    freed += state_->at(*victim).bytes;
    state_->remove(*victim, RemovalReason::kEvicted);
  }
  return freed;
}

Bytes EncoderCache::evict_idle(Duration since) {
  const MutexLock lock(state_->mutex);
  Bytes freed;
  while (const auto victim = state_->next_idle(since)) {
    freed += state_->at(*victim).bytes;
    state_->remove(*victim, RemovalReason::kEvicted);
  }
  return freed;
}

void EncoderCache::block_admission(bool blocked) {
  const MutexLock lock(state_->mutex);
  state_->blocked = blocked;
}

void EncoderCache::set_min_entries(EntryCount min_entries) {
  const MutexLock lock(state_->mutex);
  state_->options.min_entries = min_entries;
}

void EncoderCache::unpin(SlotId id) {
  const MutexLock lock(state_->mutex);
  State::Slot& slot = state_->at(id);
  AFI_CHECK(slot.pins > 0);
  if (--slot.pins > 0) return;
  if (!slot.resident) return state_->free_place(id.index);
  if (slot.use_pending) state_->record_use(id);  // used outside any request
  if (slot.parked) {
    slot.parked = false;
    state_->flush_uses();
    state_->options.policy->unpark(id);
  }
}

}  // namespace afterimage
