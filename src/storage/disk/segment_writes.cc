// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The log's writing half: admission, batches, segments, syncs. Callers hold the writer lock.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "foundation/platform/fault_points.h"
#include "storage/disk/segment_log_state.h"

namespace afterimage {

/// Whether a record of so many blocks can be written now. Checks everything the write may have to
/// wait for before changing anything, so a refusal leaves nothing half done.
Result<bool> SegmentLog::State::admit(std::uint32_t blocks, Duration timeout) {
  AFI_TRY_VOID(harvest());
  if (options.append_timeout >= options.write_timeout) return true;  // may wait as long as needed
  if (!fits(blocks) && would_wait_for_a_segment()) {
    wants_commit = true;
    return false;
  }
  return wait_for_batches(batches_for(blocks), timeout);
}

/// Whether a new segment must wait: for a commit, before a footer hides the records that pending
/// ones replace; to overwrite dead records before their successors are evicted; or because no
/// segment can be evicted.
bool SegmentLog::State::would_wait_for_a_segment() {
  if (replacing || !unscrubbed.empty()) return true;
  const MutexLock lock(index_mutex);
  if (stats.used + options.segment_bytes <= options.capacity) return false;
  return std::ranges::none_of(
      segments, [](const auto& each) { return each.second->phase == Segment::Phase::kClosed; });
}

/// Number of batches a record needs beyond the one being filled.
std::size_t SegmentLog::State::batches_for(std::uint32_t blocks) const {
  const std::uint64_t size = options.batch_bytes.value();
  std::uint64_t bytes = std::uint64_t{blocks} * kDiskBlock;
  std::uint64_t left = batch.memory == nullptr ? 0 : size - batch.used;
  std::uint64_t needed = 0;
  if (!fits(blocks)) {
    bytes += kDiskBlock;  // a segment's header
    const std::uint64_t footer = active == nullptr ? 0 : footer_bytes(active->entries.size());
    needed = footer <= left ? 0 : (footer - left + size - 1) / size;
    left = 0;  // a segment's last batch is not shared
  }
  return needed + (bytes <= left ? 0 : (bytes - left + size - 1) / size);
}

/// Whether memory for `needed` batches becomes free within `timeout`.
Result<bool> SegmentLog::State::wait_for_batches(std::size_t needed, Duration timeout) {
  const SystemClock clock;
  const Duration end = clock.now() + timeout;
  while (!in_flight.empty() && buffers() + needed > options.batches) {
    Transfer& write = *in_flight.front().write;
    const auto moved = write.wait(std::max(Duration(0), end - clock.now()));
    if (!moved && moved.error().code == ErrorCode::kCancelled && !write.done()) return false;
    AFI_TRY_VOID(complete_batch());
  }
  while (spare.size() < needed) {
    auto fresh = AlignedBytes::create(options.batch_bytes.value(), memory);
    if (!fresh) {
      read_buffers->release();
      fresh = AlignedBytes::create(options.batch_bytes.value(), memory);
    }
    if (!fresh) {
      trim();
      return false;
    }
    spare.push_back(*std::move(fresh));
  }
  return true;
}

/// Number of batches in flight or being filled.
std::size_t SegmentLog::State::buffers() const {
  return in_flight.size() + (batch.memory == nullptr ? 0U : 1U);
}

/// Frees spare buffers beyond the limit, which an entry larger than all batches has used.
void SegmentLog::State::trim() {
  while (!spare.empty() && buffers() + spare.size() > options.batches) spare.pop_back();
}

Result<void> SegmentLog::State::append(RecordHeader& header, BytePieces value) {
  AFI_TRY_VOID(make_space(header.blocks));
  header.epoch = active->identity.epoch;
  header.offset = offset;
  header.sequence = next_sequence++;
  {
    const MutexLock lock(index_mutex);
    replacing = replacing || index.contains(*header.key);
  }
  active->entries.push_back(
      {.place = {.key = *header.key,
                 .sequence = header.sequence,
                 .block = static_cast<std::uint32_t>(offset / kDiskBlock),
                 .blocks = header.blocks,
                 .cost_ns = static_cast<std::uint64_t>(header.meta.cost.count())},
       .segment = active.get()});
  {
    const MutexLock lock(index_mutex);
    pending.emplace(*header.key, &active->entries.back());
  }
  static constexpr std::array<std::byte, kDiskBlock> kZeros{};
  AFI_TRY_VOID(stage(encode_record_header(header)));
  for (const auto piece : value) AFI_TRY_VOID(stage(piece));
  AFI_TRY_VOID(stage(std::span(kZeros).first((kDiskBlock - offset % kDiskBlock) % kDiskBlock)));
  batch.ends.push_back(&active->entries.back());
  if (batch.used == options.batch_bytes.value()) submit();
  trim();
  return {};
}

bool SegmentLog::State::fits(std::uint32_t blocks) const {
  return active != nullptr &&
         offset + std::uint64_t{blocks} * kDiskBlock + footer_bytes(active->entries.size() + 1) <=
             options.segment_bytes.value();
}

Result<void> SegmentLog::State::make_space(std::uint32_t blocks) {
  if (fits(blocks)) return {};
  if (active != nullptr) AFI_TRY_VOID(seal());
  return begin_segment();
}

/// Creates a file, evicting as many segments as the cap and the disk space require.
Result<std::shared_ptr<BlockFile>> SegmentLog::State::create_evicting(const std::string& name) {
  while (true) {
    Bytes used;
    {
      const MutexLock lock(index_mutex);
      used = stats.used;
    }
    if (!AFI_GUARD("cap.evict", used + options.segment_bytes <= options.capacity)) {
      AFI_TRY_VOID(evict());
      continue;
    }
    auto file = folder->create(name, options.segment_bytes.value());
    if (file || file.error().code != ErrorCode::kNoSpace || !evict()) return file;
  }
}

Result<void> SegmentLog::State::begin_segment() {
  auto segment = std::make_shared<Segment>();
  AFI_TRY(segment->identity.epoch, random_disk_id());
  segment->identity.store = store;
  segment->identity.segment = next_segment++;
  segment->name = segment_name(segment->identity.segment);
  segment->size = options.segment_bytes.value();
  segment->phase = Segment::Phase::kActive;
  AFI_TRY(segment->file, create_evicting(segment->name));
  AFI_FAILING_POINT("segment.created");
  {
    const MutexLock lock(index_mutex);
    segment->last_use = ++uses;
    stats.used += options.segment_bytes;
    segments[segment->identity.segment] = segment;
  }
  active = segment;
  offset = 0;
  if (AFI_STEP("segment.name.sync")) start_name_sync(segment);
  return stage(encode_segment_header(active->identity));
}

/// The footer may become durable before the records it lists, since every read verifies them. The
/// exception: a torn record that replaces an older one would hide it, so commit first.
Result<void> SegmentLog::State::seal() {
  if ((replacing || !unscrubbed.empty()) && AFI_STEP("seal.commit.first")) AFI_TRY_VOID(commit());
  if (active == nullptr) return {};  // the segment had to be removed
  std::vector<FooterEntry> places;
  for (const LogEntry& entry : active->entries) {
    if (entry.state != LogEntry::State::kDead) places.push_back(entry.place);
  }
  AFI_TRY_VOID(stage(encode_footer(active->identity, offset, places)));
  AFI_FAILING_POINT("footer.staged");
  batch.last = true;
  active->phase = Segment::Phase::kSealing;
  submit();
  active.reset();
  return {};
}

Result<void> SegmentLog::State::stage(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (batch.used == options.batch_bytes.value()) submit();
    if (batch.memory == nullptr) AFI_TRY_VOID(begin_batch());
    const std::size_t n =
        std::min<std::size_t>(bytes.size(), options.batch_bytes.value() - batch.used);
    std::memcpy(batch.memory->bytes().data() + batch.used, bytes.data(), n);
    batch.used += n;
    offset += n;
    bytes = bytes.subspan(n);
  }
  return {};
}

