// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/pressure/residency_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "afterimage/check.h"

namespace afterimage {
Result<std::unique_ptr<ResidencyTable>> ResidencyTable::create(ResidencyTableOptions options,
                                                               Bytes budget,
                                                               const MakePolicy& make_policy) {
  if (budget == 0_B)
    return fail(ErrorCode::kInvalidArgument,
                "residency table: the budget is 0 bytes; set a positive budget");
  std::unique_ptr<ResidencyTable> table(new ResidencyTable(std::move(options), budget));
  table->groups_.push_back(
      {.policy = make_policy(), .minimum = {}, .used = {}, .pinned = {}, .evicting = {}});
  Bytes left = budget;
  for (const TenantShare& share : table->options_.shares) {
    const auto group = static_cast<std::uint32_t>(table->groups_.size());
    if (!table->group_by_tenant_.emplace(share.tenant, group).second) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("tenant '{}' has two shares; give it one", share.tenant.text()));
    }
    if (share.minimum > left) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the tenants' shares exceed the budget of {} bytes at tenant '{}': "
                              "lower them",
                              budget.value(), share.tenant.text()));
    }
    left -= share.minimum;
    table->groups_.push_back({.policy = make_policy(),
                              .minimum = share.minimum,
                              .used = {},
                              .pinned = {},
                              .evicting = {}});
  }
  return table;
}

SlotId ResidencyTable::id_of(std::uint32_t index) const {
  return {.index = index, .generation = entries_[index].generation};
}

bool ResidencyTable::is_live(SlotId slot) const {
  return slot.index < entries_.size() && entries_[slot.index].live &&
         entries_[slot.index].generation == slot.generation;
}

ResidencyTable::Entry& ResidencyTable::find(SlotId slot) {
  AFI_CHECK(is_live(slot));
  return entries_[slot.index];
}

Place ResidencyTable::place(SlotId slot) const {
  if (!is_live(slot)) return Place::kGone;
  const Entry& entry = entries_[slot.index];
  if (!entry.above) return Place::kBelow;
  return entry.copied ? Place::kAboveCopy : Place::kAbove;
}

std::uint32_t ResidencyTable::group_of(const TenantId& tenant) const {
  const auto it = group_by_tenant_.find(tenant);
  return it == group_by_tenant_.end() ? 0 : it->second;
}

Bytes ResidencyTable::used_by(const TenantId& tenant) const {
  return groups_[group_of(tenant)].used;
}

/// The group's share, reduced in proportion if the target is below all shares together.
Bytes ResidencyTable::share_of(const Group& group) const {
  Bytes promised;
  for (const Group& each : groups_) promised += each.minimum;
  if (promised <= target_) return group.minimum;
  const double part = static_cast<double>(target_.value()) / static_cast<double>(promised.value());
  return Bytes(static_cast<Bytes::rep>(part * static_cast<double>(group.minimum.value())));
}

Result<SlotId> ResidencyTable::admit(const ResidentFacts& facts, Duration now) {
  if (blocked_) {
    return fail(ErrorCode::kUnavailable,
                "admission is blocked in a memory emergency: serve the entry uncached, and try "
                "again when the governor opens admission");
  }
  const std::uint32_t group = group_of(facts.tenant);
  AFI_TRY_VOID(make_room(facts.bytes, facts.tokens, group));
  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[index];
  const std::uint32_t generation = entry.generation;
  entry = Entry();
  entry.generation = generation;
  entry.facts = facts;
  entry.group = group;
  entry.live = true;
  move_above(index, now);
  return id_of(index);
}

Result<void> ResidencyTable::replace(SlotId slot, Bytes bytes, std::uint64_t tokens, Duration now) {
  Entry& entry = find(slot);
  if (entry.pins > 0) {
    return fail(ErrorCode::kNoSpace, "the entry is pinned: replace it when its pins are released");
  }
  const bool above = entry.above;
  const Bytes old_bytes = above ? entry.facts.bytes : 0_B;
  const std::uint64_t old_tokens = above ? entry.facts.tokens : 0;
  const bool grows = bytes > old_bytes || tokens > old_tokens;
  if (grows && blocked_) {
    return fail(ErrorCode::kUnavailable,
                "admission is blocked in a memory emergency: the entry may shrink but not grow");
  }
  if (grows) {
    if (above) pin(slot);  // it must not be its own victim
    const auto space = make_room(sub_sat(bytes, old_bytes),
                                 tokens > old_tokens ? tokens - old_tokens : 0, entry.group);
    if (above) unpin(slot);
    AFI_TRY_VOID(space);
  }
  if (above) {
    remove_above(slot.index, RemovalReason::kErased);
  } else {
    below_order_.erase(entry.in_use_order);
  }
  drop_copy(entry);
  entry.facts.bytes = bytes;
  entry.facts.tokens = tokens;
  move_above(slot.index, now);
  moves_.push_back({.slot = slot, .now = Place::kAbove});
  return {};
}

