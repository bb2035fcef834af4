// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "foundation/platform/huge_pages.h"

namespace afterimage {

/// Entries ordered by a rank that uses can only raise; shared by several policies.
///
/// A hit writes the new rank into a table and moves nothing. The heap holds ranks that may be
/// outdated ("hints"); an outdated hint is reinserted with its current rank when it reaches the
/// top. Ranks only rise, so the first current hint is the true minimum, and each reinsertion is
/// paid for by a hit. So hits stay cheap however many entries there are.
class EvictionOrder {
 public:
  struct Rank {
    std::uint64_t value = 0;
    std::uint64_t last_use = 0;  // breaks ties: the one used longest ago is evicted first
    auto operator<=>(const Rank&) const = default;
  };

  void insert(SlotId slot, Rank rank) {
    if (slot.index >= table_.size()) table_.resize(slot.index + 1);
    Row& row = table_[slot.index];
    AFI_CHECK(!row.present);
    row = {.rank = rank, .generation = slot.generation, .present = true, .parked = false};
    push(slot, rank);
  }

  [[nodiscard]] Rank rank(SlotId slot) const { return find(slot).rank; }

  /// Requires that `rank` is not below the current one.
  void raise(SlotId slot, Rank rank) { find(slot).rank = rank; }

  void erase(SlotId slot) {
    Row& row = find(slot);
    row.present = false;  // its hint is dropped when it reaches the top
    if (row.hinted) ++dead_;
    drop_dead_hints_if_many();
  }

  void park(SlotId slot) {
    AFI_CHECK(!find(slot).parked);
    find(slot).parked = true;
  }

  void unpark(SlotId slot) {
    Row& row = find(slot);
    AFI_CHECK(row.parked);
    row.parked = false;
    if (!row.hinted) push(slot, row.rank);
  }

  [[nodiscard]] std::optional<SlotId> first() {
    while (!hints_.empty()) {
      const Hint hint = hints_.front();
      if (is_true(hint)) return hint.slot;
      pop();
      if (is_live(hint.slot) && !table_[hint.slot.index].parked) {
        push(hint.slot, table_[hint.slot.index].rank);
      }
    }
    return std::nullopt;
  }

  /// Number of hints, current, outdated and dead: at most about twice the entries, or a few.
  [[nodiscard]] std::size_t hints() const { return hints_.size(); }

 private:
  struct Row {
    Rank rank;
    std::uint32_t generation = 0;
    bool present = false;
    bool parked = false;
    bool hinted = false;  // has its one hint in the heap
  };
  struct Hint {
    Rank rank;
    SlotId slot;
    auto operator<=>(const Hint&) const = default;
  };

  [[nodiscard]] bool is_live(SlotId slot) const {
    return slot.index < table_.size() && table_[slot.index].present &&
           table_[slot.index].generation == slot.generation;
  }
  [[nodiscard]] bool is_true(const Hint& hint) const {
    return is_live(hint.slot) && !table_[hint.slot.index].parked &&
           table_[hint.slot.index].rank == hint.rank;
  }
  Row& find(SlotId slot) {
    AFI_CHECK(is_live(slot));
    return table_[slot.index];
  }
  [[nodiscard]] const Row& find(SlotId slot) const {
    AFI_CHECK(is_live(slot));
    return table_[slot.index];
  }

  void push(SlotId slot, Rank rank) {
    table_[slot.index].hinted = true;
    hints_.push_back({.rank = rank, .slot = slot});
    std::ranges::push_heap(hints_, std::ranges::greater());
  }
  void pop() {
    const SlotId slot = hints_.front().slot;
    if (is_live(slot)) {
      table_[slot.index].hinted = false;
    } else {
      --dead_;
    }
    std::ranges::pop_heap(hints_, std::ranges::greater());
    hints_.pop_back();
  }

  // Erased entries leave dead hints; without this they would accumulate. A sweep is linear in the
  // hints, and as many entries were erased since the last sweep.
  void drop_dead_hints_if_many() {
    if (dead_ < 64 || dead_ < hints_.size() / 2) return;
    dead_ = 0;
    std::erase_if(hints_, [this](const Hint& hint) { return !is_live(hint.slot); });
    std::ranges::make_heap(hints_, std::ranges::greater());
  }

  std::vector<Row, HugePageAllocator<Row>> table_;  // by slot index
  std::vector<Hint> hints_;                         // heap, smallest rank first
  std::size_t dead_ = 0;                            // hints of erased entries
};

}  // namespace afterimage
