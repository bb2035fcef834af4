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

struct PrefixCache::State {
  State(PrefixCacheOptions chosen, MemoryBudget& shared)
      : budget(shared),
        owner_of(std::move(chosen.owner_of)),
        entries(shared, std::move(chosen.policy), chosen.max_sequences, chosen.max_tokens) {}

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
  [[nodiscard]] std::vector<const Payload*> payloads(const PrefixMatch& match) const;

  MemoryBudget& budget;
  std::function<EntryLabel(const NamespaceId&)> owner_of;
  PrefixEntries entries;
  boost::unordered_flat_map<NamespaceId, std::uint32_t, DigestHash> index;
  std::vector<Space> spaces;
  std::vector<std::uint32_t> free_spaces;
  std::size_t sweep_at = 16;
  PrefixLookup lookup;  // scratch, reused between look-ups
  PrefixCacheStats stats;
};

inline std::uint32_t size_of(const Sequence& sequence) {
  return static_cast<std::uint32_t>(sequence.tokens.size());
}

}  // namespace afterimage
