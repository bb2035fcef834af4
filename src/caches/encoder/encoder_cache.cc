// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/encoder_cache.h"

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "afterimage/eviction_policy.h"
#include "afterimage/result.h"
#include "foundation/platform/huge_pages.h"
#include "foundation/platform/mutex.h"
#include "foundation/types/digest_hash.h"

namespace afterimage {
namespace {

constexpr std::size_t kMaxCountedAgents = 1024;

/// The cold part of an entry: used by insert, evict and info, not by a hit.
struct Record {
  Payload payload;
  EncoderEntryFacts facts;
  std::vector<AgentId> agents;  // sorted
};

/// One place in the table: the only copy of the key, and everything else that a hit uses.
struct alignas(16) Slot {
  EncoderKey key;
  std::unique_ptr<Record> record;  // empty: the place is free
  std::uint64_t hits = 0;
  Bytes bytes;
  Duration cost{0};
  std::uint32_t generation = 0;
  std::uint32_t pins = 0;
  AgentId last_agent = kNoAgent;
  bool resident = false;     // findable; an erased entry that is still pinned is not
  bool parked = false;       // the policy excludes it from eviction while it is pinned
  bool in_policy = false;    // inserted into the policy
  bool use_pending = false;  // used, and not yet reported to the policy
};

using Slots = std::vector<Slot, HugePageAllocator<Slot>>;

// The index holds places and reads keys from the table: four bytes per entry stay in the CPU caches
// where whole keys would not, and a hit reads its slot anyway.
struct PlaceHash {
  using is_transparent = void;
  using is_avalanching = void;
  const Slots* slots;
  std::size_t operator()(const EncoderKey& key) const { return DigestHash()(key); }
  std::size_t operator()(std::uint32_t place) const { return DigestHash()((*slots)[place].key); }
};
struct PlaceEqual {
  using is_transparent = void;
  const Slots* slots;
  bool operator()(const EncoderKey& key, std::uint32_t place) const {
    return (*slots)[place].key == key;
  }
  bool operator()(std::uint32_t place, const EncoderKey& key) const {
    return (*slots)[place].key == key;
  }
  bool operator()(std::uint32_t a, std::uint32_t b) const { return a == b; }
};

void count_agent(Slot& slot, AgentId agent) {
  if (agent == kNoAgent || agent == slot.last_agent) return;
  slot.last_agent = agent;
  std::vector<AgentId>& agents = slot.record->agents;
  const auto at = std::ranges::lower_bound(agents, agent);
  if (at != agents.end() && *at == agent) return;
  if (agents.size() < kMaxCountedAgents) agents.insert(at, agent);
}

EncoderEntryInfo info_of(const Slot& slot) {
  return {.facts = slot.record->facts,
          .bytes = slot.bytes,
          .access_count = slot.hits,
          .agents = slot.record->agents.size(),
          .pins = slot.pins};
}

void add_part(const EncoderEntryInfo& part, EncoderEntryInfo& item) {
  ++item.entries;
  item.bytes += part.bytes;
  item.facts.cost += part.facts.cost;
  item.access_count = std::max(item.access_count, part.access_count);
  item.pins += part.pins;
}

}  // namespace

struct EncoderCache::State {
  State(EncoderCacheOptions chosen, MemoryBudget& shared)
      : budget(shared), options(std::move(chosen)) {}

  [[nodiscard]] SlotId id_of(std::uint32_t place) const AFI_REQUIRES(mutex) {
    return {.index = place, .generation = slots[place].generation};
  }
  Slot& at(SlotId id) AFI_REQUIRES(mutex) {
    AFI_CHECK(id.index < slots.size() && slots[id.index].generation == id.generation);
    return slots[id.index];
  }

