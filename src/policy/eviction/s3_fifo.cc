// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/s3_fifo.h"

#include <algorithm>

namespace afterimage {
namespace {

constexpr std::uint8_t kSmall = 0;
constexpr std::uint8_t kMain = 1;
constexpr std::uint64_t kSmallPart = 10;  // one in so many entries
constexpr std::uint8_t kUsesForMain = 2;  // while in the small queue
constexpr std::uint8_t kMaxCountedUses = 3;

}  // namespace

void S3Fifo::insert(SlotId slot, const EntryFacts& facts) {
  queues_.insert(slot, ghosts_.take(facts.key) ? kMain : kSmall, {.key = facts.key});
}

void S3Fifo::touch(SlotId slot) {
  std::uint8_t& uses = queues_.notes(slot).uses;
  uses = std::min<std::uint8_t>(uses + 1, kMaxCountedUses);
}

void S3Fifo::erase(SlotId slot, RemovalReason why) {
  if (why == RemovalReason::kEvicted && queues_.queue(slot) == kSmall) {
    ghosts_.push(queues_.notes(slot).key);
    ghosts_.trim(queues_.size());
  }
  queues_.erase(slot);
}

std::optional<SlotId> S3Fifo::victim() {
  constexpr std::uint32_t kNone = EntryQueues::kNone;
  while (true) {
    const std::uint32_t young = queues_.oldest(kSmall);
    const std::uint32_t old = queues_.oldest(kMain);
    if (young == kNone && old == kNone) return std::nullopt;
    const bool small_is_full = queues_.size(kSmall) * kSmallPart >= queues_.size();
    if (young != kNone && (small_is_full || old == kNone)) {
      std::uint8_t& uses = queues_.notes(young).uses;
      if (uses < kUsesForMain) return queues_.slot(young);
      uses = 0;
      queues_.move(young, kMain);
    } else {
      std::uint8_t& uses = queues_.notes(old).uses;
      if (uses == 0) return queues_.slot(old);
      --uses;
      queues_.move(old, kMain);
    }
  }
}

}  // namespace afterimage
