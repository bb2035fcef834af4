// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstring>
#include <list>

#include "afterimage/tier.h"
#include "foundation/platform/fault_points.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/byte_pieces.h"
#include "storage/memory/checksum.h"
#include "storage/memory/tier_key_hash.h"

namespace afterimage {

struct HostTier::State {
  struct Entry {
    TierKey key;
    EntryMeta meta;
    std::shared_ptr<AlignedBytes> memory;
    Checksum checksum;
  };
  using Order = std::list<Entry>;  // least recently used first

  explicit State(MemoryBudget& its_budget) : budget(its_budget) {}

  MemoryBudget& budget;
  mutable Mutex mutex;
  Order order AFI_GUARDED_BY(mutex);
  boost::unordered_flat_map<TierKey, Order::iterator, TierKeyHash> index AFI_GUARDED_BY(mutex);
  Bytes used AFI_GUARDED_BY(mutex);
  TierStats stats AFI_GUARDED_BY(mutex);

  void remove(Order::iterator entry) AFI_REQUIRES(mutex) {
    used -= Bytes(entry->memory->bytes().size());
    index.erase(entry->key);
    order.erase(entry);
  }
};

HostTier::HostTier(MemoryBudget& budget) : state_(std::make_unique<State>(budget)) {}
HostTier::~HostTier() = default;

Result<std::shared_ptr<AlignedBytes>> HostTier::make_room(std::size_t size) {
  if (Bytes(size) > state_->budget.capacity()) {
    return fail(ErrorCode::kLimitExceeded, "an entry of " + std::to_string(size) +
                                               " bytes is larger than the tier's " +
                                               std::to_string(state_->budget.capacity().value()));
  }
  while (true) {
    auto memory = AlignedBytes::create(size, state_->budget);
    if (memory) return memory;
    const MutexLock lock(state_->mutex);
    if (state_->order.empty()) return memory;  // other users of the budget hold the space
    state_->remove(state_->order.begin());
    ++state_->stats.evicted;
  }
}

Result<void> HostTier::put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) {
  Result<std::shared_ptr<AlignedBytes>> memory =
      meta.form_bytes() > EntryMeta::kMaxFormBytes
          ? fail(ErrorCode::kLimitExceeded, "an entry has too many tensors")
          : make_room(size_of(pieces));
  if (!memory) {
    const MutexLock lock(state_->mutex);
    ++state_->stats.refused;
    return std::unexpected(memory.error());
  }
  copy_pieces(pieces, (*memory)->bytes());
  const Checksum checksum = Checksum::of((*memory)->bytes());
  const Bytes size((*memory)->bytes().size());

  const MutexLock lock(state_->mutex);
  if (const auto old = state_->index.find(key); old != state_->index.end()) {
    state_->remove(old->second);
  }
  state_->order.push_back(
      {.key = key, .meta = meta, .memory = *std::move(memory), .checksum = checksum});
  state_->index[key] = std::prev(state_->order.end());
  state_->used += size;
  ++state_->stats.puts;
  return {};
}

Result<std::optional<TierEntry>> HostTier::get(const TierKey& key, MemoryBudget& room) {
  State::Entry found;
  {
    const MutexLock lock(state_->mutex);
    const auto it = state_->index.find(key);
    if (it == state_->index.end()) {
      ++state_->stats.misses;
      return std::nullopt;
    }
    state_->order.splice(state_->order.end(), state_->order, it->second);
    found = *it->second;  // shares the memory, so an eviction meanwhile is harmless
  }
  const std::span<const std::byte> stored = std::as_const(*found.memory).bytes();
  AFI_TRY(const std::shared_ptr<AlignedBytes> copy, AlignedBytes::create(stored.size(), room));
  if (!stored.empty()) std::memcpy(copy->bytes().data(), stored.data(), stored.size());
  const bool intact = AFI_GUARD("host.checksum", Checksum::of(copy->bytes()) == found.checksum);

  const MutexLock lock(state_->mutex);
  if (!intact) {
    ++state_->stats.damaged;
    ++state_->stats.misses;
    const auto it = state_->index.find(key);
    if (it != state_->index.end() && it->second->memory == found.memory) state_->remove(it->second);
    return std::nullopt;
  }
  ++state_->stats.hits;
  return TierEntry{.meta = std::move(found.meta), .bytes = copy->bytes(), .memory = copy};
}

Result<void> HostTier::erase(const TierKey& key) {
  const MutexLock lock(state_->mutex);
  const auto it = state_->index.find(key);
  if (it == state_->index.end()) return {};
  state_->remove(it->second);
  ++state_->stats.erased;
  return {};
}

Result<EntryCount> HostTier::erase_matching(const EntryFilter& filter) {
  const MutexLock lock(state_->mutex);
  std::uint64_t erased = 0;
  for (auto entry = state_->order.begin(); entry != state_->order.end();) {
    const auto next = std::next(entry);
    if (filter.matches(entry->meta.labels)) {
      state_->remove(entry);
      ++erased;
    }
    entry = next;
  }
  state_->stats.erased += erased;
  return EntryCount(erased);
}

bool HostTier::may_contain(const TierKey& key) const {
  const MutexLock lock(state_->mutex);
  return state_->index.contains(key);
}

std::optional<EntryMetadata> HostTier::metadata(const TierKey& key) const {
  const MutexLock lock(state_->mutex);
  const auto it = state_->index.find(key);
  if (it == state_->index.end()) return std::nullopt;
  return EntryMetadata{.bytes = Bytes(it->second->memory->bytes().size()),
                       .cost = it->second->meta.cost};
}

TierStats HostTier::stats() const {
  const MutexLock lock(state_->mutex);
  TierStats stats = state_->stats;
  stats.entries = EntryCount(state_->index.size());
  stats.used = state_->used;
  stats.capacity = state_->budget.capacity();
  return stats;
}

std::span<std::byte> HostTier::bytes_for_test(const TierKey& key) {
  const MutexLock lock(state_->mutex);
  return state_->index.at(key)->memory->bytes();
}

}  // namespace afterimage
