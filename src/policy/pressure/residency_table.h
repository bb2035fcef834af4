// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "afterimage/governor.h"
#include "afterimage/ids.h"

namespace afterimage {

using MakePolicy = std::function<std::unique_ptr<EvictionPolicy>()>;

/// Bytes of a tenant that others' entries and external pressure never evict, while all shares
/// together fit into the budget; with a smaller budget, shares shrink in proportion.
struct TenantShare {
  TenantId tenant;
  Bytes minimum;
};

struct ResidencyTableOptions {
  std::uint64_t token_budget = 0;  // of all entries above; 0: tokens are not limited
  Bytes below;                     // capacity for copies below; 0: nothing can be offloaded
  std::vector<TenantShare> shares;
};

struct ResidentFacts {
  Bytes bytes;
  std::uint64_t tokens = 0;
  TenantId tenant;
  Duration cost{0};  // seconds that a hit saves
};

enum class Place : unsigned char {
  kAbove,      // only in the governed memory
  kAboveCopy,  // in the governed memory, with an intact copy below
  kBelow,      // only below
  kGone,
};

/// An entry that moved: its owner frees the bytes in the place that it left.
struct Move {
  SlotId slot;
  Place now = Place::kGone;
};

/// A copy to be made below. Its space is reserved; report the outcome with finish_clean().
struct CleanOrder {
  SlotId slot;
  Bytes bytes;
};

struct Obeyed {
  Bytes released;  // evicted without moving a byte: their copies below remain
  Bytes dropped;   // evicted for good
  Bytes short_by;  // still beyond the budget: pinned, or being copied
  std::uint64_t expired = 0;
};

/// Tracks which entries are above (in the governed memory) and below (copies in the next tier), and
/// decides which to evict. Bookkeeping only: the owner holds the bytes and moves them as moves()
/// says.
///
/// A reserve of entries with copies below is kept ready in eviction order. Releasing them moves no
/// byte; an entry that is used in time leaves the reserve and keeps its copy. Each tenant with a
/// share has a policy of its own, all other tenants have one together; the victim comes from the
/// tenant that is furthest above its share.
///
/// Errors   kNoSpace: larger than what could be freed (then nothing is evicted), or the rest is
///          pinned; kUnavailable: admission is blocked, try again later. Refused entries are served
///          uncached.
/// Promises used() ≤ target after admit, replace and promote. Pinned entries stay. Erasing, and
///          replacing by something smaller, always work. The totals are consistent after every
///          call.
/// Threads  Not thread-safe: one owner.
/// Cost     O(log n) per call and per victim, plus one step for each tenant with a share.
class ResidencyTable {
 public:
  /// kInvalidArgument: no budget, shares that together exceed it, or a tenant named twice.
  static Result<std::unique_ptr<ResidencyTable>> create(ResidencyTableOptions options, Bytes budget,
                                                        const MakePolicy& make_policy);
  ResidencyTable(const ResidencyTable&) = delete;
  ResidencyTable& operator=(const ResidencyTable&) = delete;

  Result<SlotId> admit(const ResidentFacts& facts, Duration now);
  /// Replaces the content of a slot; the copy below, if any, is dropped.
  Result<void> replace(SlotId slot, Bytes bytes, std::uint64_t tokens, Duration now);
  /// Promotes an entry from below; its copy stays there. No effect on an entry that is above.
  Result<void> promote(SlotId slot, Duration now);
  void touch(SlotId slot, Duration now);
  void erase(SlotId slot);
  /// Only entries that are above can be pinned.
  void pin(SlotId slot);
  void unpin(SlotId slot);

  /// Applies the governor's actions: expires idle entries, then evicts. Appends new copies to be
  /// made to `orders`.
  Obeyed obey(const GovernorActions& actions, Duration now, std::vector<CleanOrder>& orders);
  /// Reports the outcome of a copy. No effect if `slot` has been erased or replaced since.
  void finish_clean(SlotId slot, bool copied);

