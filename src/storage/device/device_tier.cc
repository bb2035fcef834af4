// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/device/device_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstring>
#include <functional>
#include <list>
#include <utility>

#include "foundation/platform/mutex.h"
#include "foundation/platform/parallel_for.h"
#include "foundation/platform/workers.h"
#include "storage/device/cuda_device.h"
#include "storage/device/device_blocks.h"
#include "storage/memory/byte_pieces.h"
#include "storage/memory/checksum.h"
#include "storage/memory/tier_key_hash.h"

namespace afterimage {
namespace {

using Lane = CudaDevice::Lane;

constexpr std::size_t kChecked = std::size_t{512} << 10U;  // bytes of each checksum
static_assert(Lane::kPinned % kChecked == 0);

/// The bytes [from, from + size) of what `spans` hold together.
std::vector<DeviceSpan> part_of(std::span<const DeviceSpan> spans, std::size_t from,
                                std::size_t size) {
  std::vector<DeviceSpan> part;
  for (const DeviceSpan& span : spans) {
    if (size == 0) break;
    if (from >= span.size) {
      from -= span.size;
      continue;
    }
    const std::size_t here = std::min(span.size - from, size);
    part.push_back({.at = span.at + from, .size = here});
    size -= here;
    from = 0;
  }
  return part;
}

std::size_t size_of(std::span<const DeviceSpan> spans) {
  std::size_t size = 0;
  for (const DeviceSpan& span : spans) size += span.size;
  return size;
}

/// The bytes [from, from + size) of the pieces if they lie in one place; empty: they do not.
std::span<const std::byte> in_one_place(BytePieces pieces, std::size_t from, std::size_t size) {
  for (const auto piece : pieces) {
    if (from < piece.size()) {
      return size <= piece.size() - from ? piece.subspan(from, size) : std::span<const std::byte>();
    }
    from -= piece.size();
  }
  return {};
}

/// `to` gets the bytes [from, from + to.size()) of the pieces.
void copy_part(BytePieces pieces, std::size_t from, std::span<std::byte> to) {
  for (const auto piece : pieces) {
    if (to.empty()) return;
    if (from >= piece.size()) {
      from -= piece.size();
      continue;
    }
    const std::size_t here = std::min(piece.size() - from, to.size());
    std::memcpy(to.data(), piece.data() + from, here);
    to = to.subspan(here);
    from = 0;
  }
}

/// The lanes that no thread uses now.
class Lanes {
 public:
  Result<void> create(CudaDevice& device, std::uint32_t count) {
    const MutexLock lock(mutex_);
    for (std::uint32_t i = 0; i < std::max(1U, count); ++i) {
      AFI_TRY(auto lane, Lane::create(device));
      free_.push_back(std::move(lane));
    }
    return {};
  }

  Result<void> use(const std::function<Result<void>(Lane&)>& work) {
    std::unique_ptr<Lane> lane = take();
    auto done = work(*lane);
    const MutexLock lock(mutex_);
    free_.push_back(std::move(lane));
    freed_.notify_one();
    return done;
  }

 private:
  std::unique_ptr<Lane> take() {
    const MutexLock lock(mutex_);
    while (free_.empty()) freed_.wait(mutex_);
    std::unique_ptr<Lane> lane = std::move(free_.back());
    free_.pop_back();
    return lane;
  }

  Mutex mutex_;
  Condition freed_;
  std::vector<std::unique_ptr<Lane>> free_ AFI_GUARDED_BY(mutex_);
};

}  // namespace

/// In order of construction: a member uses those before it.
struct DeviceTier::State {
  State(std::unique_ptr<CudaDevice> its_device, const DeviceTierOptions& options,
        MemoryBudget& its_budget)
      : budget(its_budget),
        device(std::move(its_device)),
        width(std::max(1U, options.copies)),
        blocks(*device, its_budget, options.keep_free),
        helpers(width > 1 ? width - 1 : 1, width) {}

  /// What an entry occupies. Shared with those that copy it, so an eviction meanwhile is harmless.
  struct Stored {
    Stored(State& its_state, std::vector<DeviceSpan> its_spans)
        : state(its_state), spans(std::move(its_spans)), size(size_of(spans)) {}
    ~Stored() {
      if (clear) {
        const auto done = state.lanes.use([&](Lane& lane) { return lane.clear(spans); });
        if (!done.has_value()) state.note(done.error());
      }
      state.blocks.give_back(spans);
    }
    Stored(const Stored&) = delete;
    Stored& operator=(const Stored&) = delete;