  void record_use(SlotId id) AFI_REQUIRES(mutex) {
    Slot& slot = slots[id.index];
    slot.use_pending = false;
    if (!slot.in_policy) {
      flush_uses();
      return report_use(id);
    }
    used[uses++] = id;
    if (uses == used.size()) flush_uses();
  }
  /// Required before any other call to the policy, so that it sees uses in order.
  void flush_uses() AFI_REQUIRES(mutex) {
    for (std::size_t i = 0; i < uses; ++i) options.policy->touch(used[i]);
    uses = 0;
  }
  void report_use(SlotId id) AFI_REQUIRES(mutex);

  std::uint32_t take_place() AFI_REQUIRES(mutex);
  std::optional<SlotId> next_victim() AFI_REQUIRES(mutex);
  /// The entry that was used least recently, if that was before `since`.
  std::optional<SlotId> next_idle(Duration since) AFI_REQUIRES(mutex);
  template <typename Propose>
  std::optional<SlotId> first_unpinned(const Propose& propose) AFI_REQUIRES(mutex);
  void remove(SlotId id, RemovalReason why) AFI_REQUIRES(mutex);
  void free_place(std::uint32_t place) AFI_REQUIRES(mutex);
  Result<void> evict_for(Bytes bytes, std::optional<SlotId> replaced, std::uint64_t tokens = 0)
      AFI_REQUIRES(mutex);
  [[nodiscard]] std::uint64_t floor() const AFI_REQUIRES(mutex);
  Result<Reservation> make_room(Bytes bytes) AFI_REQUIRES(mutex);
  /// Counts a hit, and pins.
  void hit(SlotId id, AgentId agent) AFI_REQUIRES(mutex);
  Result<SlotId> insert(const EncoderKey& key, Payload payload, const EncoderEntryFacts& facts,
                        AgentId agent) AFI_REQUIRES(mutex);

  mutable Mutex mutex;

  MemoryBudget& budget;
  EncoderCacheOptions options;
  Slots slots AFI_GUARDED_BY(mutex);
  boost::unordered_flat_set<std::uint32_t, PlaceHash, PlaceEqual, HugePageAllocator<std::uint32_t>>
      index AFI_GUARDED_BY(mutex){0, PlaceHash{&slots},
                                  PlaceEqual{&slots}};  // the resident entries
  std::vector<std::uint32_t> free_places AFI_GUARDED_BY(mutex);
  // Uses not yet reported to the policy, in order. Reporting them in a batch lets the policy's CPU
  // cache misses overlap instead of adding to each hit.
  std::array<SlotId, 64> used AFI_GUARDED_BY(mutex){};
  std::size_t uses AFI_GUARDED_BY(mutex) = 0;
  EncoderCacheStats stats AFI_GUARDED_BY(mutex);
  bool blocked AFI_GUARDED_BY(mutex) = false;
};

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
    if (options.on_evicted) options.on_evicted(info_of(slot));
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
  for (const Slot& slot : state_->slots) AFI_CHECK(slot.pins == 0);
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
  Slot& slot = state_->at(id);
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
  count_agent(slot, agent);
}

