// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/prefix/prefix_entries.h"

#include <algorithm>
#include <string>
#include <utility>

#include "afterimage/result.h"
#include "caches/prefix/policy_keys.h"

namespace afterimage {

PrefixEntries::PrefixEntries(MemoryBudget& budget, std::unique_ptr<EvictionPolicy> policy,
                             EntryCount max_ends, std::uint64_t max_tokens)
    : budget_(budget),
      policy_(std::move(policy)),
      max_ends_(max_ends.value()),
      max_tokens_(max_tokens) {}

PrefixEntries::~PrefixEntries() {
  for (NodeIndex n = 0; n < tree_.places(); ++n) AFI_CHECK(tree_.use(n).pins == 0);
}

SlotId PrefixEntries::slot_of(NodeIndex node) const {
  return {.index = 2 * node, .generation = tree_.use(node).generation};
}
SlotId PrefixEntries::slot_of_snapshot(std::uint32_t s) const {
  return {.index = 2 * s + 1, .generation = snapshots_[s].generation};
}

bool PrefixEntries::is_end(NodeIndex node) const {
  return !segments_[node].root && tree_.children(node) == 0;
}

std::optional<std::uint32_t> PrefixEntries::window_below(NodeIndex node) const {
  const SlotId slot = segments_[node].window_below;
  if (!is_snapshot(slot)) return std::nullopt;
  const Snapshot& snapshot = snapshots_[snapshot_of(slot)];
  const bool there = snapshot.payload != nullptr && snapshot.generation == slot.generation &&
                     !segments_[snapshot.node].doomed;
  return there ? std::optional(snapshot_of(slot)) : std::nullopt;
}

PrefixEntries::Segment& PrefixEntries::place_for(NodeIndex node) {
  if (node >= segments_.size()) segments_.resize(node + 1);
  Segment& segment = segments_[node];
  AFI_CHECK(!segment.live);
  segment.live = true;
  return segment;
}

NodeIndex PrefixEntries::add_root(std::uint32_t space, std::uint64_t chain, EntryLabel owner) {
  const NodeIndex root = tree_.add_root();
  Segment& segment = place_for(root);
  segment.root = true;
  segment.chain = chain;
  tree_.use(root).space = space;
  if (space >= in_space_.size()) {
    in_space_.resize(space + 1);
    owners_.resize(space + 1);
  }
  owners_[space] = owner;
  return root;
}

void PrefixEntries::remove_root(NodeIndex root) {
  Segment& segment = segments_[root];
  AFI_CHECK(segment.root && tree_.use(root).pins == 0);
  segment = Segment{};
  tree_.remove(root);
}

std::uint32_t PrefixEntries::place_piece(Payload payload, std::uint32_t rows) {
  if (free_pieces_.empty()) {
    free_pieces_.push_back(static_cast<std::uint32_t>(pieces_.size()));
    pieces_.emplace_back();
  }
  const std::uint32_t p = free_pieces_.back();
  free_pieces_.pop_back();
  counts_.resident += payload.bytes();
  pieces_[p].payload = std::make_unique<Payload>(std::move(payload));
  pieces_[p].rows = rows;
  return p;
}

// Of a piece that several nodes share, each is charged its share of rows; the shares add up.
EntryFacts PrefixEntries::facts_of(NodeIndex node) const {
  const Segment& segment = segments_[node];
  std::uint64_t bytes = 0;
  for (const Slice& slice : segment.slices) {
    bytes += piece(slice.piece).bytes().value() * slice.rows / pieces_[slice.piece].rows;
  }
  const std::uint32_t end = tree_.end(node);
  const bool has_key = end - end % kKeyStep > tree_.start(node);
  return {.bytes = Bytes(bytes),
          .cost = segment.cost,
          .key = has_key ? segment.chain : 0,
          .owner = owners_[space_of(node)]};
}

NodeIndex PrefixEntries::add_segment(NodeIndex parent, const Sequence& sequence, std::uint32_t end,
                                     std::vector<NewPiece> pieces, Duration cost) {
  report_uses();
  const std::uint32_t start = tree_.end(parent);
  const bool extends = is_end(parent);
  const NodeIndex node = tree_.add_leaf(parent, sequence, end);
  if (node == kNoNode) return kNoNode;
  Segment& segment = place_for(node);
  const std::uint32_t space = tree_.use(node).space = tree_.use(parent).space;
  segment.cost = cost;
  segment.chain = extend_keys(segments_[parent].chain, sequence, start, end, new_keys_);
  for (NewPiece& piece : pieces) {
    if (piece.first + piece.rows <= start) continue;  // stored by others meanwhile
    const std::uint32_t first = std::max(start, piece.first) - piece.first;
    const std::uint32_t p = place_piece(std::move(piece.payload), piece.rows);
    pieces_[p].refs = 1;
    segment.slices.push_back({.piece = p, .first = first, .rows = piece.rows - first});
  }
  ++in_space_[space];
  ++counts_.segments;
  counts_.tokens += end - start;
  if (!extends) ++counts_.ends;
  return node;
}

NodeIndex PrefixEntries::split(NodeIndex lower, std::uint32_t at, const Sequence& sequence) {
  report_uses();
  const NodeIndex upper = tree_.split(lower, at);
  Segment& above = place_for(upper);
  Segment& below = segments_[lower];
  const std::uint32_t space = tree_.use(upper).space = tree_.use(lower).space;
  above.window_below = below.window_below;
  above.chain = extend_keys(segments_[tree_.parent(upper)].chain, sequence, tree_.start(upper), at,
                            new_keys_);
  const std::uint32_t length = tree_.end(lower) - tree_.start(upper);
  above.cost = below.cost * (at - tree_.start(upper)) / length;
  below.cost -= above.cost;
  const auto first_below =
      std::ranges::find_if(below.snapshots, [&](std::uint32_t s) { return snapshots_[s].at > at; });
  above.snapshots.assign(below.snapshots.begin(), first_below);
  below.snapshots.erase(below.snapshots.begin(), first_below);
  for (const std::uint32_t s : above.snapshots) snapshots_[s].node = upper;
  std::uint32_t left = at - tree_.start(upper);
  std::vector<Slice> rest;
  for (const Slice& slice : below.slices) {
    const std::uint32_t upper_rows = std::min(left, slice.rows);
    left -= upper_rows;
    if (upper_rows > 0) {
      above.slices.push_back({.piece = slice.piece, .first = slice.first, .rows = upper_rows});
    }
    if (upper_rows < slice.rows) {
      rest.push_back({.piece = slice.piece,
                      .first = slice.first + upper_rows,
                      .rows = slice.rows - upper_rows});
      if (upper_rows > 0) ++pieces_[slice.piece].refs;
    }
  }
  below.slices = std::move(rest);
  above.reported = true;
  policy_->split(slot_of(lower), facts_of(lower), slot_of(upper), facts_of(upper));
  ++in_space_[space];
  ++counts_.segments;
  return upper;
}

void PrefixEntries::add_snapshot(NodeIndex node, std::uint32_t at, std::uint32_t serves_from,
                                 Payload payload, Duration cost) {
  report_uses();
  AFI_CHECK(tree_.start(node) < at && at <= tree_.end(node));
  if (free_snapshots_.empty()) {
    free_snapshots_.push_back(static_cast<std::uint32_t>(snapshots_.size()));
    snapshots_.emplace_back();
  }
  const std::uint32_t s = free_snapshots_.back();
  free_snapshots_.pop_back();
  Snapshot& snapshot = snapshots_[s];
  snapshot.node = node;
  snapshot.at = at;
  snapshot.serves_from = serves_from;
  counts_.resident += payload.bytes();
  ++counts_.snapshots;
  snapshot.cost = cost;
  snapshot.payload = std::make_unique<Payload>(std::move(payload));
  std::vector<std::uint32_t>& all = segments_[node].snapshots;
  all.insert(
      std::ranges::upper_bound(all, at, {}, [&](auto other) { return snapshots_[other].at; }), s);
  if (serves_from > 0) return;
  // The walk is at most as deep as the window is long.
  for (NodeIndex n = node; n != kNoNode; n = tree_.parent(n)) {
    segments_[n].window_below = slot_of_snapshot(s);
  }
}

void PrefixEntries::pin(const PrefixOwner::Hold& hold) {
  ++tree_.use(node_of(hold.node)).pins;
  if (hold.snapshot.has_value()) ++snapshots_[snapshot_of(*hold.snapshot)].pins;
}

void PrefixEntries::unpin(const PrefixOwner::Hold& hold) {
  const NodeIndex node = node_of(hold.node);
  NodeUse& use = tree_.use(node);
  AFI_CHECK(use.generation == hold.node.generation && use.pins > 0);
  if (hold.snapshot.has_value()) {
    Snapshot& snapshot = snapshots_[snapshot_of(*hold.snapshot)];
    AFI_CHECK(snapshot.generation == hold.snapshot->generation && snapshot.pins > 0);
    if (--snapshot.pins == 0 && snapshot.parked) set_parked(*hold.snapshot, false);
  }
  if (--use.pins > 0) return;
  if (use.parked && tree_.children(node) == 0) set_parked(hold.node, false);
  if (use.prune_later) prune(node);
}

void PrefixEntries::note_request(const RequestFacts& facts, const PrefixOwner::Hold& used) {
  if (requests_ == pending_requests_.size()) report_uses();
  pending_requests_[requests_++] = {.facts = facts, .first_use = uses_};
  if (used.snapshot.has_value() &&
      !segments_[snapshots_[snapshot_of(*used.snapshot)].node].doomed) {
    touch(*used.snapshot);
  }
  // Upwards, so that no node is ever less recently used than one below it.
  for (NodeIndex n = node_of(used.node); tree_.parent(n) != kNoNode; n = tree_.parent(n)) {
    if (!segments_[n].doomed) touch(slot_of(n));
  }
}

void PrefixEntries::note_addition(const RequestFacts& facts, NodeIndex node,
                                  const std::optional<SlotId>& restored) {
  report_uses();
  policy_->begin_request(facts);
  for (NodeIndex n = node; tree_.parent(n) != kNoNode; n = tree_.parent(n)) {
    Segment& segment = segments_[n];
    AFI_CHECK(!segment.doomed);
    for (std::size_t i = segment.snapshots.size(); i-- > 0;) {
      Snapshot& snapshot = snapshots_[segment.snapshots[i]];
      const SlotId slot = slot_of_snapshot(segment.snapshots[i]);
      if (!std::exchange(snapshot.reported, true)) {
        policy_->insert(slot, {.bytes = snapshot.payload->bytes(),
                               .cost = snapshot.cost,
                               .owner = owners_[space_of(n)]});
      } else if (slot == restored) {
        policy_->touch(slot);
      }
    }
    if (std::exchange(segment.reported, true)) {
      policy_->touch(slot_of(n));
      continue;
    }
    EntryFacts entry = facts_of(n);
    if (!new_keys_.empty()) entry.contains = std::span(new_keys_).subspan(1);
    policy_->insert(slot_of(n), entry);
  }
}

void PrefixEntries::touch(SlotId slot) {
  used_[uses_++] = slot;
  if (uses_ == used_.size()) report_uses();
}

void PrefixEntries::report_uses() {
  std::size_t request = 0;
  for (std::size_t i = 0; i < uses_; ++i) {
    for (; request < requests_ && pending_requests_[request].first_use == i; ++request) {
      policy_->begin_request(pending_requests_[request].facts);
    }
    policy_->touch(used_[i]);
  }
  // The last request has used nothing yet; more uses may follow.
  for (; request < requests_; ++request) policy_->begin_request(pending_requests_[request].facts);
  requests_ = 0;
  uses_ = 0;
}

void PrefixEntries::remove_from_policy(SlotId slot, RemovalReason why) {
  report_uses();
  policy_->erase(slot, why);
}

void PrefixEntries::remove_snapshot(std::uint32_t s) {
  Snapshot& snapshot = snapshots_[s];
  AFI_CHECK(snapshot.payload != nullptr && snapshot.pins == 0);
  Segment& segment = segments_[snapshot.node];
  if (!segment.doomed) remove_from_policy(slot_of_snapshot(s), RemovalReason::kEvicted);
  std::erase(segment.snapshots, s);
  counts_.resident -= snapshot.payload->bytes();
  --counts_.snapshots;
  const std::uint32_t next_generation = snapshot.generation + 1;
  snapshot = Snapshot{};
  snapshot.generation = next_generation;
  free_snapshots_.push_back(s);
}

void PrefixEntries::remove_segment(NodeIndex node) {
  Segment& segment = segments_[node];
  AFI_CHECK(segment.live && !segment.root);
  AFI_CHECK(tree_.use(node).pins == 0 && tree_.children(node) == 0);
  while (!segment.snapshots.empty()) remove_snapshot(segment.snapshots.back());
  if (!segment.doomed) remove_from_policy(slot_of(node), RemovalReason::kEvicted);
  for (const Slice& slice : segment.slices) {
    Piece& piece = pieces_[slice.piece];
    if (--piece.refs > 0) continue;
    counts_.resident -= piece.payload->bytes();
    piece.payload.reset();
    free_pieces_.push_back(slice.piece);
  }
  --counts_.segments;
  --in_space_[tree_.use(node).space];
  counts_.tokens -= tree_.end(node) - tree_.start(node);
  const NodeIndex parent = tree_.parent(node);
  if (!segment.doomed) --counts_.ends;
  segment = Segment{};
  tree_.remove(node);
  if (parent == kNoNode || segments_[parent].doomed || !is_end(parent)) return;
  ++counts_.ends;
  if (tree_.use(parent).pins == 0) set_parked(slot_of(parent), false);
}

// Removes empty leaves, and doomed leaves without pins, upwards as far as there are any.
void PrefixEntries::prune(NodeIndex node) {
  while (node != kNoNode && node < segments_.size()) {
    const Segment& segment = segments_[node];
    if (!segment.live || segment.root || tree_.children(node) > 0) return;
    if (!segment.doomed && !(segment.slices.empty() && segment.snapshots.empty())) return;
    if (tree_.use(node).pins > 0) {
      tree_.use(node).prune_later = true;
      return;
    }
    const NodeIndex parent = tree_.parent(node);
    remove_segment(node);
    node = parent;
  }
}

void PrefixEntries::doom(NodeIndex top) {
  AFI_CHECK(!segments_[top].root && !segments_[top].doomed);
  std::vector<NodeIndex> below = {top};
  for (std::size_t i = 0; i < below.size(); ++i) {
    const NodeIndex node = below[i];
    if (is_end(node)) --counts_.ends;
    remove_from_policy(slot_of(node), RemovalReason::kErased);
    for (const std::uint32_t s : segments_[node].snapshots) {
      remove_from_policy(slot_of_snapshot(s), RemovalReason::kErased);
      snapshots_[s].parked = false;
    }
    segments_[node].doomed = true;
    tree_.use(node).parked = false;
    for (NodeIndex c = tree_.first_child(node); c != kNoNode; c = tree_.next_sibling(c)) {
      if (!segments_[c].doomed) below.push_back(c);
    }
  }
  tree_.hide(top);
  for (std::size_t i = below.size(); i-- > 0;) prune(below[i]);
}

void PrefixEntries::walk_below(NodeIndex top, const std::function<bool(NodeIndex)>& visit) const {
  std::vector<NodeIndex> below = {top};
  while (!below.empty()) {
    const NodeIndex node = below.back();
    below.pop_back();
    for (NodeIndex c = tree_.first_child(node); c != kNoNode; c = tree_.next_sibling(c)) {
      if (!segments_[c].doomed && visit(c)) below.push_back(c);
    }
  }
}

NodeIndex PrefixEntries::first_in_piece(NodeIndex node) const {
  for (NodeIndex above = tree_.parent(node); !segments_[above].root; above = tree_.parent(node)) {
    const std::vector<Slice>& upper = segments_[above].slices;
    const std::vector<Slice>& lower = segments_[node].slices;
    if (upper.empty() || lower.empty() || upper.back().piece != lower.front().piece) break;
    node = above;
  }
  return node;
}

std::vector<bool> PrefixEntries::pieces_with_evicted_rows() const {
  std::vector<std::uint64_t> used(pieces_.size(), 0);
  for (const Segment& segment : segments_) {
    for (const Slice& slice : segment.slices) used[slice.piece] += slice.rows;
  }
  std::vector<bool> partly(pieces_.size());
  for (std::size_t p = 0; p < pieces_.size(); ++p) partly[p] = used[p] < pieces_[p].rows;
  return partly;
}

std::uint64_t PrefixEntries::tokens_from(NodeIndex top) const {
  std::uint64_t tokens = segments_[top].root ? 0 : tree_.end(top) - tree_.start(top);
  walk_below(top, [&](NodeIndex node) {
    tokens += tree_.end(node) - tree_.start(node);
    return true;
  });
  return tokens;
}

void PrefixEntries::check_invariants() const {
  tree_.check_invariants();
  Counts found;
  std::vector<std::uint32_t> refs(pieces_.size(), 0);
  for (NodeIndex n = 0; n < segments_.size(); ++n) {
    const Segment& segment = segments_[n];
    if (!segment.live) {
      AFI_CHECK(segment.slices.empty() && segment.snapshots.empty());
      AFI_CHECK(n >= tree_.places() || tree_.use(n).pins == 0);
      continue;
    }
    const NodeUse& use = tree_.use(n);
    AFI_CHECK(segment.chosen_children == 0);
    if (segment.root) continue;
    ++found.segments;
    found.tokens += tree_.end(n) - tree_.start(n);
    if (!segment.doomed && is_end(n)) ++found.ends;
    AFI_CHECK(segment.reported);
    AFI_CHECK(!use.parked || use.pins > 0 || tree_.children(n) > 0);
    AFI_CHECK(!segment.doomed || use.prune_later || tree_.children(n) > 0);
    std::uint32_t rows = 0;
    for (const Slice& slice : segment.slices) {
      ++refs[slice.piece];
      rows += slice.rows;
      AFI_CHECK(slice.rows > 0 && slice.first + slice.rows <= kRowsPerPiece);
    }
    AFI_CHECK(segment.slices.empty() || rows == tree_.end(n) - tree_.start(n));
    std::uint32_t before = tree_.start(n);
    for (const std::uint32_t s : segment.snapshots) {
      const Snapshot& snapshot = snapshots_[s];
      AFI_CHECK(snapshot.payload != nullptr && snapshot.node == n && !snapshot.chosen);
      AFI_CHECK(before < snapshot.at && snapshot.at <= tree_.end(n));
      AFI_CHECK(snapshot.reported && (!snapshot.parked || snapshot.pins > 0));
      before = snapshot.at;
      found.resident += snapshot.payload->bytes();
      ++found.snapshots;
    }
  }
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    AFI_CHECK(pieces_[p].refs == refs[p] && (pieces_[p].payload != nullptr) == (refs[p] > 0));
    if (refs[p] > 0) found.resident += pieces_[p].payload->bytes();
  }
  AFI_CHECK(found.segments == counts_.segments && found.snapshots == counts_.snapshots);
  AFI_CHECK(found.ends == counts_.ends && found.tokens == counts_.tokens);
  AFI_CHECK(found.resident == counts_.resident && found.resident <= budget_.used());
  AFI_CHECK(snapshots_.size() == counts_.snapshots + free_snapshots_.size());
}

}  // namespace afterimage