    /// Keeps the checksums of the bytes from `from` on, a multiple of kChecked.
    void check(std::size_t from, std::span<const std::byte> bytes) {
      for (std::size_t at = 0; at < bytes.size(); at += kChecked) {
        checksums[(from + at) / kChecked] =
            Checksum::of(bytes.subspan(at, std::min(bytes.size() - at, kChecked)));
      }
    }
    /// The bytes from `from` on, a multiple of kChecked; at most kChecked.
    [[nodiscard]] bool is_intact(std::size_t from, std::span<const std::byte> bytes) const {
      return checksums.empty() || Checksum::of(bytes) == checksums[from / kChecked];
    }

    State& state;
    const std::vector<DeviceSpan> spans;
    const std::size_t size;
    std::vector<Checksum> checksums;  // of each kChecked bytes; none: it came from the device
    std::atomic<bool> clear = false;  // when it goes
  };
  struct Entry {
    TierKey key;
    EntryMeta meta;
    std::shared_ptr<Stored> stored;
  };
  using Order = std::list<Entry>;  // least recently used first

  Result<std::shared_ptr<Stored>> make_room(std::size_t size);
  Result<void> upload(Stored& stored, BytePieces pieces);
  Result<bool> download(const Stored& stored, std::span<std::byte> to);
  std::optional<Entry> find(const TierKey& key);
  Result<bool> read(const Entry& found, std::span<std::byte> to);
  Result<void> keep(const TierKey& key, const EntryMeta& meta,
                    Result<std::shared_ptr<Stored>> stored);
  Result<void> move(Entry& entry);
  Bytes shrink_to(Bytes bytes);
  void note(const Error& error);
  void remove(Order::iterator entry) AFI_REQUIRES(mutex);
  void evict() AFI_REQUIRES(mutex) {
    remove(order.begin());
    ++stats.evicted;
  }
  /// Calls work(lane, n) for each piece n of an entry, by several threads.
  Result<void> for_pieces(std::size_t size,
                          const std::function<Result<void>(Lane&, std::size_t)>& work);

