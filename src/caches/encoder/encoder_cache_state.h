// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "afterimage/encoder_cache.h"
#include "afterimage/eviction_policy.h"
#include "foundation/platform/huge_pages.h"
#include "foundation/platform/mutex.h"
#include "foundation/types/digest_hash.h"

namespace afterimage {

struct EncoderCache::State {
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

    void count_agent(AgentId agent);
    [[nodiscard]] EncoderEntryInfo info() const;
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

}  // namespace afterimage
