// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/w_tiny_lfu.h"

#include <algorithm>
#include <bit>

namespace afterimage {
namespace {

constexpr std::uint8_t kWindow = 0;
constexpr std::uint8_t kProbation = 1;
constexpr std::uint8_t kProtected = 2;
constexpr std::uint64_t kWindowPart = 100;  // one in so many entries
constexpr std::uint8_t kLargestCount = 15;
constexpr std::uint64_t kSightingsPerCounter = 10;

}  // namespace

std::size_t FrequencySketch::place(std::uint64_t key, unsigned row) const {
  std::uint64_t mixed = (key + row) * 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ (mixed >> 32U)) * 0xd6e8feb86659fd93U;
  const std::size_t width = counters_.size() / 4;
  return row * width + ((mixed >> 32U) & (width - 1));
}

void FrequencySketch::add(std::uint64_t key) {
  for (unsigned row = 0; row < 4; ++row) {
    std::uint8_t& counter = counters_[place(key, row)];
    counter = std::min<std::uint8_t>(counter + 1, kLargestCount);
  }
  if (++seen_ < kSightingsPerCounter * counters_.size() / 4) return;
  seen_ /= 2;
  for (std::uint8_t& counter : counters_) counter /= 2;
}

unsigned FrequencySketch::estimate(std::uint64_t key) const {
  unsigned least = kLargestCount;
  for (unsigned row = 0; row < 4; ++row) {
    least = std::min<unsigned>(least, counters_[place(key, row)]);
  }
  return least;
}

void FrequencySketch::reserve(std::uint64_t keys) {
  if (keys > counters_.size() / 4) counters_.assign(4 * std::bit_ceil(keys), 0);
}

void WTinyLfu::insert(SlotId slot, const EntryFacts& facts) {
  queues_.insert(slot, kWindow, {.key = facts.key});
  sketch_.reserve(queues_.size());
  sketch_.add(facts.key);
  // Until the cache is full, entries enter the main part without competition.
  if (queues_.size() <= full_at_) admit_all_but(window_size());
}

std::uint64_t WTinyLfu::window_size() const {
  return std::max<std::uint64_t>(queues_.size() / kWindowPart, 1);
}

void WTinyLfu::admit_all_but(std::uint64_t in_window) {
  while (queues_.size(kWindow) > in_window && queues_.oldest(kWindow) != EntryQueues::kNone) {
    queues_.move(queues_.oldest(kWindow), kProbation);
  }
}

void WTinyLfu::touch(SlotId slot) {
  sketch_.add(queues_.notes(slot).key);
  const std::uint8_t queue = queues_.queue(slot);
  queues_.move(slot.index, queue == kWindow ? kWindow : kProtected);
  if (queue != kProbation) return;
  const std::uint64_t main = queues_.size(kProbation) + queues_.size(kProtected);
  const std::uint32_t demoted = queues_.oldest(kProtected);
  if (demoted != EntryQueues::kNone && 5 * queues_.size(kProtected) > 4 * main) {
    queues_.move(demoted, kProbation);
  }
}

void WTinyLfu::erase(SlotId slot, RemovalReason why) {
  queues_.erase(slot);
  if (why == RemovalReason::kEvicted) full_at_ = queues_.size();
}

std::optional<SlotId> WTinyLfu::victim() {
  constexpr std::uint32_t kNone = EntryQueues::kNone;
  const std::uint32_t fresh = queues_.oldest(kWindow);
  std::uint32_t old = queues_.oldest(kProbation);
  if (old == kNone) old = queues_.oldest(kProtected);
  if (fresh == kNone && old == kNone) return std::nullopt;
  if (fresh == kNone) return queues_.slot(old);
  if (old == kNone) return queues_.slot(fresh);
  if (queues_.size(kWindow) <= window_size()) return queues_.slot(old);
  const bool preferred =
      sketch_.estimate(queues_.notes(fresh).key) > sketch_.estimate(queues_.notes(old).key);
  if (!preferred) return queues_.slot(fresh);
  queues_.move(fresh, kProbation);
  return queues_.slot(old);
}

}  // namespace afterimage