  MemoryBudget& budget;
  std::unique_ptr<CudaDevice> device;
  const std::uint32_t width;  // copies to and from host memory at a time
  DeviceBlocks blocks;
  Lanes lanes;
  mutable Mutex mutex;
  TierStats stats AFI_GUARDED_BY(mutex);
  bool blocked AFI_GUARDED_BY(mutex) = false;
  Order order AFI_GUARDED_BY(mutex);
  boost::unordered_flat_map<TierKey, Order::iterator, TierKeyHash> index AFI_GUARDED_BY(mutex);
  Workers helpers;
};

void DeviceTier::State::remove(Order::iterator entry) {
  index.erase(entry->key);
  order.erase(entry);
}

/// Not while `mutex` is held.
void DeviceTier::State::note(const Error& error) {
  const MutexLock lock(mutex);
  ++stats.failures;
  stats.degraded_reason = error.message;
}

Result<std::shared_ptr<DeviceTier::State::Stored>> DeviceTier::State::make_room(std::size_t size) {
  const Bytes most(budget.capacity().value() / blocks.slab().value() * blocks.slab().value());
  if (Bytes(DeviceBlocks::blocks_of(size) * DeviceBlocks::kBlock) > most) {
    return fail(ErrorCode::kLimitExceeded,
                fmt::format("an entry of {} bytes is larger than the {} that the tier can hold",
                            size, most.value()));
  }
  while (true) {
    auto spans = blocks.take(size);
    if (spans.has_value()) return std::make_shared<Stored>(*this, *std::move(spans));
    if (spans.error().code != ErrorCode::kNoSpace) return std::unexpected(spans.error());
    const MutexLock lock(mutex);
    if (order.empty()) return std::unexpected(spans.error());
    evict();
  }
}

Result<void> DeviceTier::State::for_pieces(
    std::size_t size, const std::function<Result<void>(Lane&, std::size_t)>& work) {
  const std::size_t pieces = (size + Lane::kPinned - 1) / Lane::kPinned;
  Mutex failing;
  Result<void> result;
  parallel_for(helpers, width, pieces, [&](std::size_t piece) {
    const auto done = lanes.use([&](Lane& lane) { return work(lane, piece); });
    const MutexLock lock(failing);
    if (!done.has_value()) result = done;
  });
  return result;
}

Result<void> DeviceTier::State::upload(Stored& stored, BytePieces pieces) {
  stored.checksums.resize((stored.size + kChecked - 1) / kChecked);
  const auto whole = in_one_place(pieces, 0, stored.size);
  if (!whole.empty() && device->is_pinned(whole.data()) && device->is_pinned(&whole.back())) {
    return lanes.use([&](Lane& lane) -> Result<void> {
      AFI_TRY_VOID(lane.start_upload(whole, stored.spans));
      // While the GPU copies. Several at a time, so that helpers are not asked too often.
      const std::size_t pieces_of_it = (stored.size + Lane::kPinned - 1) / Lane::kPinned;
      parallel_for(helpers, width, pieces_of_it, [&](std::size_t piece) {
        const std::size_t from = piece * Lane::kPinned;
        stored.check(from, whole.subspan(from, std::min(Lane::kPinned, whole.size() - from)));
      });
      return lane.wait();
    });
  }
  return for_pieces(stored.size, [&](Lane& lane, std::size_t piece) -> Result<void> {
    const std::size_t from = piece * Lane::kPinned;
    const std::size_t size = std::min(stored.size - from, Lane::kPinned);
    const auto spans = part_of(stored.spans, from, size);
    for (std::size_t at = 0; at < size; at += kChecked) {  // which a core's cache holds
      const auto part = lane.pinned().subspan(at, std::min(size - at, kChecked));
      copy_part(pieces, from + at, part);
      AFI_TRY_VOID(lane.start_upload(part, part_of(spans, at, part.size())));
      stored.check(from + at, part);
    }
    return lane.wait();
  });
}

/// False: the bytes are not those that were put.
Result<bool> DeviceTier::State::download(const Stored& stored, std::span<std::byte> to) {
  std::atomic<bool> intact = true;
  const bool direct = !to.empty() && device->is_pinned(to.data());
  AFI_TRY_VOID(for_pieces(stored.size, [&](Lane& lane, std::size_t piece) -> Result<void> {
    const std::size_t from = piece * Lane::kPinned;
    const std::size_t size = std::min(stored.size - from, Lane::kPinned);
    const auto target = to.subspan(from, size);
    const auto landed = direct ? target : lane.pinned().first(size);
    AFI_TRY_VOID(lane.start_download(part_of(stored.spans, from, size), landed));
    AFI_TRY_VOID(lane.wait());
    for (std::size_t at = 0; at < size; at += kChecked) {
      const auto part = target.subspan(at, std::min(size - at, kChecked));
      if (!direct) std::memcpy(part.data(), landed.data() + at, part.size());
      if (!stored.is_intact(from + at, part)) intact = false;
    }
    return {};
  }));
  return intact.load();
}

/// Makes the entry visible, or counts why there is none.
Result<void> DeviceTier::State::keep(const TierKey& key, const EntryMeta& meta,
                                     Result<std::shared_ptr<Stored>> stored) {
  const MutexLock lock(mutex);
  if (!stored.has_value()) {
    ++stats.refused;
    if (stored.error().code == ErrorCode::kUnavailable) {
      ++stats.failures;
      stats.degraded_reason = stored.error().message;
    }
    return std::unexpected(stored.error());
  }
  if (const auto old = index.find(key); old != index.end()) remove(old->second);
  order.push_back({.key = key, .meta = meta, .stored = *std::move(stored)});
  index[key] = std::prev(order.end());
  ++stats.puts;
  stats.degraded_reason.clear();
  return {};
}

Result<std::unique_ptr<DeviceTier>> DeviceTier::open(const DeviceTierOptions& options,
                                                     MemoryBudget& budget) {
  AFI_TRY(auto device, CudaDevice::open(options.device, options.library));
  auto state = std::make_unique<State>(std::move(device), options, budget);
  AFI_TRY_VOID(state->lanes.create(*state->device, options.copies));
  return std::unique_ptr<DeviceTier>(new DeviceTier(std::move(state)));
}

DeviceTier::DeviceTier(std::unique_ptr<State> state) : state_(std::move(state)) {}
DeviceTier::~DeviceTier() = default;

Result<DeviceMemory> DeviceTier::device_memory() const { return state_->device->memory(); }

Result<void> DeviceTier::put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) {
  return state_->keep(key, meta, [&]() -> Result<std::shared_ptr<State::Stored>> {
    AFI_TRY_VOID(may_put(meta));
    AFI_TRY(auto stored, state_->make_room(afterimage::size_of(pieces)));
    AFI_TRY_VOID(state_->upload(*stored, pieces));
    return stored;
  }());
}

