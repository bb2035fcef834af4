// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/disk/segment_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "foundation/platform/fault_points.h"
#include "storage/disk/segment_log_state.h"
#include "storage/memory/byte_pieces.h"

namespace afterimage {

SegmentLog::SegmentLog(std::unique_ptr<State> state) : state_(std::move(state)) {}

SegmentLog::~SegmentLog() {
  state_->read_buffers->close();
  const WriterLock lock(*state_);
  Result<void> done;
  if (state_->active != nullptr && !state_->active->entries.empty()) done = state_->seal();
  if (done) done = state_->commit();
  if (!done) state_->abandon();  // the next open scans the segment
}

Result<bool> SegmentLog::append(const TierKey& key, const EntryMeta& meta, BytePieces value) {
  const std::size_t size = size_of(value);
  const std::uint64_t room = state_->options.segment_bytes.value() - kDiskBlock - footer_bytes(1);
  if (meta.form_bytes() > EntryMeta::kMaxFormBytes || meta.cost < Duration(0) || size > room ||
      record_blocks(meta, size) * kDiskBlock > room) {
    return fail(
        ErrorCode::kLimitExceeded,
        fmt::format("an entry of {} bytes and {} tensors does not fit into a segment of {} bytes",
                    size, meta.tensors.size(), state_->options.segment_bytes.value()));
  }
  RecordHeader header{.key = key,
                      .blocks = static_cast<std::uint32_t>(record_blocks(meta, size)),
                      .meta = meta,
                      .value_bytes = size,
                      .value_checksum = Checksum::of(value)};
  const SystemClock clock;
  const Duration timeout = state_->options.append_timeout;
  const Duration start = clock.now();
  if (!state_->writer_mutex.try_lock_for(timeout)) return false;
  const WriterLock lock(*state_, std::adopt_lock);
  const Duration left = std::max(Duration(0), timeout - (clock.now() - start));
  auto taken = state_->admit(header.blocks, left);
  if (taken && *taken) {
    if (const auto done = state_->append(header, value); !done) {
      taken = std::unexpected(done.error());
    }
  }
  if (!taken) state_->abandon();
  return taken;
}

Result<std::optional<TierEntry>> SegmentLog::read(const TierKey& key, MemoryBudget& room) {
  if (AFI_STEP("rest.read") && is_pending(key)) {
    AFI_TRY(auto waiting, state_->read_pending(key, room));
    if (waiting) return waiting;
    // Its first batches are written already, or it was written meanwhile.
    AFI_TRY([[maybe_unused]] const bool in_time, state_->write_out(state_->options.read_timeout));
    if (is_pending(key)) return std::nullopt;  // an older value must not be served instead
  }
  const auto found = state_->locate(key);
  if (!found.has_value()) return std::nullopt;
  const auto& [place, epoch, file] = *found;
  const std::size_t size = std::size_t{place.blocks} * kDiskBlock;
  const std::uint64_t offset = std::uint64_t{place.block} * kDiskBlock;
  AFI_TRY(const std::shared_ptr<AlignedBytes> memory, state_->read_buffers->take(size, room));
  AFI_TRY(const auto bytes, read_blocks(*file, offset, memory, size, state_->options.read_timeout));
  CheckedRecord record = check_record(bytes, place, epoch);
  if (record.state == RecordState::kIntact) {
    return TierEntry{.meta = std::move(record.meta), .bytes = record.value, .memory = memory};
  }
  // Does not wait for a writer that waits for the device: the next read finds the damage again.
  if (!state_->writer_mutex.try_lock_for(state_->options.append_timeout)) return std::nullopt;
  const WriterLock lock(*state_, std::adopt_lock);
  if (state_->mark_dead(key, place.sequence) && record.state != RecordState::kErased) {
    const MutexLock counting(state_->index_mutex);
    ++state_->stats.damaged;
  }
  return std::nullopt;
}

std::optional<SegmentLog::State::Located> SegmentLog::State::locate(const TierKey& key) {
  const MutexLock lock(index_mutex);
  const auto it = index.find(key);
  if (it == index.end()) return std::nullopt;
  Segment& segment = *(*it)->segment;
  segment.last_use = ++uses;
  return Located{.place = (*it)->place, .epoch = segment.identity.epoch, .file = segment.file};
}

Result<bool> SegmentLog::read_into(const TierKey& key, std::span<std::byte> target,
                                   MemoryBudget& room) {
  if (!is_pending(key)) {
    const auto found = state_->locate(key);
    if (!found.has_value()) return false;
    AFI_TRY(const bool intact, state_->read_pieces(*found, target, room));
    if (intact) return true;
  }
  // It says what is wrong with the record, or finds the entry in memory.
  AFI_TRY(const auto entry, read(key, room));
  if (!entry.has_value() || entry->bytes.size() != target.size()) return false;
  std::ranges::copy(entry->bytes, target.begin());
  return true;
}

/// While one piece is verified and copied, the next is read. False: not an intact record of the
/// target's size.
Result<bool> SegmentLog::State::read_pieces(const Located& found, std::span<std::byte> target,
                                            MemoryBudget& room) {
  struct Piece {
    std::shared_ptr<AlignedBytes> memory;
    std::unique_ptr<Transfer> transfer;
    std::size_t size = 0;
  };
  const std::size_t all = std::size_t{found.place.blocks} * kDiskBlock;
  if (target.size() > all) return false;
  const std::uint64_t begin = std::uint64_t{found.place.block} * kDiskBlock;
  // Of equal size: a last one of a few blocks would cost as much time as the others.
  const std::size_t many = std::max<std::size_t>(1, all / kPieceBytes);
  const std::size_t each = (found.place.blocks + many - 1) / many * kDiskBlock;
  std::array<Piece, 2> pieces;
  std::size_t asked = 0;
  const auto ask = [&](Piece& piece) -> Result<void> {
    piece.size = std::min(each, all - asked);
    if (piece.size == 0) return {};
    if (piece.memory == nullptr) {
      AFI_TRY(piece.memory, read_buffers->take(each, room));
    }
    piece.transfer = found.file->read(begin + asked, piece.memory, piece.size);
    asked += piece.size;
    return {};
  };
  for (Piece& piece : pieces) AFI_TRY_VOID(ask(piece));
  std::optional<RecordHeader> header;
  std::size_t header_bytes = 0;
  RunningChecksum sum;
  std::size_t at = 0;  // of the record
  for (std::size_t i = 0; at < all; ++i) {
    Piece& piece = pieces[i % pieces.size()];
    AFI_TRY(const std::size_t got, piece.transfer->wait(options.read_timeout));
    if (got < piece.size) return false;
    const auto bytes = std::as_const(*piece.memory).bytes().first(piece.size);
    if (!header.has_value()) {
      auto checked = check_record_header(bytes, found.place, found.epoch);
      if (!checked.has_value() || checked->value_bytes != target.size()) return false;
      header_bytes = record_header_bytes(checked->meta);
      header = *std::move(checked);
    }
    const std::size_t first = std::max(at, header_bytes);
    const std::size_t end = std::min(at + piece.size, header_bytes + target.size());
    if (first < end) {
      const auto part = bytes.subspan(first - at, end - first);
      sum.add(part);
      std::ranges::copy(part, target.begin() + static_cast<std::ptrdiff_t>(first - header_bytes));
    }
    at += piece.size;
    AFI_TRY_VOID(ask(piece));
  }
  return AFI_GUARD("value.checksum", sum.value() == header->value_checksum);
}

/// Copies an entry out of the batches in which it waits. nullopt: not all of it is there any more,
/// or a writer waits for the device.
Result<std::optional<TierEntry>> SegmentLog::State::read_pending(const TierKey& key,
                                                                 MemoryBudget& room) {
  if (!writer_mutex.try_lock_for(options.read_timeout)) return std::nullopt;
  const WriterLock lock(*this, std::adopt_lock);
  const LogEntry* newest = nullptr;
  {
    const MutexLock index_lock(index_mutex);
    const auto [first, last] = pending.equal_range(key);
    for (auto it = first; it != last; ++it) {
      if (newest == nullptr || newest->place.sequence < it->second->place.sequence) {
        newest = it->second;
      }
    }
  }
  if (newest == nullptr) return std::nullopt;
  const std::uint64_t begin = std::uint64_t{newest->place.block} * kDiskBlock;
  const std::size_t size = std::size_t{newest->place.blocks} * kDiskBlock;
  AFI_TRY(const std::shared_ptr<AlignedBytes> copy, read_buffers->take(size, room));
  std::size_t copied = 0;
  const auto copy_from = [&](const Batch& from) {
    const std::uint64_t first = std::max(begin, from.offset);
    const std::uint64_t end = std::min(begin + size, from.offset + from.used);
    if (from.segment.get() != newest->segment || first >= end) return;
    std::memcpy(copy->bytes().data() + (first - begin),
                std::as_const(*from.memory).bytes().data() + (first - from.offset), end - first);
    copied += end - first;
  };
  for (const Batch& each : in_flight) copy_from(each);
  copy_from(batch);
  if (copied < size) return std::nullopt;
  CheckedRecord record = check_record(std::as_const(*copy).bytes().first(size), newest->place,
                                      newest->segment->identity.epoch);
  if (record.state != RecordState::kIntact) return std::nullopt;
  return TierEntry{.meta = std::move(record.meta), .bytes = record.value, .memory = copy};
}

Result<bool> SegmentLog::erase(const TierKey& key) {
  const WriterLock lock(*state_);
  if (auto done = state_->drain(); !done) state_->abandon();
  const bool found = state_->mark_dead(key, std::nullopt);
  // Continues even if nothing was found: an older record of this key may not be overwritten yet, or
  // may be in a file whose removal is not yet durable.
  if (!found && state_->unscrubbed.empty() && !state_->removed) return false;
  AFI_POINT("erase.killed");
  auto done = state_->commit();
  if (!done) {
    state_->abandon();
    done = state_->scrub(&key);
  }
  if (!done) return std::unexpected(done.error());
  return found;
}

Result<EntryCount> SegmentLog::erase_matching(const EntryFilter& filter) {
  AFI_TRY_VOID(commit());  // what is being written has a place then
  std::vector<TierKey> matching;
  Result<void> unread;
  for (const State::LiveEntry& entry : state_->live_entries()) {
    const auto meta = state_->read_meta(entry);
    if (!meta.has_value()) {
      unread = std::unexpected(meta.error());
    } else if (!meta->has_value() || filter.matches((*meta)->labels)) {
      matching.push_back(entry.place.key);
    }
  }
  AFI_TRY(const EntryCount erased, state_->erase_all(matching));
  AFI_TRY_VOID(unread);
  return erased;
}

Result<EntryCount> SegmentLog::State::erase_all(std::span<const TierKey> keys) {
  EntryCount erased;
  const WriterLock lock(*this);
  if (auto done = drain(); !done) abandon();
  for (const TierKey& key : keys) {
    if (mark_dead(key, std::nullopt)) erased += EntryCount(1);
  }
  if (commit()) return erased;
  abandon();
  for (const TierKey& key : keys) AFI_TRY_VOID(scrub(&key));
  return erased;
}

std::vector<SegmentLog::State::LiveEntry> SegmentLog::State::live_entries() const {
  const MutexLock lock(index_mutex);
  std::vector<LiveEntry> entries;
  entries.reserve(index.size());
  for (const LogEntry* entry : index) {
    const Segment& segment = *entry->segment;
    entries.push_back(
        {.place = entry->place, .epoch = segment.identity.epoch, .file = segment.file});
  }
  return entries;
}

/// nullopt: the record's header is damaged, or another one lies there.
Result<std::optional<EntryMeta>> SegmentLog::State::read_meta(const LiveEntry& entry) {
  const std::uint64_t at = std::uint64_t{entry.place.block} * kDiskBlock;
  AFI_TRY(const std::shared_ptr<AlignedBytes> buffer, read_buffers->take(kDiskBlock, memory));
  AFI_TRY(const auto bytes, read_blocks(*entry.file, at, buffer, kDiskBlock, options.read_timeout));
  auto header = decode_record_header(bytes);
  if (!header.has_value() || header->epoch != entry.epoch || header->key != entry.place.key) {
    return std::nullopt;
  }
  return std::move(header->meta);
}

Result<void> SegmentLog::commit() {
  const WriterLock lock(*state_);
  Result<void> done = state_->commit();
  if (!done) state_->abandon();
  return done;
}

Result<bool> SegmentLog::write_out() {
  State& s = *state_;
  bool found = false;
  {
    const WriterLock lock(s);
    found = s.submitted + s.batch.used > s.completed || !s.unsynced.empty();
  }
  AFI_TRY(const bool in_time, s.write_out(s.options.write_timeout));
  const WriterLock lock(s);
  auto done = in_time ? s.harvest()
                      : fail(ErrorCode::kCancelled,
                             fmt::format("a write to '{}' took too long", s.folder->path()));
  if (!done) {
    s.abandon();
    return std::unexpected(done.error());
  }
  if (s.syncs.empty()) s.start_syncs();  // a slow device gets one round at a time
  return found;
}

bool SegmentLog::wants_commit() const { return state_->wants_commit; }

bool SegmentLog::contains(const TierKey& key) const {
  const MutexLock lock(state_->index_mutex);
  return state_->index.contains(key);
}

bool SegmentLog::is_pending(const TierKey& key) const {
  const MutexLock lock(state_->index_mutex);
  return state_->pending.contains(key);
}

std::optional<EntryMetadata> SegmentLog::metadata(const TierKey& key) const {
  const MutexLock lock(state_->index_mutex);
  const auto accepted = state_->pending.find(key);
  const auto found = state_->index.find(key);
  if (found == state_->index.end() && accepted == state_->pending.end()) return std::nullopt;
  const FooterEntry& place =
      found == state_->index.end() ? accepted->second->place : (*found)->place;
  return EntryMetadata{.bytes = Bytes(place.blocks * std::uint64_t{kDiskBlock}),
                       .cost = Duration(place.cost_ns)};
}

const DiskRecovery& SegmentLog::recovery() const { return state_->recovery; }

SegmentLogStats SegmentLog::stats() const {
  const MutexLock index_lock(state_->index_mutex);
  SegmentLogStats stats = state_->stats;
  stats.entries = EntryCount(state_->index.size());
  stats.uncommitted = Bytes(state_->uncommitted);
  return stats;
}

void SegmentLog::check_invariants() const {
  const WriterLock lock(*state_);
  const MutexLock index_lock(state_->index_mutex);
  std::uint64_t live = 0;
  std::uint64_t pending = 0;
  std::uint64_t used = kStoreBytes + state_->foreign;
  for (const auto& [id, segment] : state_->segments) {
    std::uint64_t here = 0;
    for (const LogEntry& entry : segment->entries) {
      if (entry.state == LogEntry::State::kPending) ++pending;
      if (entry.state != LogEntry::State::kLive) continue;
      const auto it = state_->index.find(entry.place.key);
      AFI_CHECK(it != state_->index.end() && *it == &entry);
      ++here;
    }
    AFI_CHECK(here == segment->live);
    live += here;
    used += segment->size;
  }
  AFI_CHECK(live == state_->index.size());
  AFI_CHECK(pending == state_->pending.size());
  AFI_CHECK(Bytes(used) == state_->stats.used);
  AFI_CHECK(state_->stats.used <= state_->options.capacity);
  AFI_CHECK(state_->durable <= state_->completed && state_->completed <= state_->submitted);
  AFI_CHECK(state_->spare.empty() ||
            state_->buffers() + state_->spare.size() <= state_->options.batches);
}

}  // namespace afterimage
