// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/prefix_cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include "afterimage/eviction_policy.h"
#include "afterimage/result.h"
#include "caches/prefix/captured_kv.h"
#include "caches/prefix/prefix_cache_state.h"
#include "caches/prefix/prefix_draft.h"
#include "foundation/types/digest_hash.h"

namespace afterimage {
Result<void> PrefixCache::State::check_layout_of(const NamespaceId& id,
                                                 const KvLayout& layout) const {
  const Space* space = find(id);
  if (space == nullptr || space->layout == layout) return {};
  if (entries.segments_in(static_cast<std::uint32_t>(space - spaces.data())) == 0) return {};
  return fail(ErrorCode::kInvalidArgument,
              "namespace " + id.hex() +
                  " holds KV of another layout: erase it first, or use another namespace");
}

NodeIndex PrefixCache::State::root_for(const NamespaceId& id, const KvLayout& layout) {
  if (const auto it = index.find(id); it != index.end()) {
    spaces[it->second].layout = layout;  // unchanged unless the namespace is empty
    return spaces[it->second].root;
  }
  if (index.size() >= sweep_at) sweep();
  if (free_spaces.empty()) {
    free_spaces.push_back(static_cast<std::uint32_t>(spaces.size()));
    spaces.emplace_back();
  }
  const std::uint32_t place = free_spaces.back();
  free_spaces.pop_back();
  const NodeIndex root =
      entries.add_root(place, DigestHash()(id), owner_of != nullptr ? owner_of(id) : EntryLabel());
  spaces[place] = {.id = id, .layout = layout, .root = root, .in_use = true};
  index.emplace(id, place);
  return spaces[place].root;
}

// Drops namespaces that evictions have emptied, once they could outnumber those in use.
void PrefixCache::State::sweep() {
  for (std::uint32_t i = 0; i < spaces.size(); ++i) {
    if (spaces[i].in_use && !spaces[i].closed && entries.segments_in(i) == 0) close(i);
  }
  sweep_at = std::max<std::size_t>(16, 2 * index.size());
}

void PrefixCache::State::close(std::uint32_t place) {
  Space& space = spaces[place];
  if (!space.closed) {
    index.erase(space.id);
    space.closed = true;
    NodeIndex next = entries.tree().first_child(space.root);
    while (next != kNoNode) {
      const NodeIndex child = std::exchange(next, entries.tree().next_sibling(next));
      if (!entries.segment(child).doomed) entries.doom(child);
    }
  }
  if (entries.segments_in(place) > 0) return;
  entries.remove_root(space.root);
  space = Space{};
  free_spaces.push_back(place);
}

/// The node at or above `node` whose range (start, end] contains `at`.
NodeIndex PrefixCache::State::node_at(NodeIndex node, std::uint32_t at) const {
  while (entries.tree().start(node) >= at) node = entries.tree().parent(node);
  return node;
}

PrefixOwner::Hold PrefixCache::State::hold(NodeIndex node, std::optional<std::uint32_t> snapshot) {
  PrefixOwner::Hold hold{.node = entries.slot_of(node), .snapshot = std::nullopt};
  if (snapshot.has_value()) hold.snapshot = entries.slot_of_snapshot(*snapshot);
  entries.pin(hold);
  return hold;
}

PrefixCache::PrefixCache(std::unique_ptr<Locked> locked) : locked_(std::move(locked)) {}
PrefixCache::~PrefixCache() = default;

Result<std::unique_ptr<PrefixCache>> PrefixCache::create(PrefixCacheOptions options,
                                                         MemoryBudget& budget) {
  if (options.max_sequences.value() == 0) {
    return fail(ErrorCode::kInvalidArgument, "max_sequences is 0; a prefix cache holds at least 1");
  }
  if (options.max_tokens == 0) {
    return fail(ErrorCode::kInvalidArgument, "max_tokens is 0; a prefix cache holds at least 1");
  }
  if (options.policy == nullptr) {
    AFI_TRY(options.policy, make_policy(policy_names().front()));
  }
  return std::unique_ptr<PrefixCache>(
      new PrefixCache(std::make_unique<Locked>(std::move(options), budget)));
}

Result<PrefixMatch> PrefixCache::match(const NamespaceId& id, const Sequence& prompt,
                                       const RequestFacts& facts) {
  AFI_TRY_VOID(check_prompt(prompt));
  const MutexLock lock(locked_->mutex);
  State& state = locked_->state;
  const Space* space = state.find(id);
  PrefixTree::Walk walk;
  PrefixLookup::Found found;
  if (space != nullptr) {
    walk = state.entries.tree().match(space->root, prompt, size_of(prompt));
    state.lookup.collect(state.entries, space->layout, walk);
    found = state.lookup.best(state.entries, space->layout,
                              {.length = TokenCount(size_of(prompt)),
                               .matched = TokenCount(walk.matched),
                               .spans = prompt.spans});
  }
  if (found.resume == TokenCount(0)) {
    ++state.stats.misses;
    return PrefixMatch(TokenCount(walk.matched), facts);
  }
  NodeIndex node = state.node_at(walk.node, found.resume.value());
  if (found.snapshot.has_value()) {
    const NodeIndex other = state.entries.snapshot(*found.snapshot).node;
    if (state.entries.tree().start(other) > state.entries.tree().start(node)) node = other;
  }
  ++state.stats.hits;
  state.stats.tokens_reused += found.resume.value();
  const PrefixOwner::Hold hold = state.hold(node, found.snapshot);
  return PrefixMatch(*this, hold, found.resume, TokenCount(walk.matched), facts);
}

KvSlice PrefixCache::kv(const PrefixMatch& match) const {
  AFI_CHECK(match.holds());
  const MutexLock lock(locked_->mutex);
  const PrefixEntries& entries = locked_->state.entries;
  const NodeIndex last = PrefixEntries::node_of(match.hold().node);
  const KvLayout& layout = locked_->state.layout_of(last);
  KvSlice kv{.end = match.resume(), .rows = std::vector<std::vector<KvRows>>(layout.groups.size())};
  for (NodeIndex n = last; n != kNoNode; n = entries.tree().parent(n)) {
    std::uint32_t at = entries.tree().end(n);
    const auto& slices = entries.segment(n).slices;
    for (auto slice = slices.rbegin(); slice != slices.rend(); ++slice) {
      at -= slice->rows;
      if (at >= match.resume().value()) continue;
      const TokenCount count = std::min(TokenCount(slice->rows), match.resume() - TokenCount(at));
      std::size_t tensor = 0;
      for (std::size_t g = 0; g < layout.groups.size(); ++g) {
        if (layout.groups[g].kind != KvKind::kFull) continue;
        const std::uint64_t row = layout.groups[g].row_bytes.value();
        const auto bytes = entries.piece(slice->piece).tensors()[tensor++].bytes();
        kv.rows[g].push_back({.first = TokenCount(at),
                              .count = count,
                              .bytes = bytes.subspan(slice->first * row, count.value() * row)});
      }
    }
  }
  for (std::vector<KvRows>& rows : kv.rows) std::ranges::reverse(rows);
  if (!match.hold().snapshot.has_value()) return kv;
  const auto& stored = entries.snapshot(PrefixEntries::snapshot_of(*match.hold().snapshot));
  KvSnapshot& snapshot = kv.snapshots.emplace_back();
  snapshot = {.at = kv.end, .groups = std::vector<std::vector<KvRows>>(layout.groups.size())};
  std::size_t tensor = 0;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const LayerGroup& group = layout.groups[g];
    if (group.kind != KvKind::kSliding && group.kind != KvKind::kRecurrent) continue;
    const KvRows rows =
        rows_before(TokenCount(stored.at), group, stored.payload->tensors()[tensor++].bytes());
    snapshot.groups[g] = group.kind == KvKind::kRecurrent
                             ? std::vector{rows}
                             : rows_between({&rows, 1}, sub_sat(kv.end, group.window), kv.end);
  }
  return kv;
}

