// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "afterimage/result.h"
#include "caches/prefix/captured_kv.h"
#include "caches/prefix/prefix_cache_state.h"
#include "caches/prefix/prefix_draft.h"

namespace afterimage {

bool PrefixCache::State::has_snapshot(NodeIndex node, std::uint32_t at) const {
  return std::ranges::any_of(entries.segment(node).snapshots,
                             [&](std::uint32_t s) { return entries.snapshot(s).at == at; });
}

std::uint64_t PrefixCache::State::new_ends(PrefixTree::Walk walk, std::uint32_t covered) const {
  if (covered <= walk.matched) return 0;
  if (walk.matched == 0) return 1;
  return entries.tree().end(walk.node) == walk.matched && entries.is_end(walk.node) ? 0 : 1;
}

namespace {

/// Memory taken over whole may be larger than what is needed of it by one part in so many.
constexpr std::uint64_t kWastedPart = 8;

bool is_worth_keeping(const LoadedKv& loaded, Bytes needed) {
  const Bytes size(loaded.memory->bytes().size());
  return size <= needed + Bytes(needed.value() / kWastedPart);
}

}  // namespace

void PrefixCache::Draft::add_rows(const KvLayout& layout, TokenCount from, TokenCount to,
                                  LoadedKv* loaded) {
  if (loaded != nullptr && is_worth_keeping(*loaded, row_payload_bytes(layout, to - from))) {
    pieces.push_back({.bytes = Bytes(loaded->memory->bytes().size()),
                      .at = loaded->first,
                      .rows = to - loaded->first,
                      .loaded = std::move(*loaded)});
    return;
  }
  while (from < to) {
    const TokenCount rows = std::min(TokenCount(kRowsPerPiece), to - from);
    pieces.push_back({.bytes = row_payload_bytes(layout, rows), .at = from, .rows = rows});
    from += rows;
  }
}

Result<PrefixCache::Draft> PrefixCache::State::draft(const NamespaceId& id, const KvLayout& layout,
                                                     const Sequence& sequence, const KvSlice& kv,
                                                     std::vector<LoadedKv> loaded) {
  AFI_TRY_VOID(check_captured(layout, sequence, kv));
  AFI_TRY_VOID(check_layout_of(id, layout));
  // Without rows, only positions with a snapshot belong in the tree.
  TokenCount covered = kv.end;
  if (!keeps_rows(layout)) {
    covered = kv.snapshots.empty() ? TokenCount(0) : kv.snapshots.back().at;
  }
  const Space* space = find(id);
  PrefixTree::Walk walk;
  if (space != nullptr) {
    walk = entries.tree().match(space->root, sequence, covered.value());
  }
  const TokenCount had(walk.matched);
  if (keeps_rows(layout) && had < kv.begin) {
    return fail(ErrorCode::kInvalidArgument,
                "the slice begins at row " + std::to_string(kv.begin.value()) +
                    ", but only the first " + std::to_string(had.value()) +
                    " tokens are cached: capture from there on");
  }
  const bool extends = walk.matched > 0;
  Draft draft(extends ? PrefixMatch(*this, hold(walk.node, {}), had) : PrefixMatch(TokenCount(0)));
  draft.covered = covered;
  draft.cost = kv.cost;
  draft.ends = new_ends(walk, covered.value());
  TokenCount rows_end = keeps_rows(layout) ? had : covered;
  for (LoadedKv& block : loaded) {
    const TokenCount end = std::min(block.first + block.count, covered);
    if (block.first > rows_end || end <= rows_end) continue;
    draft.add_rows(layout, rows_end, end, &block);
    rows_end = end;
  }
  draft.add_rows(layout, rows_end, covered, nullptr);
  for (std::size_t i = 0; i < kv.snapshots.size(); ++i) {
    const KvSnapshot& snapshot = kv.snapshots[i];
    const std::uint32_t at = snapshot.at.value();
    if (at <= had.value() && has_snapshot(node_at(walk.node, at), at)) continue;
    Draft::Part& part =
        draft.snapshots.emplace_back(Draft::Part{.bytes = snapshot_payload_bytes(layout, snapshot),
                                                 .at = snapshot.at,
                                                 .snapshot = i,
                                                 .serves_from = serves_from(layout, snapshot)});
    const auto whole = std::ranges::find_if(loaded, [&](const LoadedKv& one) {
      return one.count == TokenCount(0) && one.first == snapshot.at;
    });
    if (whole == loaded.end() || !is_worth_keeping(*whole, part.bytes)) continue;
    part.bytes = Bytes(whole->memory->bytes().size());
    part.loaded = std::move(*whole);
  }
  draft.copied_from = std::move(loaded);
  return draft;
}

Result<void> PrefixCache::State::reserve(Draft& draft) {
  const Bytes total = draft.bytes();
  const auto drop_reservations = [&] {
    for (Draft::Part& part : draft.pieces) part.reservation = Reservation();
    for (Draft::Part& part : draft.snapshots) part.reservation = Reservation();
  };
  const auto take = [&](std::vector<Draft::Part>& parts) {
    return std::ranges::all_of(parts, [&](Draft::Part& part) {
      auto reserved = budget.reserve(part.bytes);
      if (reserved.has_value()) part.reservation = std::move(*reserved);
      return reserved.has_value();
    });
  };
  while (true) {
    auto evicted = entries.evict_for(total, draft.ends, draft.new_tokens());
    if (!evicted.has_value()) {
      ++stats.refused;
      return evicted;
    }
    if (take(draft.pieces) && take(draft.snapshots)) return {};
    // Another cache took the space in between. Each round evicts something or fails.
    drop_reservations();
  }
}

Result<void> PrefixCache::State::fill(Draft& draft, const KvLayout& layout, const KvSlice& kv) {
  const auto take_over = [](Draft::Part& part) {
    LoadedKv& loaded = *part.loaded;
    part.payload = Payload::taken_over(std::move(loaded.memory), loaded.bytes,
                                       std::move(loaded.tensors), std::move(part.reservation));
  };
  for (Draft::Part& part : draft.pieces) {
    if (part.loaded.has_value()) {
      take_over(part);
      continue;
    }
    const PayloadTensors rows = row_tensors(layout, kv, part.at, part.rows);
    AFI_TRY(part.payload, Payload::copy_of(rows.views, std::move(part.reservation)));
  }
  for (Draft::Part& part : draft.snapshots) {
    if (part.loaded.has_value()) {
      take_over(part);
      continue;
    }
    const PayloadTensors snapshot = snapshot_tensors(layout, kv.snapshots[part.snapshot]);
    AFI_TRY(part.payload, Payload::copy_of(snapshot.views, std::move(part.reservation)));
  }
  return {};
}

Result<PrefixInsertion> PrefixCache::State::commit(Draft draft, const NamespaceId& id,
                                                   const KvLayout& layout, const Sequence& sequence,
                                                   PrefixMatch* from) {
  AFI_TRY_VOID(check_layout_of(id, layout));
  const std::uint32_t covered = draft.covered.value();
  const RequestFacts facts = from == nullptr ? RequestFacts() : from->facts();
  std::optional<SlotId> restored;
  if (from != nullptr && from->holds()) restored = from->hold().snapshot;
  if (draft.pieces.empty() && draft.snapshots.empty()) {
    if (draft.base.holds()) {
      entries.note_request(facts, {.node = draft.base.hold().node, .snapshot = restored});
      if (from != nullptr) from->mark_reported();
    }
    return PrefixInsertion{.had = draft.base.matched()};
  }
  const Space* space = find(id);
  PrefixTree::Walk walk;
  if (space != nullptr) walk = entries.tree().match(space->root, sequence, covered);
  if (TokenCount(walk.matched) < draft.base.matched()) {
    return fail(ErrorCode::kNotFound,
                "the cached prefix that the new KV extends was damaged and removed: compute the "
                "whole prompt");
  }
  PrefixInsertion done{.had = TokenCount(walk.matched)};
  // Others may have stored more since the draft: pin it against the eviction below.
  std::optional<PrefixMatch> base;
  if (walk.matched > 0) base.emplace(*this, hold(walk.node, {}), done.had);
  AFI_TRY_VOID(
      entries.evict_for(0_B, new_ends(walk, covered), covered - std::min(covered, walk.matched)));
  const Bytes before = entries.counts().resident;
  NodeIndex node = walk.matched > 0 ? walk.node : root_for(id, layout);
  if (covered > walk.matched) {
    if (walk.matched > 0 && walk.matched < entries.tree().end(node)) {
      node = entries.split(node, walk.matched, sequence);
    }
    std::vector<PrefixEntries::NewPiece> pieces;
    for (Draft::Part& part : draft.pieces) {
      pieces.push_back({.payload = *std::move(part.payload),
                        .first = part.at.value(),
                        .rows = part.rows.value()});
    }
    node = entries.add_segment(node, sequence, covered, std::move(pieces), draft.cost);
    if (node == kNoNode) {
      return fail(ErrorCode::kUnsupported,
                  "not cached: the 64-bit hashes of two media items collide");
    }
    done.added = TokenCount(covered - walk.matched);
  }
  for (Draft::Part& part : draft.snapshots) {
    const NodeIndex where = node_at(node, part.at.value());
    if (has_snapshot(where, part.at.value())) continue;
    entries.add_snapshot(where, part.at.value(), part.serves_from, *std::move(part.payload),
                         draft.cost);
    ++done.snapshots;
  }
  entries.note_addition(facts, node, restored);
  if (from != nullptr) from->mark_reported();
  ++stats.insertions;
  done.bytes = entries.counts().resident - before;
  return done;
}

Result<PrefixInsertion> PrefixCache::insert(const NamespaceId& id, const KvLayout& layout,
                                            const Sequence& sequence, const KvSlice& kv,
                                            PrefixMatch* from, std::vector<LoadedKv> loaded) {
  std::optional<Draft> draft;
  {
    const MutexLock lock(locked_->mutex);
    if (locked_->state.blocked) {
      ++locked_->state.stats.blocked;
      return fail(ErrorCode::kUnavailable, "admission is blocked: memory is short");
    }
    AFI_TRY(draft, locked_->state.draft(id, layout, sequence, kv, std::move(loaded)));
  }
  if (locked_->shared != nullptr) locked_->shared->make_room(draft->bytes());
  Result<void> ready;
  {
    const MutexLock lock(locked_->mutex);
    ready = locked_->state.reserve(*draft);
  }
  if (ready.has_value()) ready = State::fill(*draft, layout, kv);
  const MutexLock lock(locked_->mutex);
  Draft full = *std::exchange(draft, std::nullopt);
  AFI_TRY_VOID(ready);
  return locked_->state.commit(std::move(full), id, layout, sequence, from);
}

Bytes PrefixCache::Draft::bytes() const {
  Bytes total;
  for (const Part& part : pieces) total += part.bytes;
  for (const Part& part : snapshots) total += part.bytes;
  return total;
}

}  // namespace afterimage
