// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/arc.h"

#include <algorithm>

namespace afterimage {
namespace {

constexpr std::uint8_t kOnce = 0;
constexpr std::uint8_t kAgain = 1;

// How far one returning key moves the target: further if its ghost list is the shorter one.
double step(std::uint64_t its_kind, std::uint64_t the_other) {
  const auto own = static_cast<double>(std::max<std::uint64_t>(its_kind, 1));
  return std::max(1.0, static_cast<double>(the_other) / own);
}

}  // namespace

void Arc::insert(SlotId slot, const EntryFacts& facts) {
  const auto size = static_cast<double>(queues_.size());
  const std::uint64_t once = once_gone_.size();
  const std::uint64_t again = again_gone_.size();
  bool known = true;
  if (once_gone_.take(facts.key)) {
    once_target_ = std::min(once_target_ + step(once, again), size);
  } else if (again_gone_.take(facts.key)) {
    once_target_ = std::max(once_target_ - step(again, once), 0.0);
  } else {
    known = false;
  }
  queues_.insert(slot, known ? kAgain : kOnce, {.key = facts.key});
}

void Arc::touch(SlotId slot) {
  (void)queues_.notes(slot);  // checks that the entry exists
  queues_.move(slot.index, kAgain);
}

void Arc::erase(SlotId slot, RemovalReason why) {
  const bool once = queues_.queue(slot) == kOnce;
  const std::uint64_t key = queues_.notes(slot).key;
  const std::uint64_t size = queues_.size();
  queues_.erase(slot);
  if (why != RemovalReason::kEvicted) return;
  (once ? once_gone_ : again_gone_).push(key);
  // Remember as many keys as there are entries; keys used once get what their queue leaves.
  once_gone_.trim(size - std::min(size, queues_.size(kOnce)));
  again_gone_.trim(2 * size - std::min(2 * size, queues_.size() + once_gone_.size()));
}

std::optional<SlotId> Arc::victim() {
  const std::uint32_t once = queues_.oldest(kOnce);
  const std::uint32_t again = queues_.oldest(kAgain);
  if (once == EntryQueues::kNone && again == EntryQueues::kNone) return std::nullopt;
  const bool once_is_over = static_cast<double>(queues_.size(kOnce)) > std::max(once_target_, 0.0);
  const bool take_once =
      again == EntryQueues::kNone || (once != EntryQueues::kNone && once_is_over);
  return queues_.slot(take_once ? once : again);
}

}  // namespace afterimage
