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

/// Bytes that the pressure of others never takes from a tenant, as long as all such promises
/// together fit into the budget; below that they shrink in proportion. Never beats the budget.
struct TenantShare {
  TenantId tenant;
  Bytes minimum;
};

struct ResidencyTableOptions {
  std::uint64_t token_budget = 0;  // of all entries above; 0: tokens are not limited
  Bytes below;                     // room for copies below; 0: nothing can be offloaded
  std::vector<TenantShare> shares;
};

struct ResidentFacts {
  Bytes bytes;
  std::uint64_t tokens = 0;
  TenantId tenant;
  Duration cost{0};  // seconds that a hit saves
};

enum class Place : unsigned char {
  kAbove,      // in the governed memory, nowhere else
  kAboveCopy,  // there, with an intact copy below
  kBelow,      // only below
  kGone,
};

/// An entry that changed place: its owner frees what is no longer there.
struct Move {
  SlotId slot;
  Place now = Place::kGone;
};

/// A copy to be made below. The room for it is reserved; finish_clean() says how it went.
struct CleanOrder {
  SlotId slot;
  Bytes bytes;
};

struct Obeyed {
  Bytes released;  // left without a byte moved: their copies below remain
  Bytes dropped;   // left for good
  Bytes short_by;  // still beyond the budget: pinned, or being copied
  std::uint64_t expired = 0;
};

/// Who is where, above (the governed memory) and below (where copies go), and who leaves next.
/// Books only: the bytes are the owner's, who is told by moves() and moves them.
///
/// A reserve of entries with copies below is kept ready in the order in which the policy would
/// evict; releasing them moves no byte, and one that is used in time comes back without a copy
/// being wasted. Each tenant with a share has a policy of its own, all others have one together;
/// the victim comes from whoever is furthest above their share.
///
/// Errors   kNoSpace: larger than what could be made free (then nobody is evicted), or what is left
///          is pinned; kUnavailable: blocked, come back later. What is refused is served uncached.
/// Promises used() ≤ target after admit, replace and promote. Pinned entries stay. Erasing, and
///          replacing by something smaller, always work. Books balance after every call.
/// Threads  Not thread-safe: one owner.
/// Cost     O(log n) a call and a victim, plus one step for each tenant with a share.
class ResidencyTable {
 public:
  /// kInvalidArgument: no budget, shares that together exceed it, or a tenant named twice.
  static Result<std::unique_ptr<ResidencyTable>> create(ResidencyTableOptions options, Bytes budget,
                                                        const MakePolicy& make_policy);
  ResidencyTable(const ResidencyTable&) = delete;
  ResidencyTable& operator=(const ResidencyTable&) = delete;

  Result<SlotId> admit(const ResidentFacts& facts, Duration now);
  /// New content under the same slot; the copy below, if any, is worthless and gone.
  Result<void> replace(SlotId slot, Bytes bytes, std::uint64_t tokens, Duration now);
  /// Brings an entry back from below; its copy stays there. Nothing to do for one that is above.
  Result<void> promote(SlotId slot, Duration now);
  void touch(SlotId slot, Duration now);
  void erase(SlotId slot);
  /// Only what is above can be pinned.
  void pin(SlotId slot);
  void unpin(SlotId slot);

  /// Does what the governor says: first what has been idle too long, then what is to leave.
  /// New copies to be made are appended to `orders`.
  Obeyed obey(const GovernorActions& actions, Duration now, std::vector<CleanOrder>& orders);
  /// `slot` may be gone or replaced by now: then nothing happens.
  void finish_clean(SlotId slot, bool copied);

  /// What changed place since the last call.
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
  /// Recounts everything; aborts where the books disagree. O(n).
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
    bool cleaning = false;  // a copy is being made; its room below is taken
    bool leaving = false;   // chosen to leave: parked, and in ready_ once it is copied
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
    Bytes leaving;
  };

  ResidencyTable(ResidencyTableOptions options, Bytes budget)
      : options_(std::move(options)), target_(budget) {}

  [[nodiscard]] SlotId id_of(std::uint32_t index) const;
  Entry& find(SlotId slot);
  [[nodiscard]] std::uint32_t group_of(const TenantId& tenant) const;
  [[nodiscard]] Bytes share_of(const Group& group) const;

  Result<void> check_room(Bytes extra, std::uint64_t extra_tokens, std::uint32_t group) const;
  Result<void> make_room(Bytes extra, std::uint64_t extra_tokens, std::uint32_t group);
  bool evict_one(std::optional<std::uint32_t> for_group, bool respect_shares);
  [[nodiscard]] bool may_take(const Entry& entry, std::optional<std::uint32_t> for_group) const;
  std::optional<std::uint32_t> next_victim(std::optional<std::uint32_t> for_group,
                                           bool respect_shares, bool beyond_leaving);
  bool release_one(std::optional<std::uint32_t> for_group, bool respect_shares);
  bool start_clean(std::uint32_t index, std::vector<CleanOrder>& orders);
  bool make_room_below(Bytes bytes);

  void go_above(std::uint32_t index, Duration now);
  void go_below(std::uint32_t index);
  void leave_above(std::uint32_t index, RemovalReason why);
  void remove(std::uint32_t index, RemovalReason why);
  void forget_copy(Entry& entry);
  void set_leaving(std::uint32_t index, bool leaving);
  void settle(std::uint32_t index);
  void stop_cleaning(Entry& entry);

  ResidencyTableOptions options_;
  Bytes target_;
  bool blocked_ = false;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  std::vector<Group> groups_;  // [0]: everybody without a share
  std::unordered_map<TenantId, std::uint32_t> group_by_tenant_;
  std::list<std::uint32_t> by_use_;       // above, the one unused for longest first
  std::list<std::uint32_t> ready_;        // copied and leaving, first to leave first
  std::list<std::uint32_t> below_order_;  // only below, oldest first
  std::vector<Move> moves_;
  Bytes used_;
  Bytes clean_;     // in ready_
  Bytes cleaning_;  // above, leaving, copy under way
  Bytes below_;
  std::uint64_t tokens_ = 0;
  std::size_t above_ = 0;
};

}  // namespace afterimage