Result<void> ResidencyTable::promote(SlotId slot, Duration now) {
  Entry& entry = find(slot);
  if (entry.above) return {};
  if (blocked_) {
    return fail(ErrorCode::kUnavailable,
                "admission is blocked in a memory emergency: serve the entry from below");
  }
  AFI_TRY_VOID(make_room(entry.facts.bytes, entry.facts.tokens, entry.group));
  below_order_.erase(entry.in_use_order);
  move_above(slot.index, now);
  moves_.push_back({.slot = slot, .now = Place::kAboveCopy});
  return {};
}

/// Checked first, so that nothing is evicted for an entry that cannot fit.
Result<void> ResidencyTable::check_space(Bytes extra, std::uint64_t extra_tokens,
                                         std::uint32_t group) const {
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorCode::kNoSpace,
                fmt::format("no space for {} bytes and {} tokens: {}; {} of {} bytes are used",
                            extra.value(), extra_tokens, why, used_.value(), target_.value()));
  };
  if (extra > target_) return refuse("larger than the current target");
  if (options_.token_budget != 0 && extra_tokens > options_.token_budget) {
    return refuse(fmt::format("more tokens than the budget of {}", options_.token_budget));
  }
  Bytes unavailable;
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    const Group& each = groups_[i];
    const Bytes protected_bytes = i == group ? 0_B : std::min(each.used, share_of(each));
    unavailable += std::max(each.pinned, protected_bytes);
  }
  if (unavailable > sub_sat(target_, extra))
    return refuse("the rest is pinned or belongs to other tenants' shares");
  return {};
}

Result<void> ResidencyTable::make_room(Bytes extra, std::uint64_t extra_tokens,
                                       std::uint32_t group) {
  AFI_TRY_VOID(check_space(extra, extra_tokens, group));
  const auto fits = [&] {
    return used_ <= sub_sat(target_, extra) &&
           (options_.token_budget == 0 || tokens_ <= options_.token_budget - extra_tokens);
  };
  while (!fits()) {
    if (!evict_one(group, true)) {
      return fail(ErrorCode::kNoSpace,
                  "no space: everything evictable has been evicted; the rest is pinned, or "
                  "evicting it would break a tenant's share");
    }
  }
  return {};
}

bool ResidencyTable::may_evict(const Entry& entry, std::optional<std::uint32_t> for_group) const {
  if (for_group == entry.group) return true;
  const Group& group = groups_[entry.group];
  return group.used - entry.facts.bytes >= share_of(group);
}

/// Releases the first ready entry that may be evicted.
bool ResidencyTable::release_one(std::optional<std::uint32_t> for_group, bool respect_shares) {
  for (const std::uint32_t index : ready_) {
    if (respect_shares && !may_evict(entries_[index], for_group)) continue;
    move_below(index);
    return true;
  }
  return false;
}

/// The victim of the group furthest above its share. `after_evicting`: entries already chosen for
/// eviction count as gone, so that the reserve holds only entries that may be evicted.
std::optional<std::uint32_t> ResidencyTable::next_victim(std::optional<std::uint32_t> for_group,
                                                         bool respect_shares, bool after_evicting) {
  std::optional<std::uint32_t> best;
  Bytes most_over;
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    const auto victim = group.policy->victim();
    if (!victim.has_value()) continue;
    const Bytes share = share_of(group);
    const Bytes held = after_evicting ? group.used - group.evicting : group.used;
    const bool own = for_group == i;
    const Bytes bytes = entries_[victim->index].facts.bytes;
    if (respect_shares && !own && sub_sat(held, bytes) < share) continue;
    const Bytes over = sub_sat(held, share);
    if (!best.has_value() || over > most_over) {
      best = victim->index;
      most_over = over;
    }
  }
  return best;
}

bool ResidencyTable::evict_one(std::optional<std::uint32_t> for_group, bool respect_shares) {
  if (release_one(for_group, respect_shares)) return true;
  const auto victim = next_victim(for_group, respect_shares, false);
  if (victim.has_value()) {
    if (entries_[*victim].copied) {
      move_below(*victim);
    } else {
      remove(*victim, RemovalReason::kEvicted);
    }
    return true;
  }
  // Only entries that are being copied are left; their copies are abandoned.
  for (const std::uint32_t index : by_use_) {
    const Entry& entry = entries_[index];
    if (!entry.cleaning || entry.pins > 0) continue;
    if (respect_shares && !may_evict(entry, for_group)) continue;
    remove(index, RemovalReason::kEvicted);
    return true;
  }
  return false;
}