std::vector<const Payload*> PrefixCache::payloads(const PrefixMatch& match) const {
  std::vector<const Payload*> all;
  if (!match.holds()) return all;
  const MutexLock lock(locked_->mutex);
  const PrefixEntries& entries = locked_->state.entries;
  if (match.hold().snapshot.has_value()) {
    all.push_back(&*entries.snapshot(PrefixEntries::snapshot_of(*match.hold().snapshot)).payload);
  }
  const NodeIndex last = PrefixEntries::node_of(match.hold().node);
  for (NodeIndex n = last; n != kNoNode; n = entries.tree().parent(n)) {
    std::uint32_t at = entries.tree().start(n);
    for (const PrefixEntries::Slice& slice : entries.segment(n).slices) {
      if (at < match.resume().value()) all.push_back(&entries.piece(slice.piece));
      at += slice.rows;
    }
  }
  return all;
}

void PrefixCache::discard_damaged(const PrefixMatch& match, const Payload* payload) {
  AFI_CHECK(match.holds());
  const MutexLock lock(locked_->mutex);
  locked_->state.discard_damaged(match, payload);
}

void PrefixCache::State::discard_damaged(const PrefixMatch& match, const Payload* payload) {
  ++stats.damaged;
  --stats.hits;
  ++stats.misses;
  stats.tokens_reused -= match.resume().value();
  // The topmost node that reads it: a split piece is read by two.
  NodeIndex damaged = kNoNode;
  const NodeIndex last = PrefixEntries::node_of(match.hold().node);
  for (NodeIndex n = last; n != kNoNode; n = entries.tree().parent(n)) {
    const PrefixEntries::Segment& segment = entries.segment(n);
    const bool reads = std::ranges::any_of(segment.slices,
                                           [&](const PrefixEntries::Slice& slice) {
                                             return &entries.piece(slice.piece) == payload;
                                           }) ||
                       std::ranges::any_of(segment.snapshots, [&](std::uint32_t s) {
                         return &*entries.snapshot(s).payload == payload;
                       });
    if (reads) damaged = n;
  }
  if (damaged != kNoNode && !entries.segment(damaged).doomed) entries.doom(damaged);
}