Result<void> DeviceTier::put_from_device(const TierKey& key, const EntryMeta& meta,
                                         std::span<const DeviceSpan> from) {
  return state_->keep(key, meta, [&]() -> Result<std::shared_ptr<State::Stored>> {
    AFI_TRY_VOID(may_put(meta));
    AFI_TRY(auto stored, state_->make_room(size_of(from)));
    AFI_TRY_VOID(state_->lanes.use([&](Lane& lane) -> Result<void> {
      AFI_TRY_VOID(lane.start_copy(from, stored->spans));
      return lane.wait();
    }));
    return stored;
  }());
}

Result<void> DeviceTier::may_put(const EntryMeta& meta) const {
  if (meta.form_bytes() > EntryMeta::kMaxFormBytes) {
    return fail(ErrorCode::kLimitExceeded, "an entry has too many tensors");
  }
  const MutexLock lock(state_->mutex);
  if (!state_->blocked) return {};
  return fail(ErrorCode::kNoSpace, "nothing is admitted while the GPU's memory is short");
}

std::optional<DeviceTier::State::Entry> DeviceTier::State::find(const TierKey& key) {
  const MutexLock lock(mutex);
  const auto it = index.find(key);
  if (it == index.end()) {
    ++stats.misses;
    return std::nullopt;
  }
  order.splice(order.end(), order, it->second);
  return *it->second;
}

/// False: damaged, so a miss.
Result<bool> DeviceTier::State::read(const Entry& found, std::span<std::byte> to) {
  const auto intact = download(*found.stored, to);
  const MutexLock lock(mutex);
  if (intact.has_value() && *intact) {
    ++stats.hits;
    stats.degraded_reason.clear();
    return true;
  }
  ++stats.misses;
  if (!intact.has_value()) {
    ++stats.failures;
    stats.degraded_reason = intact.error().message;
    return std::unexpected(intact.error());
  }
  ++stats.damaged;
  const auto it = index.find(found.key);
  if (it != index.end() && it->second->stored == found.stored) remove(it->second);
  return false;
}

Result<std::optional<TierEntry>> DeviceTier::get(const TierKey& key, MemoryBudget& room) {
  auto found = state_->find(key);
  if (!found.has_value()) return std::nullopt;
  AFI_TRY(const std::shared_ptr<AlignedBytes> copy,
          AlignedBytes::create(found->stored->size, room));
  AFI_TRY(const bool intact, state_->read(*found, copy->bytes()));
  if (!intact) return std::nullopt;
  return TierEntry{
      .meta = std::move(found->meta), .bytes = std::as_const(*copy).bytes(), .memory = copy};
}

Result<bool> DeviceTier::get_to_host(const TierKey& key, std::span<std::byte> to) {
  const auto found = state_->find(key);
  if (!found.has_value()) return false;
  if (to.size() != found->stored->size) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("there is room for {} bytes, and the entry has {}", to.size(),
                            found->stored->size));
  }
  return state_->read(*found, to);
}

Result<std::vector<bool>> DeviceTier::get_to_device(std::span<const DevicePlace> places) {
  std::vector<std::shared_ptr<State::Stored>> found;
  {
    const MutexLock lock(state_->mutex);
    for (const DevicePlace& place : places) {
      const auto it = state_->index.find(place.key);
      found.push_back(it == state_->index.end() ? nullptr : it->second->stored);
    }
  }
  std::vector<bool> there(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (found[i] == nullptr) continue;
    if (size_of(places[i].to) != found[i]->size) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("place {} has {} bytes and its entry {}", i, size_of(places[i].to),
                              found[i]->size));
    }
    there[i] = true;
  }
  const auto copied = state_->lanes.use([&](Lane& lane) -> Result<void> {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (there[i]) AFI_TRY_VOID(lane.start_copy(found[i]->spans, places[i].to));
    }
    return lane.wait();
  });
  if (!copied.has_value()) {
    state_->note(copied.error());
    return std::unexpected(copied.error());
  }
  const MutexLock lock(state_->mutex);
  for (std::size_t i = 0; i < places.size(); ++i) {
    ++(there[i] ? state_->stats.hits : state_->stats.misses);
    const auto it = there[i] ? state_->index.find(places[i].key) : state_->index.end();
    if (it != state_->index.end()) {
      state_->order.splice(state_->order.end(), state_->order, it->second);
    }
  }
  return there;
}