Result<void> SegmentLog::State::begin_batch() {
  if (spare.empty() && in_flight.size() >= options.batches) AFI_TRY_VOID(complete_batch());
  if (spare.empty()) {
    AFI_TRY(auto fresh, AlignedBytes::create(options.batch_bytes.value(), memory));
    spare.push_back(std::move(fresh));
  }
  batch = Batch{.memory = std::move(spare.back()), .segment = active, .offset = offset};
  spare.pop_back();
  return {};
}

void SegmentLog::State::submit() {
  if (batch.used == 0) return;
  submitted += batch.used;
  batch.write = batch.segment->file->write(batch.offset, batch.memory, batch.used);
  in_flight.push_back(std::exchange(batch, Batch{}));
  AFI_POINT("batch.submitted");
}

Result<void> SegmentLog::State::complete_batch() {
  AFI_TRY([[maybe_unused]] const std::size_t written,
          in_flight.front().write->wait(options.write_timeout));
  AFI_FAILING_POINT("batch.written");
  const Batch done = std::move(in_flight.front());
  in_flight.pop_front();
  spare.push_back(done.memory);
  trim();
  completed += done.used;
  unsynced.insert(done.segment);
  publish(done);
  if (done.last) {
    const std::uint64_t end = done.offset + done.used;
    if (auto cut = done.segment->file->truncate(end); !cut) {
      done.segment->phase = Segment::Phase::kClosed;
      return cut;
    }
    AFI_POINT("segment.shortened");
    const MutexLock lock(index_mutex);
    stats.used -= Bytes(done.segment->size - end);
    done.segment->size = end;
  }
  if (done.last || completed - sync_asked >= options.commit_bytes.value()) {
    start_sync(done.segment, done.last);
  }
  return {};
}

void SegmentLog::State::publish(const Batch& done) {
  for (LogEntry* entry : done.ends) {
    mark_dead(entry->place.key, std::nullopt);
    const MutexLock lock(index_mutex);
    index.insert(entry);
    no_longer_pending(*entry, LogEntry::State::kLive);
    ++entry->segment->live;
  }
}