void PrefixCache::State::release(const PrefixOwner::Hold& hold, const RequestFacts* request) {
  if (request != nullptr) entries.note_request(*request, hold);
  const std::uint32_t space = entries.space_of(PrefixEntries::node_of(hold.node));
  entries.unpin(hold);
  if (spaces[space].closed) close(space);
}

void PrefixCache::release(const PrefixOwner::Hold& hold, const RequestFacts* request) {
  const MutexLock lock(locked_->mutex);
  locked_->state.release(hold, request);
}

bool PrefixCache::erase(const NamespaceId& id) {
  const MutexLock lock(locked_->mutex);
  State& state = locked_->state;
  const auto it = state.index.find(id);
  if (it == state.index.end()) return false;
  state.close(it->second);
  return true;
}

std::uint64_t PrefixCache::erase_media(const ContentDigest& media) {
  const MutexLock lock(locked_->mutex);
  State& state = locked_->state;
  const PrefixEntries& entries = state.entries;
  const std::vector<bool> partly_evicted = entries.pieces_with_evicted_rows();
  const auto is_about = [&](NodeIndex node) {
    return std::ranges::any_of(entries.tree().spans(node),
                               [&](const MediaSpan& span) { return span.content == media; }) ||
           // The rows of a segment that was evicted may still lie beside those of another.
           std::ranges::any_of(
               entries.segment(node).slices,
               [&](const PrefixEntries::Slice& slice) { return partly_evicted[slice.piece]; });
  };
  std::vector<NodeIndex> tops;
  for (const Space& space : state.spaces) {
    if (!space.in_use || space.closed) continue;
    entries.walk_below(space.root, [&](NodeIndex node) {
      if (!is_about(node)) return true;
      tops.push_back(entries.first_in_piece(node));
      return false;
    });
  }
  std::uint64_t erased = 0;
  for (const NodeIndex top : tops) {
    if (!entries.segment(top).live || entries.segment(top).doomed) continue;
    erased += entries.tokens_from(top);
    state.entries.doom(top);
  }
  return erased;
}