Obeyed ResidencyTable::obey(const GovernorActions& actions, Duration now,
                            std::vector<CleanOrder>& orders) {
  target_ = actions.target;
  blocked_ = actions.admission == Admission::kBlocked;
  Obeyed done;
  const auto idle_for = [&](std::uint32_t index) { return now - entries_[index].last_use; };
  if (actions.expire_idle.has_value()) {
    for (auto it = by_use_.begin(); it != by_use_.end() && idle_for(*it) > *actions.expire_idle;) {
      const std::uint32_t index = *it++;
      if (entries_[index].pins > 0) continue;
      done.dropped += entries_[index].facts.bytes;
      ++done.expired;
      remove(index, RemovalReason::kErased);
    }
  }
  const Bytes before = used_;
  while (before - used_ < actions.release && used_ > actions.target && release_one({}, true)) {
  }
  done.released = before - used_;
  while (used_ > actions.budget) {
    const Bytes held = used_;
    const bool copied = !ready_.empty();
    if (!evict_one({}, true) && !evict_one({}, false)) break;  // shares never beat the budget
    (copied ? done.released : done.dropped) += held - used_;
  }
  done.short_by = sub_sat(used_, actions.budget);
  if (actions.offload_idle.has_value()) {
    for (auto it = by_use_.begin(); it != by_use_.end() && idle_for(*it) > *actions.offload_idle;) {
      const std::uint32_t index = *it++;
      if (entries_[index].pins > 0 || entries_[index].cleaning) continue;
      if (!may_evict(entries_[index], {})) continue;
      if (!entries_[index].evicting && !start_clean(index, orders)) break;
      if (!entries_[index].copied) continue;
      done.released += entries_[index].facts.bytes;
      move_below(index);
    }
  }
  for (Bytes ordered; ordered < actions.clean;) {
    const auto victim = next_victim({}, true, true);
    if (!victim.has_value() || !start_clean(*victim, orders)) break;
    ordered += entries_[*victim].facts.bytes;
  }
  return done;
}

bool ResidencyTable::make_room_below(Bytes bytes) {
  if (bytes > options_.below) return false;
  while (below_ > options_.below - bytes) {
    if (below_order_.empty()) return false;
    remove(below_order_.front(), RemovalReason::kEvicted);
  }
  return true;
}

bool ResidencyTable::start_clean(std::uint32_t index, std::vector<CleanOrder>& orders) {
  Entry& entry = entries_[index];
  if (!entry.copied && !entry.cleaning) {
    if (!make_room_below(entry.facts.bytes)) return false;
    below_ += entry.facts.bytes;
    entry.cleaning = true;
    orders.push_back({.slot = id_of(index), .bytes = entry.facts.bytes});
  }
  set_evicting(index, true);
  return true;
}

void ResidencyTable::finish_clean(SlotId slot, bool copied) {
  if (!is_live(slot) || !entries_[slot.index].cleaning) return;
  Entry& entry = entries_[slot.index];
  const bool evicting = entry.evicting;
  set_evicting(slot.index, false);
  if (copied) {
    entry.cleaning = false;
    entry.copied = true;
    moves_.push_back({.slot = slot, .now = Place::kAboveCopy});
    if (evicting) set_evicting(slot.index, true);
  } else {
    stop_cleaning(entry);
  }
}

void ResidencyTable::stop_cleaning(Entry& entry) {
  if (!entry.cleaning) return;
  entry.cleaning = false;
  below_ -= entry.facts.bytes;
}

void ResidencyTable::drop_copy(Entry& entry) {
  if (!entry.copied) return;
  entry.copied = false;
  below_ -= entry.facts.bytes;
}

void ResidencyTable::touch(SlotId slot, Duration now) {
  Entry& entry = find(slot);
  entry.last_use = now;
  if (!entry.above) return;
  set_evicting(slot.index, false);
  groups_[entry.group].policy->touch(slot);
  by_use_.splice(by_use_.end(), by_use_, entry.in_use_order);
}

void ResidencyTable::erase(SlotId slot) {
  AFI_CHECK(find(slot).pins == 0);
  remove(slot.index, RemovalReason::kErased);
}

void ResidencyTable::pin(SlotId slot) {
  Entry& entry = find(slot);
  AFI_CHECK(entry.above);
  if (entry.pins++ > 0) return;
  set_evicting(slot.index, false);
  groups_[entry.group].pinned += entry.facts.bytes;
  update_parked(slot.index);
}

void ResidencyTable::unpin(SlotId slot) {
  Entry& entry = find(slot);
  AFI_CHECK(entry.pins > 0);
  if (--entry.pins > 0) return;
  groups_[entry.group].pinned -= entry.facts.bytes;
  update_parked(slot.index);
}

