// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <string>
#include <utility>

#include "afterimage/result.h"
#include "caches/prefix/prefix_entries.h"

namespace afterimage {

/// The victims chosen so far; nothing is evicted until they free enough.
struct PrefixEntries::Choice {
  std::vector<SlotId> victims;  // children before parents
  std::uint64_t fewer_ends = 0;
  std::uint64_t fewer_tokens = 0;
};

bool PrefixEntries::busy(SlotId slot) const {
  if (is_snapshot(slot)) return snapshots_[snapshot_of(slot)].pins > 0;
  const NodeIndex node = node_of(slot);
  // Leaves first: an inner node evicted early would strand its children, still charged to us.
  return tree_.use(node).pins > 0 || tree_.children(node) > segments_[node].chosen_children;
}

void PrefixEntries::set_parked(SlotId slot, bool parked) {
  bool& flag =
      is_snapshot(slot) ? snapshots_[snapshot_of(slot)].parked : tree_.use(node_of(slot)).parked;
  if (flag == parked) return;
  flag = parked;
  parked ? policy_->park(slot) : policy_->unpark(slot);
}

std::optional<SlotId> PrefixEntries::next_victim() {
  return first_free([this] { return policy_->victim(); });
}

// The policy learns that an entry is in use only here, when it proposes to evict it.
template <typename Propose>
std::optional<SlotId> PrefixEntries::first_free(const Propose& propose) {
  report_uses();
  while (const std::optional<SlotId> victim = propose()) {
    if (!busy(*victim)) return victim;
    set_parked(*victim, true);
  }
  return std::nullopt;
}

Bytes PrefixEntries::choose(SlotId victim, Choice& choice) {
  set_parked(victim, true);
  choice.victims.push_back(victim);
  if (is_snapshot(victim)) {
    Snapshot& snapshot = snapshots_[snapshot_of(victim)];
    snapshot.chosen = true;
    return snapshot.payload->bytes();
  }
  Bytes freed;
  choice.fewer_tokens += tree_.end(node_of(victim)) - tree_.start(node_of(victim));
  const Segment& segment = segments_[node_of(victim)];
  for (const std::uint32_t s : segment.snapshots) {
    if (!snapshots_[s].chosen) freed += choose(slot_of_snapshot(s), choice);
  }
  for (const Slice& slice : segment.slices) {
    if (--pieces_[slice.piece].refs == 0) freed += piece(slice.piece).bytes();
  }
  const NodeIndex parent = tree_.parent(node_of(victim));
  Segment& above = segments_[parent];
  ++above.chosen_children;
  const bool becomes_end = above.chosen_children == tree_.children(parent) && !above.root;
  if (!becomes_end) ++choice.fewer_ends;
  if (becomes_end && tree_.use(parent).pins == 0) set_parked(slot_of(parent), false);
  return freed;
}

void PrefixEntries::undo(const Choice& choice) {
  for (const SlotId slot : choice.victims) {
    if (is_snapshot(slot)) {
      snapshots_[snapshot_of(slot)].chosen = false;
    } else {
      for (const Slice& slice : segments_[node_of(slot)].slices) ++pieces_[slice.piece].refs;
      segments_[tree_.parent(node_of(slot))].chosen_children = 0;
    }
  }
  // Parents first: a policy evicts first what was unparked last.
  for (std::size_t i = choice.victims.size(); i-- > 0;) {
    set_parked(choice.victims[i], busy(choice.victims[i]));
  }
}

// Victims are chosen first; they are evicted only if they free enough.
Result<void> PrefixEntries::evict_for(Bytes bytes, std::uint64_t new_ends,
                                      std::uint64_t new_tokens) {
  if (bytes > budget_.capacity()) {
    return fail(ErrorCode::kNoSpace, "KV of " + std::to_string(bytes.value()) +
                                         " bytes is larger than the whole budget of " +
                                         std::to_string(budget_.capacity().value()));
  }
  if (new_tokens > max_tokens_) {
    return fail(ErrorCode::kNoSpace, "KV of " + std::to_string(new_tokens) +
                                         " tokens exceeds the limit of " +
                                         std::to_string(max_tokens_));
  }
  Choice choice;
  Bytes freed;
  const auto fits = [&] {
    const std::uint64_t held = budget_.used().value();
    return held - std::min(held, freed.value()) <= (budget_.capacity() - bytes).value() &&
           counts_.ends - choice.fewer_ends + new_ends <= max_ends_ &&
           counts_.tokens - choice.fewer_tokens <= max_tokens_ - new_tokens;
  };
  bool enough = fits();
  while (!enough) {
    const auto victim = next_victim();
    if (!victim.has_value()) break;
    freed += choose(*victim, choice);
    enough = fits();
  }
  undo(choice);
  if (!enough) {
    return fail(ErrorCode::kNoSpace,
                "no space for KV of " + std::to_string(bytes.value()) +
                    " bytes: everything evictable is in use, or other caches hold the budget");
  }
  std::vector<NodeIndex> to_prune;
  for (const SlotId slot : choice.victims) {
    if (is_snapshot(slot)) {
      to_prune.push_back(snapshots_[snapshot_of(slot)].node);
      remove_snapshot(snapshot_of(slot));
      ++counts_.evictions;
    }
  }
  for (const SlotId slot : choice.victims) {
    if (is_snapshot(slot)) continue;
    to_prune.push_back(tree_.parent(node_of(slot)));
    remove_segment(node_of(slot));
    ++counts_.evictions;
  }
  for (const NodeIndex node : to_prune) prune(node);
  return {};
}

std::optional<EvictionCandidate> PrefixEntries::eviction_candidate() {
  if (!next_victim().has_value()) return std::nullopt;
  return EvictionCandidate{.resident = counts_.resident,
                           .worth = policy_->victim_worth(),
                           .overuse = policy_->victim_overuse()};
}

bool PrefixEntries::evict_one() {
  const auto victim = next_victim();
  if (victim.has_value()) evict(*victim);
  return victim.has_value();
}

bool PrefixEntries::evict_idle_one(Duration since) {
  const auto idle = first_free([this, since] { return policy_->idle_victim(since); });
  if (idle.has_value()) evict(*idle);
  return idle.has_value();
}

void PrefixEntries::evict(SlotId victim) {
  ++counts_.evictions;
  const bool snapshot = is_snapshot(victim);
  const NodeIndex node = snapshot ? snapshots_[snapshot_of(victim)].node : node_of(victim);
  const NodeIndex to_prune = snapshot ? node : tree_.parent(node);
  snapshot ? remove_snapshot(snapshot_of(victim)) : remove_segment(node);
  prune(to_prune);
}

}  // namespace afterimage