std::uint64_t PrefixCache::erase_spaces(const std::function<bool(const NamespaceId&)>& chosen) {
  const MutexLock lock(locked_->mutex);
  State& state = locked_->state;
  std::uint64_t erased = 0;
  for (std::uint32_t i = 0; i < state.spaces.size(); ++i) {
    const Space& space = state.spaces[i];
    if (!space.in_use || space.closed || !chosen(space.id)) continue;
    erased += state.entries.tokens_from(space.root);
    state.close(i);
  }
  return erased;
}

void PrefixCache::clear() {
  const MutexLock lock(locked_->mutex);
  State& state = locked_->state;
  for (std::uint32_t i = 0; i < state.spaces.size(); ++i) {
    if (state.spaces[i].in_use) state.close(i);
  }
}

std::optional<EvictionCandidate> PrefixCache::eviction_candidate() {
  const MutexLock lock(locked_->mutex);
  return locked_->state.entries.eviction_candidate();
}

Bytes PrefixCache::evict_bytes(Bytes wanted) {
  const MutexLock lock(locked_->mutex);
  return locked_->state.evict_bytes(wanted);
}

Bytes PrefixCache::trim_to_budget() {
  const MutexLock lock(locked_->mutex);
  return locked_->state.trim_to_budget();
}

Bytes PrefixCache::evict_idle(Duration since) {
  const MutexLock lock(locked_->mutex);
  return locked_->state.evict_idle(since);
}

void PrefixCache::block_admission(bool blocked) {
  const MutexLock lock(locked_->mutex);
  locked_->state.blocked = blocked;
}

bool PrefixCache::is_blocked() const {
  const MutexLock lock(locked_->mutex);
  return locked_->state.blocked;
}

PrefixCacheStats PrefixCache::stats() const {
  const MutexLock lock(locked_->mutex);
  PrefixCacheStats stats = locked_->state.stats;
  const PrefixEntries::Counts& counts = locked_->state.entries.counts();
  stats.evictions = counts.evictions;
  stats.sequences = EntryCount(counts.ends);
  stats.segments = EntryCount(counts.segments);
  stats.snapshots = EntryCount(counts.snapshots);
  stats.tokens = counts.tokens;
  stats.resident = counts.resident;
  return stats;
}

Bytes PrefixCache::index_bytes() const {
  const MutexLock lock(locked_->mutex);
  return Bytes(locked_->state.entries.tree().bytes());
}

void PrefixCache::check_invariants() const {
  const MutexLock lock(locked_->mutex);
  locked_->state.check_invariants();
}

void PrefixCache::State::check_invariants() const {
  entries.check_invariants();
  std::uint64_t segments = 0;
  std::size_t open = 0;
  for (std::uint32_t i = 0; i < spaces.size(); ++i) {
    const Space& space = spaces[i];
    if (!space.in_use) continue;
    segments += entries.segments_in(i);
    AFI_CHECK(!space.closed || entries.segments_in(i) > 0);
    if (space.closed) continue;
    ++open;
    const auto it = index.find(space.id);
    AFI_CHECK(it != index.end() && it->second == i);
  }
  AFI_CHECK(segments == entries.counts().segments && open == index.size());
}

}  // namespace afterimage
