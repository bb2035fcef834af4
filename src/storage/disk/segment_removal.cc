// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Removes entries from the log: overwrites their records in place, or removes whole segments.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "foundation/platform/fault_points.h"
#include "storage/disk/segment_log_state.h"

namespace afterimage {

/// Removes an entry from the index; its record is overwritten later. With a sequence: only if it
/// has that sequence number.
bool SegmentLog::State::mark_dead(const TierKey& key, std::optional<std::uint64_t> sequence) {
  const MutexLock lock(index_mutex);
  const auto it = index.find(key);
  if (it == index.end() || (sequence && (*it)->place.sequence != *sequence)) return false;
  LogEntry& entry = **it;
  index.erase(it);
  entry.state = LogEntry::State::kDead;
  --entry.segment->live;
  unscrubbed.push_back(&entry);
  return true;
}

Result<void> SegmentLog::State::overwrite(const LogEntry& entry) {
  BlockFile& file = *entry.segment->file;
  const std::uint64_t at = std::uint64_t{entry.place.block} * kDiskBlock;
  std::vector<std::byte> block = encode_record_header({.epoch = entry.segment->identity.epoch,
                                                       .offset = at,
                                                       .sequence = entry.place.sequence,
                                                       .blocks = entry.place.blocks});
  block.resize(kDiskBlock);
  AFI_TRY_VOID(write_blocks(file, at, block, options.write_timeout, memory));
  if (entry.place.blocks > 1) {
    file.discard(at + kDiskBlock, std::uint64_t{entry.place.blocks - 1} * kDiskBlock);
  }
  return {};
}

/// Overwrites dead records durably. A segment where that fails is removed: a cache may lose
/// entries, but erased ones must not come back. With `only`, limited to that key: used after a
/// failed commit, when the successors of other dead records are not durable yet.
Result<void> SegmentLog::State::scrub(const TierKey* only) {
  const auto is_meant = [only](const LogEntry* entry) {
    return only == nullptr || entry->place.key == *only;
  };
  std::map<Segment*, bool, ByNumber> touched;  // value: whether its records could be overwritten
  for (const LogEntry* entry : unscrubbed) {
    if (!is_meant(entry)) continue;
    const auto it = touched.emplace(entry->segment, true).first;
    if (it->second && AFI_STEP("scrub.overwrite")) it->second = overwrite(*entry).has_value();
    AFI_POINT("scrub.overwritten");
  }
  for (const auto& [segment, overwritten] : touched) {
    if (overwritten && !AFI_STEP("scrub.sync")) continue;
    if (overwritten && segment->file->sync()->wait(options.write_timeout)) continue;
    std::shared_ptr<Segment> held;
    {
      const MutexLock lock(index_mutex);
      if (const auto it = segments.find(segment->identity.segment); it != segments.end()) {
        held = it->second;
      }
    }
    if (held == nullptr) continue;
    if (held == active) abandon();
    const std::uint64_t live = held->live;
    AFI_TRY_VOID(drop(held));
    const MutexLock lock(index_mutex);
    stats.lost += live;
  }
  std::erase_if(unscrubbed, is_meant);
  return make_removals_safe();
}

/// Makes file removals durable: until then a power failure may bring a file back, with entries that
/// were erased since.
Result<void> SegmentLog::State::make_removals_safe() {
  if (!removed || !AFI_STEP("removal.sync")) return {};
  AFI_TRY([[maybe_unused]] const std::size_t synced, folder->sync()->wait(options.write_timeout));
  removed = false;
  return {};
}

Result<void> SegmentLog::State::evict() {
  // A replaced record that is not yet overwritten would become the newest when its successor is
  // evicted.
  if (!unscrubbed.empty() && AFI_STEP("evict.scrub.first")) AFI_TRY_VOID(commit());
  while (true) {
    std::shared_ptr<Segment> victim;
    {
      const MutexLock lock(index_mutex);
      const auto rank = [](const Segment& s) { return std::tuple(s.live > 0, s.last_use); };
      for (const auto& [id, segment] : segments) {
        if (segment->phase != Segment::Phase::kClosed) continue;
        if (victim == nullptr || rank(*segment) < rank(*victim)) victim = segment;
      }
    }
    if (victim != nullptr) {
      const std::uint64_t live = victim->live;
      AFI_TRY_VOID(drop(victim));
      const MutexLock lock(index_mutex);
      stats.evicted += live;
      return {};
    }
    // The only segments left may still have writes in flight.
    if (!in_flight.empty()) {
      AFI_TRY_VOID(complete_batch());
    } else if (!syncs.empty()) {
      AFI_TRY_VOID(finish_sync());
    } else {
      return fail(ErrorCode::kNoSpace, fmt::format("'{}' has no space for a segment of {} bytes",
                                                   folder->path(), options.segment_bytes.value()));
    }
  }
}

/// Removes segments whose sync failed: data that the system may have dropped must not count as
/// durable.
Result<void> SegmentLog::State::drop_doomed() {
  while (!doomed.empty()) {
    const std::shared_ptr<Segment> segment = *doomed.begin();
    const std::uint64_t live = segment->live;
    AFI_TRY_VOID(drop(segment));
    doomed.erase(segment);
    const MutexLock lock(index_mutex);
    stats.lost += live;
  }
  return {};
}

/// Removes a segment. The file first: while it exists, the index must know its entries.
Result<void> SegmentLog::State::drop(const std::shared_ptr<Segment>& segment) {
  {
    const MutexLock lock(index_mutex);
    if (!segments.contains(segment->identity.segment)) return {};
  }
  AFI_TRY_VOID(folder->remove(segment->name));
  unsynced.erase(segment);
  removed = true;
  AFI_POINT("segment.removed");
  std::erase_if(unscrubbed, [&](const LogEntry* entry) { return entry->segment == segment.get(); });
  const MutexLock lock(index_mutex);
  for (LogEntry& entry : segment->entries) {
    if (entry.state == LogEntry::State::kPending) continue;
    if (entry.state == LogEntry::State::kLive) index.erase(&entry);
    entry.state = LogEntry::State::kDead;
  }
  segment->live = 0;
  segments.erase(segment->identity.segment);
  stats.used -= Bytes(segment->size);
  return {};
}

}  // namespace afterimage
