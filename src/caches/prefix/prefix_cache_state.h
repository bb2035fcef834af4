// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <vector>

#include "afterimage/prefix_cache.h"
#include "caches/prefix/prefix_draft.h"
#include "caches/prefix/prefix_entries.h"
#include "caches/prefix/prefix_lookup.h"
#include "foundation/platform/mutex.h"
#include "foundation/types/digest_hash.h"

namespace afterimage {

/// One namespace: its tree and layout.
struct Space {
  NamespaceId id;
  KvLayout layout;
  NodeIndex root = kNoNode;
  bool in_use = false;
  bool closed = false;  // erased; freed when the last match is dropped
};

/// The cache without its lock. It owns the pins that it takes itself, which are dropped under the
/// lock; those of matches are the PrefixCache's.
struct PrefixCache::State final : PrefixOwner {
  State(PrefixCacheOptions chosen, MemoryBudget& its_budget)
      : budget(its_budget),
        owner_of(std::move(chosen.owner_of)),
        entries(its_budget, std::move(chosen.policy), chosen.max_sequences, chosen.max_tokens) {}

  [[nodiscard]] const Space* find(const NamespaceId& id) const {
    const auto it = index.find(id);
    return it == index.end() ? nullptr : &spaces[it->second];
  }
  [[nodiscard]] const KvLayout& layout_of(NodeIndex node) const {
    return spaces[entries.space_of(node)].layout;
  }
  Result<void> check_layout_of(const NamespaceId& id, const KvLayout& layout) const;
  NodeIndex root_for(const NamespaceId& id, const KvLayout& layout);
  void sweep();
  void close(std::uint32_t space);

  [[nodiscard]] bool has_snapshot(NodeIndex node, std::uint32_t at) const;
  [[nodiscard]] NodeIndex node_at(NodeIndex node, std::uint32_t at) const;
  PrefixOwner::Hold hold(NodeIndex node, std::optional<std::uint32_t> snapshot);
  [[nodiscard]] std::uint64_t new_ends(PrefixTree::Walk walk, std::uint32_t covered) const;
  void release(const PrefixOwner::Hold& hold, const RequestFacts* request) override;
  /// Calls `evict_one` until it finds nothing to evict or enough is freed; returns the bytes freed.
  template <typename Enough, typename EvictOne>
  Bytes evict_until(const Enough& enough, const EvictOne& evict_one) {
    const Bytes before = entries.counts().resident;
    const auto freed = [&] { return before - entries.counts().resident; };
    while (!enough(freed()) && evict_one()) continue;
    return freed();
  }
  Bytes evict_bytes(Bytes wanted) {
    return evict_until([&](Bytes freed) { return freed >= wanted; },
                       [&] { return entries.evict_one(); });
  }
  Bytes trim_to_budget() {
    return evict_until([&](Bytes) { return budget.used() <= budget.capacity(); },
                       [&] { return entries.evict_one(); });
  }
  Bytes evict_idle(Duration since) {
    return evict_until([](Bytes) { return false; }, [&] { return entries.evict_idle_one(since); });
  }
  void discard_damaged(const PrefixMatch& match, const Payload* payload);
  [[nodiscard]] PrefixExplanation explain(const NamespaceId& id, const Sequence& prompt) const;
  void check_invariants() const;

  // insert() in four steps, because bytes are copied without the lock, and other caches free memory
  // in between. Step 1: determine what is missing.
  [[nodiscard]] Result<Draft> draft(const NamespaceId& space, const KvLayout& layout,
                                    const Sequence& sequence, const KvSlice& kv,
                                    std::vector<LoadedKv> loaded);
  /// Step 2: reserve memory for it, evicting if need be.
  [[nodiscard]] Result<void> reserve(Draft& draft);
  /// Step 3: copy the bytes. Touches no cache state.
  static Result<void> fill(Draft& draft, const KvLayout& layout, const KvSlice& kv);
  /// Step 4: add the entries.
  Result<PrefixInsertion> commit(Draft draft, const NamespaceId& space, const KvLayout& layout,
                                 const Sequence& sequence, PrefixMatch* from);

  MemoryBudget& budget;
  std::function<EntryLabel(const NamespaceId&)> owner_of;
  PrefixEntries entries;
  boost::unordered_flat_map<NamespaceId, std::uint32_t, DigestHash> index;
  std::vector<Space> spaces;
  std::vector<std::uint32_t> free_spaces;
  std::size_t sweep_at = 16;
  PrefixLookup lookup;  // scratch, reused between look-ups
  PrefixCacheStats stats;
  bool blocked = false;
};

struct PrefixCache::Locked {
  Locked(PrefixCacheOptions options, MemoryBudget& budget)
      : shared(options.shared), state(std::move(options), budget) {}

  mutable Mutex mutex;
  SharedBudget* const shared;
  State state AFI_GUARDED_BY(mutex);
};

inline std::uint32_t size_of(const Sequence& sequence) {
  return static_cast<std::uint32_t>(sequence.tokens.size());
}

}  // namespace afterimage