Result<void> DeviceTier::erase(const TierKey& key) {
  std::shared_ptr<State::Stored> erased;  // cleared outside the lock
  const MutexLock lock(state_->mutex);
  const auto it = state_->index.find(key);
  if (it == state_->index.end()) return {};
  erased = it->second->stored;
  erased->clear = true;
  state_->remove(it->second);
  ++state_->stats.erased;
  return {};
}

Result<EntryCount> DeviceTier::erase_matching(const EntryFilter& filter) {
  std::vector<std::shared_ptr<State::Stored>> erased;  // cleared outside the lock
  const MutexLock lock(state_->mutex);
  for (auto entry = state_->order.begin(); entry != state_->order.end();) {
    const auto next = std::next(entry);
    if (filter.matches(entry->meta.labels)) {
      entry->stored->clear = true;
      erased.push_back(entry->stored);
      state_->remove(entry);
    }
    entry = next;
  }
  state_->stats.erased += erased.size();
  return EntryCount(erased.size());
}

bool DeviceTier::may_contain(const TierKey& key) const {
  const MutexLock lock(state_->mutex);
  return state_->index.contains(key);
}

std::optional<EntryMetadata> DeviceTier::metadata(const TierKey& key) const {
  const MutexLock lock(state_->mutex);
  const auto it = state_->index.find(key);
  if (it == state_->index.end()) return std::nullopt;
  return EntryMetadata{.bytes = Bytes(it->second->stored->size), .cost = it->second->meta.cost};
}

TierStats DeviceTier::stats() const {
  const MutexLock lock(state_->mutex);
  TierStats now = state_->stats;
  now.entries = EntryCount(state_->order.size());
  now.used = state_->blocks.reserved();
  now.capacity = state_->budget.capacity();
  return now;
}

std::optional<EvictionCandidate> DeviceTier::eviction_candidate() {
  const Bytes held = state_->blocks.reserved();
  if (held == 0_B) return std::nullopt;
  return EvictionCandidate{.resident = held, .worth = std::nullopt};
}

Bytes DeviceTier::evict_bytes(Bytes wanted) {
  return state_->shrink_to(sub_sat(state_->blocks.reserved(), wanted));
}

Bytes DeviceTier::trim_to_budget() { return state_->shrink_to(state_->budget.capacity()); }

void DeviceTier::block_admission(bool blocked) {
  const MutexLock lock(state_->mutex);
  state_->blocked = blocked;
}

/// Out of closed slabs.
Result<void> DeviceTier::State::move(Entry& entry) {
  AFI_TRY(auto spans, blocks.take(entry.stored->size, false));
  auto moved = std::make_shared<Stored>(*this, std::move(spans));
  moved->checksums = entry.stored->checksums;
  AFI_TRY_VOID(lanes.use([&](Lane& lane) -> Result<void> {
    AFI_TRY_VOID(lane.start_copy(entry.stored->spans, moved->spans));
    return lane.wait();
  }));
  entry.stored = std::move(moved);
  return {};
}

/// Evicts the least recently used, moves what is left together, and returns empty slabs.
Bytes DeviceTier::State::shrink_to(Bytes bytes) {
  const MutexLock lock(mutex);
  const Bytes before = blocks.reserved();
  const Bytes whole(bytes.value() / blocks.slab().value() * blocks.slab().value());
  blocks.return_empty();
  while (blocks.used() > whole && !order.empty()) evict();
  if (blocks.reserved() > whole) {
    blocks.close_to(whole);
    for (auto entry = order.begin(); entry != order.end();) {
      const auto next = std::next(entry);
      if (blocks.is_closed(entry->stored->spans) && !move(*entry).has_value()) {
        remove(entry);
        ++stats.evicted;
      }
      entry = next;
    }
    blocks.return_empty();
    blocks.reopen();
  }
  return sub_sat(before, blocks.reserved());
}

}  // namespace afterimage