void ResidencyTable::move_above(std::uint32_t index, Duration now) {
  Entry& entry = entries_[index];
  Group& group = groups_[entry.group];
  entry.above = true;
  entry.last_use = now;
  entry.parked = false;
  entry.in_use_order = by_use_.insert(by_use_.end(), index);
  used_ += entry.facts.bytes;
  tokens_ += entry.facts.tokens;
  ++above_;
  group.used += entry.facts.bytes;
  group.policy->insert(id_of(index), {.bytes = entry.facts.bytes, .cost = entry.facts.cost});
  update_parked(index);
}

/// Takes an entry out of the governed memory; its copy below, if any, remains.
void ResidencyTable::remove_above(std::uint32_t index, RemovalReason why) {
  Entry& entry = entries_[index];
  Group& group = groups_[entry.group];
  AFI_CHECK(entry.pins == 0);
  set_evicting(index, false);
  stop_cleaning(entry);
  group.policy->erase(id_of(index), why);
  by_use_.erase(entry.in_use_order);
  entry.above = false;
  entry.parked = false;
  used_ -= entry.facts.bytes;
  tokens_ -= entry.facts.tokens;
  --above_;
  group.used -= entry.facts.bytes;
}

/// Releases an entry without moving a byte, because its copy exists already.
void ResidencyTable::move_below(std::uint32_t index) {
  remove_above(index, RemovalReason::kEvicted);
  entries_[index].in_use_order = below_order_.insert(below_order_.end(), index);
  moves_.push_back({.slot = id_of(index), .now = Place::kBelow});
}

void ResidencyTable::remove(std::uint32_t index, RemovalReason why) {
  Entry& entry = entries_[index];
  if (entry.above) {
    remove_above(index, why);
  } else {
    below_order_.erase(entry.in_use_order);
  }
  drop_copy(entry);
  moves_.push_back({.slot = id_of(index), .now = Place::kGone});
  entry.live = false;
  ++entry.generation;
  free_.push_back(index);
}

void ResidencyTable::set_evicting(std::uint32_t index, bool evicting) {
  Entry& entry = entries_[index];
  if (entry.evicting == evicting) return;
  entry.evicting = evicting;
  const Bytes bytes = entry.facts.bytes;
  Group& group = groups_[entry.group];
  if (evicting) {
    group.evicting += bytes;
    if (entry.copied) {
      entry.in_ready = ready_.insert(ready_.end(), index);
      clean_ += bytes;
    } else {
      cleaning_ += bytes;
    }
  } else {
    group.evicting -= bytes;
    if (entry.copied) {
      ready_.erase(entry.in_ready);
      clean_ -= bytes;
    } else {
      cleaning_ -= bytes;
    }
  }
  update_parked(index);
}

/// Parks pinned and evicting entries, so that the policy never chooses them.
void ResidencyTable::update_parked(std::uint32_t index) {
  Entry& entry = entries_[index];
  const bool parked = entry.pins > 0 || entry.evicting;
  if (parked == entry.parked) return;
  entry.parked = parked;
  EvictionPolicy& policy = *groups_[entry.group].policy;
  parked ? policy.park(id_of(index)) : policy.unpark(id_of(index));
}

void ResidencyTable::check_invariants() const {
  Bytes used;
  Bytes clean;
  Bytes cleaning;
  Bytes below;
  std::uint64_t tokens = 0;
  std::size_t above = 0;
  std::vector<Bytes> by_group(groups_.size());
  std::vector<Bytes> pinned(groups_.size());
  for (const Entry& entry : entries_) {
    if (!entry.live) continue;
    AFI_CHECK(entry.above || entry.copied);
    AFI_CHECK(!(entry.copied && entry.cleaning));
    AFI_CHECK(!entry.evicting || (entry.above && entry.pins == 0 && entry.parked));
    if (entry.copied || entry.cleaning) below += entry.facts.bytes;
    if (!entry.above) continue;
    ++above;
    used += entry.facts.bytes;
    tokens += entry.facts.tokens;
    by_group[entry.group] += entry.facts.bytes;
    if (entry.pins > 0) pinned[entry.group] += entry.facts.bytes;
    if (entry.evicting) (entry.copied ? clean : cleaning) += entry.facts.bytes;
  }
  AFI_CHECK(used == used_ && clean == clean_ && cleaning == cleaning_ && below == below_);
  AFI_CHECK(tokens == tokens_ && above == above_ && above == by_use_.size());
  AFI_CHECK(below_ <= options_.below);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    AFI_CHECK(groups_[i].used == by_group[i] && groups_[i].pinned == pinned[i]);
  }
}

}  // namespace afterimage