void EncoderCache::note_covered(const EncoderKey& key, AgentId agent) {
  const MutexLock lock(state_->mutex);
  const auto it = state_->index.find(key);
  if (it == state_->index.end()) return;
  Slot& slot = state_->slots[*it];
  ++slot.hits;
  ++state_->stats.covered;
  state_->stats.bytes_covered += slot.bytes;
  count_agent(slot, agent);
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
  Slot& slot = state_->at(id);
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
  count_agent(slot, agent);
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
    const Slot& slot = state_->at(used[i]);
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
    const Slot& slot = state_->slots[place];
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
  Slot& slot = state_->at(id);
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

std::optional<EncoderEntryInfo> EncoderCache::info(const EncoderKey& key) const {
  const MutexLock lock(state_->mutex);
  const auto it = state_->index.find(key);
  if (it == state_->index.end()) return std::nullopt;
  return info_of(state_->slots[*it]);
}

std::vector<EncoderEntryInfo> EncoderCache::most_shared(std::size_t limit) const {
  const MutexLock lock(state_->mutex);
  std::vector<EncoderEntryInfo> items;
  std::map<std::tuple<EntryLabel, ContentDigest>, std::size_t> in_parts;
  std::map<std::size_t, std::set<AgentId>> agents;  // of those in parts
  for (const Slot& slot : state_->slots) {
    if (!slot.resident) continue;
    const EncoderEntryFacts& facts = slot.record->facts;
    if (facts.is_part && facts.content.has_value()) {
      const EntryLabel owner = facts.labels.empty() ? EntryLabel() : facts.labels.front();
      const auto [known, is_new] = in_parts.try_emplace({owner, *facts.content}, items.size());
      agents[known->second].insert(slot.record->agents.begin(), slot.record->agents.end());
      if (!is_new) {
        add_part(info_of(slot), items[known->second]);
        continue;
      }
    }
    items.push_back(info_of(slot));
  }
  for (const auto& [item, by] : agents) items[item].agents = by.size();
  const auto rank = [](const EncoderEntryInfo& item) {
    return std::pair(item.agents, item.access_count);
  };
  const std::size_t wanted = std::min(limit, items.size());
  std::ranges::partial_sort(items, items.begin() + static_cast<std::ptrdiff_t>(wanted),
                            std::ranges::greater(), rank);
  items.resize(wanted);
  return items;
}

EncoderCacheStats EncoderCache::stats() const {
  const MutexLock lock(state_->mutex);
  EncoderCacheStats stats = state_->stats;
  stats.min_entries = EntryCount(state_->floor());
  return stats;
}

void EncoderCache::check_invariants() const {
  const State& state = *state_;
  const MutexLock lock(state.mutex);
  Bytes resident;
  Bytes held;
  std::uint64_t tokens = 0;
  std::uint64_t entries = 0;
  std::uint64_t empty = 0;
  for (std::uint32_t place = 0; place < state.slots.size(); ++place) {
    const Slot& slot = state.slots[place];
    if (slot.record == nullptr) {
      AFI_CHECK(!slot.resident && slot.pins == 0);
      ++empty;
      continue;
    }
    AFI_CHECK(slot.resident || slot.pins > 0);
    AFI_CHECK(!slot.parked || (slot.resident && slot.pins > 0));
    AFI_CHECK(slot.pins > 0 || (slot.in_policy && !slot.use_pending));
    AFI_CHECK(slot.bytes == slot.record->payload.bytes());
    held += slot.bytes;
    if (!slot.resident) continue;
    ++entries;
    resident += slot.bytes;
    tokens += slot.record->facts.tokens;
    const auto it = state.index.find(slot.key);
    AFI_CHECK(it != state.index.end() && *it == place);
  }
  AFI_CHECK(entries == state.index.size() && entries == state.stats.entries.value());
  AFI_CHECK(entries <= state.options.max_entries.value());
  AFI_CHECK(resident == state.stats.resident);
  AFI_CHECK(tokens == state.stats.tokens && tokens <= state.options.max_tokens);
  AFI_CHECK(held <= state.budget.used());
  AFI_CHECK(empty == state.free_places.size());
}

std::vector<std::pair<std::string_view, double>> seed_named_stats(const EncoderCacheStats& stats) {
  const auto hits = static_cast<double>(stats.hits + stats.covered);
  const double lookups = hits + static_cast<double>(stats.misses);
  return {{"visual_cache_hits", hits},
          {"visual_cache_misses", static_cast<double>(stats.misses)},
          {"visual_cache_hit_rate", lookups > 0 ? hits / lookups : 0},
          {"visual_vram_saved_bytes",
           static_cast<double>((stats.bytes_reused + stats.bytes_covered).value())},
          {"visual_cache_entries", static_cast<double>(stats.entries.value())}};
}

}  // namespace afterimage
