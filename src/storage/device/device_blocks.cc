// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/device/device_blocks.h"

#include <algorithm>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {

namespace {

/// A set with blocks 0 to `count` - 1.
std::bitset<DeviceBlocks::kMostBlocks> first(std::size_t count) {
  return ~std::bitset<DeviceBlocks::kMostBlocks>() >> (DeviceBlocks::kMostBlocks - count);
}

}  // namespace

DeviceBlocks::DeviceBlocks(CudaDevice& device, MemoryBudget& budget, Bytes keep_free)
    : device_(device),
      budget_(budget),
      keep_free_(keep_free),
      blocks_(std::clamp<std::size_t>(budget.capacity().value() / 16 / kBlock, 1, kMostBlocks)) {}

DeviceBlocks::~DeviceBlocks() {
  const MutexLock lock(mutex_);
  AFI_CHECK(used_blocks_ == 0);
  while (!slabs_.empty()) return_slab(slabs_.begin());
}

Result<void> DeviceBlocks::grow() {
  AFI_TRY(Reservation room, budget_.reserve(slab()));
  AFI_TRY(const DeviceMemory memory, device_.memory());
  if (memory.free < keep_free_ + slab()) {
    return fail(ErrorCode::kNoSpace, "other programs need the GPU's memory");
  }
  AFI_TRY(const DeviceAddress at, device_.allocate(slab().value()));
  slabs_.emplace(at, Slab{.room = std::move(room), .used = {}});
  open_.insert(at);
  free_blocks_ += blocks_;
  return {};
}

void DeviceBlocks::take_from(Slabs::iterator slab, std::size_t& blocks,
                             std::vector<DeviceSpan>& spans) {
  auto& used = slab->second.used;
  if (used.none() && blocks >= blocks_) {
    used = first(blocks_);
    blocks -= blocks_;
    free_blocks_ -= blocks_;
    used_blocks_ += blocks_;
    spans.push_back({.at = slab->first, .size = blocks_ * kBlock});
    open_.erase(slab->first);
    return;
  }
  for (std::size_t i = 0; i < blocks_ && blocks > 0; ++i) {
    if (used[i]) continue;
    used.set(i);
    --blocks;
    --free_blocks_;
    ++used_blocks_;
    const DeviceAddress at = slab->first + i * kBlock;
    // A span does not reach from one slab into the next: the driver copies within allocations only.
    if (i > 0 && !spans.empty() && spans.back().at + spans.back().size == at) {
      spans.back().size += kBlock;
    } else {
      spans.push_back({.at = at, .size = kBlock});
    }
  }
  if (used.count() == blocks_) open_.erase(slab->first);
}

Result<std::vector<DeviceSpan>> DeviceBlocks::take(std::size_t size, bool may_grow) {
  std::size_t blocks = blocks_of(size);
  const MutexLock lock(mutex_);
  while (free_blocks_ < blocks) {
    if (!may_grow) return fail(ErrorCode::kNoSpace, "no free blocks");
    AFI_TRY_VOID(grow());
  }
  const std::size_t unused = blocks * kBlock - size;  // at the end of the last block
  std::vector<DeviceSpan> spans;
  while (blocks > 0) take_from(slabs_.find(*open_.begin()), blocks, spans);
  if (!spans.empty()) spans.back().size -= unused;
  return spans;
}

DeviceBlocks::Slabs::const_iterator DeviceBlocks::slab_of(DeviceAddress at) const {
  return std::prev(slabs_.upper_bound(at));
}

void DeviceBlocks::give_back(std::span<const DeviceSpan> spans) {
  const MutexLock lock(mutex_);
  for (const DeviceSpan& span : spans) {
    const DeviceAddress at = slab_of(span.at)->first;
    Slab& slab = slabs_.find(at)->second;
    const std::size_t blocks = blocks_of(span.size);
    slab.used &= ~(first(blocks) << (span.at - at) / kBlock);
    used_blocks_ -= blocks;
    if (!slab.closed) free_blocks_ += blocks;
    if (!slab.closed) open_.insert(at);
  }
}

void DeviceBlocks::close_to(Bytes bytes) {
  const MutexLock lock(mutex_);
  std::vector<std::pair<std::size_t, DeviceAddress>> by_use;
  for (const auto& [at, slab] : slabs_) by_use.emplace_back(slab.used.count(), at);
  std::ranges::sort(by_use);
  const std::size_t keep = bytes.value() / slab().value();
  for (std::size_t i = 0; i + keep < by_use.size(); ++i) {
    const auto [used, at] = by_use[i];
    slabs_[at].closed = true;
    if (open_.erase(at) > 0) free_blocks_ -= blocks_ - used;
  }
}

bool DeviceBlocks::is_closed(std::span<const DeviceSpan> spans) const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(spans, [&](const DeviceSpan& span) AFI_REQUIRES(mutex_) {
    return slab_of(span.at)->second.closed;
  });
}

void DeviceBlocks::reopen() {
  const MutexLock lock(mutex_);
  for (auto& [at, slab] : slabs_) {
    if (!slab.closed) continue;
    slab.closed = false;
    if (slab.used.count() == blocks_) continue;
    open_.insert(at);
    free_blocks_ += blocks_ - slab.used.count();
  }
}

void DeviceBlocks::return_slab(Slabs::iterator slab) {
  if (open_.erase(slab->first) > 0) free_blocks_ -= blocks_;
  device_.free(slab->first);
  slabs_.erase(slab);
}

void DeviceBlocks::return_empty() {
  const MutexLock lock(mutex_);
  for (auto slab = slabs_.begin(); slab != slabs_.end();) {
    const auto next = std::next(slab);
    if (slab->second.used.none()) return_slab(slab);
    slab = next;
  }
}

Bytes DeviceBlocks::reserved() const {
  const MutexLock lock(mutex_);
  return Bytes(slabs_.size() * slab().value());
}

Bytes DeviceBlocks::used() const {
  const MutexLock lock(mutex_);
  return Bytes(used_blocks_ * kBlock);
}

}  // namespace afterimage
