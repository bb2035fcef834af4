// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Recovers the files of an earlier process, however it ended. Safe to repeat or to interrupt.
#include <fmt/format.h>

#include <algorithm>

#include "afterimage/result.h"
#include "afterimage/secret.h"
#include "foundation/platform/fault_points.h"
#include "storage/disk/segment_log_state.h"

namespace afterimage {
namespace {

Result<SegmentLogOptions> checked(SegmentLogOptions options) {
  const auto whole_blocks = [](std::uint64_t bytes) { return bytes - bytes % kDiskBlock; };
  if (options.segment_bytes == 0_B) {
    options.segment_bytes = std::min(256_MiB, Bytes(options.capacity.value() / 8));
  }
  options.segment_bytes = Bytes(whole_blocks(options.segment_bytes.value()));
  options.batch_bytes =
      Bytes(whole_blocks(std::min(options.batch_bytes, options.segment_bytes).value()));
  if (options.segment_bytes < 64_KiB || options.segment_bytes > 1_GiB) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("segments of {} bytes: need at least 64 KiB and at most 1 GiB; a disk "
                            "tier's capacity must be at least 8 segments or 512 KiB",
                            options.segment_bytes.value()));
  }
  const std::uint64_t least = kStoreBytes + 2 * options.segment_bytes.value();
  if (options.capacity.value() < least) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a capacity of {} bytes is too small: two segments need {}",
                            options.capacity.value(), least));
  }
  if (options.batch_bytes == 0_B || options.batches < 2) {
    return fail(ErrorCode::kInvalidArgument, "need at least two batches of at least one block");
  }
  return options;
}

/// Before the first write: the system ends a process that exceeds its limit.
Result<void> check_file_limit(const BlockFolder& folder, const SegmentLogOptions& options) {
  const std::uint64_t most = folder.max_file_bytes();
  const std::uint64_t segment = options.segment_bytes.value();
  if (segment <= most && kStoreBytes <= most) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the segments in '{}' have {} bytes, and this process may write files of "
                          "at most {}: raise the limit (ulimit -f, or LimitFSIZE= in a systemd "
                          "unit), or make the disk tier's capacity at most eight times the limit",
                          folder.path(), segment, most));
}

}  // namespace

Result<DiskId> random_disk_id() {
  AFI_TRY(const auto secret, random_secret());
  DiskId id;
  std::copy_n(secret.begin(), id.size(), id.begin());
  return id;
}

Result<std::unique_ptr<SegmentLog>> SegmentLog::open(std::unique_ptr<BlockFolder> folder,
                                                     const SegmentLogOptions& options,
                                                     MemoryBudget& budget) {
  AFI_TRY(const SegmentLogOptions good, checked(options));
  AFI_TRY_VOID(check_file_limit(*folder, good));
  auto state = std::make_unique<State>(std::move(folder), good, budget);
  {
    const WriterLock lock(*state);
    AFI_TRY_VOID(state->recover());
  }
  return std::unique_ptr<SegmentLog>(new SegmentLog(std::move(state)));
}

Result<void> SegmentLog::State::recover() {
  AFI_TRY(const std::vector<std::string> names, folder->list());
  AFI_TRY_VOID(recover_name(std::ranges::binary_search(names, kStoreName)));
  {
    const MutexLock lock(index_mutex);
    stats.used = Bytes(kStoreBytes);
  }
  for (const std::string& name : names) {
    const auto number = segment_number(name);
    if (!number) continue;
    next_segment = std::max(next_segment, *number + 1);
    AFI_TRY_VOID(recover_segment(name, *number));
    AFI_FAILING_POINT("recovery.segment");
  }
  AFI_TRY_VOID(recover_cap());
  const MutexLock lock(index_mutex);
  recovery.segments = segments.size();
  recovery.entries = EntryCount(index.size());
  return {};
}