  /// Entries that moved since the last call.
  [[nodiscard]] std::vector<Move> moves() { return std::exchange(moves_, {}); }

  [[nodiscard]] LedgerView ledger() const {
    return {.used = used_, .clean = clean_, .cleaning = cleaning_};
  }
  [[nodiscard]] Bytes used() const { return used_; }
  [[nodiscard]] Bytes below() const { return below_; }
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  [[nodiscard]] std::size_t entries_above() const { return above_; }
  [[nodiscard]] Bytes used_by(const TenantId& tenant) const;
  [[nodiscard]] bool is_live(SlotId slot) const;
  [[nodiscard]] Place place(SlotId slot) const;
  /// Recounts everything and aborts on a disagreement. O(n).
  void check_invariants() const;

 private:
  struct Entry {
    ResidentFacts facts;
    std::uint32_t generation = 0;
    std::uint32_t pins = 0;
    std::uint32_t group = 0;
    bool live = false;
    bool above = false;
    bool copied = false;    // an intact copy is below
    bool cleaning = false;  // a copy is being made; its space below is reserved
    bool evicting = false;  // chosen for eviction: parked, and in ready_ once it is copied
    bool parked = false;
    Duration last_use{0};
    std::list<std::uint32_t>::iterator in_use_order;  // above: by_use_, below: below_order_
    std::list<std::uint32_t>::iterator in_ready;
  };
  struct Group {
    std::unique_ptr<EvictionPolicy> policy;
    Bytes minimum;
    Bytes used;
    Bytes pinned;
    Bytes evicting;
  };

  ResidencyTable(ResidencyTableOptions options, Bytes budget)
      : options_(std::move(options)), target_(budget) {}

  [[nodiscard]] SlotId id_of(std::uint32_t index) const;
  Entry& find(SlotId slot);
  [[nodiscard]] std::uint32_t group_of(const TenantId& tenant) const;
  [[nodiscard]] Bytes share_of(const Group& group) const;

  Result<void> check_space(Bytes extra, std::uint64_t extra_tokens, std::uint32_t group) const;
  Result<void> make_room(Bytes extra, std::uint64_t extra_tokens, std::uint32_t group);
  bool evict_one(std::optional<std::uint32_t> for_group, bool respect_shares);
  [[nodiscard]] bool may_evict(const Entry& entry, std::optional<std::uint32_t> for_group) const;
  std::optional<std::uint32_t> next_victim(std::optional<std::uint32_t> for_group,
                                           bool respect_shares, bool after_evicting);
  bool release_one(std::optional<std::uint32_t> for_group, bool respect_shares);
  bool start_clean(std::uint32_t index, std::vector<CleanOrder>& orders);
  bool make_room_below(Bytes bytes);

  void move_above(std::uint32_t index, Duration now);
  void move_below(std::uint32_t index);
  void remove_above(std::uint32_t index, RemovalReason why);
  void remove(std::uint32_t index, RemovalReason why);
  void drop_copy(Entry& entry);
  void set_evicting(std::uint32_t index, bool evicting);
  void update_parked(std::uint32_t index);
  void stop_cleaning(Entry& entry);

  ResidencyTableOptions options_;
  Bytes target_;
  bool blocked_ = false;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  std::vector<Group> groups_;  // [0]: all tenants without a share
  std::unordered_map<TenantId, std::uint32_t> group_by_tenant_;
  std::list<std::uint32_t> by_use_;       // above, least recently used first
  std::list<std::uint32_t> ready_;        // copied and evicting, in order of eviction
  std::list<std::uint32_t> below_order_;  // only below, oldest first
  std::vector<Move> moves_;
  Bytes used_;
  Bytes clean_;     // in ready_
  Bytes cleaning_;  // above, evicting, copy under way
  Bytes below_;
  std::uint64_t tokens_ = 0;
  std::size_t above_ = 0;
};

}  // namespace afterimage