void SegmentLog::State::start_sync(std::shared_ptr<Segment> segment, bool seals) {
  unsynced.erase(segment);
  auto transfer = segment->file->sync();
  syncs.push_back({.transfer = std::move(transfer),
                   .segment = std::move(segment),
                   .covers = completed,
                   .seals = seals});
  sync_asked = completed;
}

void SegmentLog::State::start_name_sync(const std::shared_ptr<Segment>& segment) {
  syncs.push_back({.transfer = folder->sync(), .segment = segment, .covers = durable});
}

/// A failed sync is not repeated: the system may have dropped data it could not write.
void SegmentLog::State::start_syncs() {
  while (!unsynced.empty()) start_sync(*unsynced.begin(), false);
}

Result<void> SegmentLog::State::finish_sync() {
  const Sync sync = std::move(syncs.front());
  syncs.pop_front();
  const auto done = sync.transfer->wait(options.write_timeout);
  AFI_POINT("sync.done");
  if (sync.seals) sync.segment->phase = Segment::Phase::kClosed;
  if (!done) {
    if (AFI_STEP("sync.failed.drop")) doomed.insert(sync.segment);
    AFI_TRY_VOID(drop_doomed());
    return std::unexpected(done.error());
  }
  durable = std::max(durable, sync.covers);
  return {};
}

Result<void> SegmentLog::State::harvest() {
  while (!in_flight.empty() && in_flight.front().write->done()) AFI_TRY_VOID(complete_batch());
  while (!syncs.empty() && syncs.front().transfer->done()) AFI_TRY_VOID(finish_sync());
  return {};
}

/// Submits what appends have copied, and waits until it is written, without the writer lock: appends
/// go on meanwhile. False: it is not within `timeout`.
Result<bool> SegmentLog::State::write_out(Duration timeout) {
  const SystemClock clock;
  const Duration end = clock.now() + timeout;
  std::optional<std::uint64_t> target;  // of `completed`
  while (true) {
    const auto left = [&] { return std::max(Duration(0), end - clock.now()); };
    std::shared_ptr<Transfer> write;
    {
      if (!writer_mutex.try_lock_for(left())) return false;
      const WriterLock lock(*this, std::adopt_lock);
      if (const auto done = harvest(); !done) {
        abandon();
        return std::unexpected(done.error());
      }
      if (!target && AFI_STEP("rest.write")) submit();
      if (!target) target = submitted;
      if (in_flight.empty() || completed >= *target) return true;
      write = in_flight.front().write;
    }
    const auto moved = write->wait(left());
    if (!moved && moved.error().code == ErrorCode::kCancelled && !write->done()) return false;
  }
}

Result<void> SegmentLog::State::drain() {
  submit();
  while (!in_flight.empty()) AFI_TRY_VOID(complete_batch());
  return {};
}

Result<void> SegmentLog::State::commit() {
  AFI_TRY_VOID(drop_doomed());
  if (AFI_STEP("commit.drain")) AFI_TRY_VOID(drain());
  if (AFI_STEP("commit.sync")) {
    start_syncs();
    while (!syncs.empty()) AFI_TRY_VOID(finish_sync());
  }
  AFI_FAILING_POINT("commit.before.burial");
  replacing = false;
  AFI_TRY_VOID(scrub());
  if (wants_commit) AFI_TRY_VOID(end_only_segment());
  wants_commit = false;
  return {};
}

/// A put found no room in the segment that is being written, and no other to evict: files of other
/// stores may take the rest of the capacity. Ends it, so that it can be evicted; puts would be refused
/// for ever.
Result<void> SegmentLog::State::end_only_segment() {
  if (active == nullptr || !would_wait_for_a_segment()) return {};
  AFI_TRY_VOID(seal());
  AFI_TRY_VOID(drain());
  while (!syncs.empty()) AFI_TRY_VOID(finish_sync());
  return {};
}

/// After a failed write: drops all writes in flight and closes every segment they belong to.
void SegmentLog::State::abandon() {
  SegmentSet broken;
  for (const Batch& lost : in_flight) broken.insert(lost.segment);
  if (batch.segment != nullptr) broken.insert(batch.segment);
  if (active != nullptr) broken.insert(active);
  in_flight.clear();
  batch = Batch{};
  active.reset();
  submitted = completed;
  const MutexLock lock(index_mutex);
  for (const std::shared_ptr<Segment>& segment : broken) {
    segment->phase = Segment::Phase::kClosed;
    for (LogEntry& entry : segment->entries) {
      if (entry.state != LogEntry::State::kPending) continue;
      no_longer_pending(entry, LogEntry::State::kDead);
      ++stats.lost;
      if (segments.contains(segment->identity.segment)) unscrubbed.push_back(&entry);
    }
  }
}

void SegmentLog::State::no_longer_pending(LogEntry& entry, LogEntry::State state) {
  AFI_CHECK(entry.state == LogEntry::State::kPending);
  entry.state = state;
  const auto [first, last] = pending.equal_range(entry.place.key);
  pending.erase(std::find_if(first, last, [&](const auto& each) { return each.second == &entry; }));
}

}  // namespace afterimage