/// Reads the store id. If it is lost, creates a new one, and existing segments become foreign.
Result<void> SegmentLog::State::recover_name(bool known) {
  if (known) {
    AFI_TRY(const auto file, folder->open(kStoreName));
    AFI_TRY(const auto room, AlignedBytes::create(kStoreBytes, memory));
    AFI_TRY(const auto bytes, read_blocks(*file, 0, room, kStoreBytes, options.write_timeout));
    const auto name = decode_store(bytes);
    if (!name && name.error().code == ErrorCode::kUnsupported) {
      return other_version(folder->path(), name.error());
    }
    if (name) {
      store = *name;
      // One copy is enough. Restores the second; if that fails, the next start tries again.
      const auto whole = encode_store(store);
      if (!std::ranges::equal(bytes, whole) &&
          write_blocks(*file, 0, whole, options.write_timeout, memory)) {
        static_cast<void>(file->sync()->wait(options.write_timeout));
      }
      return {};
    }
    AFI_TRY_VOID(folder->remove(kStoreName));
  }
  AFI_TRY(store, random_disk_id());
  AFI_TRY(const auto file, folder->create(kStoreName, kStoreBytes));
  AFI_FAILING_POINT("store.created");
  AFI_TRY_VOID(write_blocks(*file, 0, encode_store(store), options.write_timeout, memory));
  AFI_FAILING_POINT("store.written");
  AFI_TRY([[maybe_unused]] const std::size_t a, file->sync()->wait(options.write_timeout));
  AFI_TRY([[maybe_unused]] const std::size_t b, folder->sync()->wait(options.write_timeout));
  return {};
}

Result<void> SegmentLog::State::recover_segment(const std::string& name, std::uint64_t number) {
  auto segment = std::make_shared<Segment>();
  segment->name = name;
  auto file = folder->open(name);
  auto size = file ? (*file)->size() : Result<std::uint64_t>(std::unexpected(file.error()));
  auto found = size ? find_segment(**file, store, number, options.write_timeout, memory, recovery)
                    : Result<FoundSegment>(std::unexpected(size.error()));
  if (!found && found.error().code == ErrorCode::kCorruption) {
    ++recovery.foreign_files;
    foreign += *size;
    const MutexLock lock(index_mutex);
    stats.used += Bytes(*size);
    return {};
  }
  if (!found && found.error().code == ErrorCode::kNoSpace) return std::unexpected(found.error());
  if (!found) {
    // If it stayed, it might become readable later and bring back entries erased since.
    ++recovery.dropped_segments;
    return folder->remove(name);
  }
  segment->identity = found->identity;
  segment->file = *file;
  segment->size = *size;
  {
    const MutexLock lock(index_mutex);
    segments[number] = segment;
    stats.used += Bytes(segment->size);
    for (const FooterEntry& place : found->entries) {
      next_sequence = std::max(next_sequence, place.sequence + 1);
      segment->entries.push_back(
          {.place = place, .segment = segment.get(), .state = LogEntry::State::kDead});
      LogEntry& entry = segment->entries.back();
      const auto [it, fresh] = index.insert(&entry);
      LogEntry* const other = *it;
      if (!fresh && !AFI_GUARD("recovery.newest", other->place.sequence < place.sequence)) {
        unscrubbed.push_back(&entry);
        continue;
      }
      if (!fresh) {
        other->state = LogEntry::State::kDead;
        --other->segment->live;
        unscrubbed.push_back(other);
        index.erase(it);
        index.insert(&entry);
      }
      entry.state = LogEntry::State::kLive;
      ++segment->live;
    }
  }
  if (!found->sealed) reseal(*segment, *found);
  return {};
}

/// Writes the footer of a scanned segment, so that the next start need not scan it. If that fails,
/// the next start scans it again.
void SegmentLog::State::reseal(Segment& segment, const FoundSegment& found) {
  const std::vector<std::byte> footer = encode_footer(segment.identity, found.end, found.entries);
  const std::uint64_t end = found.end + footer.size();
  if (end > std::max(segment.size, options.segment_bytes.value())) return;
  if (!write_blocks(*segment.file, found.end, footer, options.write_timeout, memory)) return;
  AFI_POINT("reencrypt.written");
  if (!segment.file->truncate(end)) return;
  AFI_POINT("reencrypt.shortened");
  static_cast<void>(segment.file->sync()->wait(options.write_timeout));
  const MutexLock lock(index_mutex);
  stats.used -= Bytes(segment.size);
  segment.size = end;
  stats.used += Bytes(end);
}

/// Evicts segments, oldest first, until the cap holds.
Result<void> SegmentLog::State::recover_cap() {
  while (true) {
    {
      const MutexLock lock(index_mutex);
      if (AFI_GUARD("cap.recovery", stats.used <= options.capacity)) return {};
      if (segments.empty()) {
        return fail(ErrorCode::kNoSpace,
                    fmt::format("{} files in '{}' are named like segments but are not this "
                                "store's; they leave no space within {} bytes: remove them",
                                recovery.foreign_files, folder->path(), options.capacity.value()));
      }
    }
    AFI_TRY_VOID(evict());
    ++recovery.dropped_segments;
  }
}

}  // namespace afterimage
