// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "foundation/platform/huge_pages.h"

namespace afterimage {

/// A cache's entries in a few queues, newest first, for policies that move entries between queues.
/// Every call is O(1). A parked entry counts for its queue but is not linked in it; when it is
/// unparked, it becomes the oldest.
class EntryQueues {
 public:
  static constexpr std::size_t kQueues = 3;
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// A policy's own notes on an entry.
  struct Notes {
    std::uint64_t key = 0;
    std::uint8_t uses = 0;
  };

  void insert(SlotId slot, std::uint8_t queue, Notes notes) {
    if (slot.index >= rows_.size()) rows_.resize(slot.index + 1);
    Row& row = rows_[slot.index];
    AFI_CHECK(!row.present);
    row = {.notes = notes, .generation = slot.generation, .queue = queue, .present = true};
    ++sizes_[queue];
    link_newest(slot.index);
  }
  void erase(SlotId slot) {
    Row& row = find(slot);
    if (!row.parked) unlink(slot.index);
    --sizes_[row.queue];
    row.present = false;
  }
  /// Moves an entry to the newest end of `queue`, which may be its own.
  void move(std::uint32_t index, std::uint8_t queue) {
    Row& row = rows_[index];
    if (!row.parked) unlink(index);
    --sizes_[row.queue];
    ++sizes_[queue];
    row.queue = queue;
    if (!row.parked) link_newest(index);
  }
  void park(SlotId slot) {
    Row& row = find(slot);
    AFI_CHECK(!row.parked);
    unlink(slot.index);
    row.parked = true;
  }
  void unpark(SlotId slot) {
    Row& row = find(slot);
    AFI_CHECK(row.parked);
    row.parked = false;
    link_oldest(slot.index);
  }

  [[nodiscard]] std::uint32_t oldest(std::uint8_t queue) const { return ends_[queue].oldest; }
  [[nodiscard]] std::uint32_t newer(std::uint32_t index) const { return rows_[index].newer; }
  [[nodiscard]] SlotId slot(std::uint32_t index) const {
    return {.index = index, .generation = rows_[index].generation};
  }
  [[nodiscard]] std::uint8_t queue(SlotId slot) { return find(slot).queue; }
  [[nodiscard]] Notes& notes(std::uint32_t index) { return rows_[index].notes; }
  Notes& notes(SlotId slot) { return find(slot).notes; }
  /// Including parked entries.
  [[nodiscard]] std::uint64_t size(std::uint8_t queue) const { return sizes_[queue]; }
  [[nodiscard]] std::uint64_t size() const { return sizes_[0] + sizes_[1] + sizes_[2]; }

 private:
  struct Row {
    Notes notes;
    std::uint32_t generation = 0;
    std::uint32_t newer = kNone;
    std::uint32_t older = kNone;
    std::uint8_t queue = 0;
    bool present = false;
    bool parked = false;
  };
  struct Ends {
    std::uint32_t newest = kNone;
    std::uint32_t oldest = kNone;
  };

  Row& find(SlotId slot) {
    AFI_CHECK(slot.index < rows_.size() && rows_[slot.index].present &&
              rows_[slot.index].generation == slot.generation);
    return rows_[slot.index];
  }
  void link_newest(std::uint32_t index) {
    Row& row = rows_[index];
    Ends& ends = ends_[row.queue];
    row.newer = kNone;
    row.older = ends.newest;
    (row.older == kNone ? ends.oldest : rows_[row.older].newer) = index;
    ends.newest = index;
  }
  void link_oldest(std::uint32_t index) {
    Row& row = rows_[index];
    Ends& ends = ends_[row.queue];
    row.older = kNone;
    row.newer = ends.oldest;
    (row.newer == kNone ? ends.newest : rows_[row.newer].older) = index;
    ends.oldest = index;
  }
  void unlink(std::uint32_t index) {
    const Row& row = rows_[index];
    Ends& ends = ends_[row.queue];
    (row.newer == kNone ? ends.newest : rows_[row.newer].older) = row.older;
    (row.older == kNone ? ends.oldest : rows_[row.older].newer) = row.newer;
  }

  std::vector<Row, HugePageAllocator<Row>> rows_;  // by slot index
  std::array<Ends, kQueues> ends_;
  std::array<std::uint64_t, kQueues> sizes_{};
};

}  // namespace afterimage
