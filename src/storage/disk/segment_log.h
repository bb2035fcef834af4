// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "afterimage/disk_tier.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "storage/block_io/block_files.h"

namespace afterimage {

/// What was found on disk when the log was opened.
struct DiskRecovery {
  std::uint64_t segments = 0;          // recovered
  std::uint64_t scanned = 0;           // of those, scanned because they had no valid footer
  EntryCount entries;                  // recovered
  std::uint64_t torn_entries = 0;      // incompletely written: never served
  Bytes torn_bytes;                    // of those
  std::uint64_t foreign_files = 0;     // named like segments, but not of this store: left alone
  std::uint64_t dropped_segments = 0;  // unreadable, or beyond the cap: removed
  Bytes bytes_read;                    // during recovery
};

struct SegmentLogStats {
  EntryCount entries;
  Bytes used;         // size of all segments on disk, the open one at its full size
  Bytes uncommitted;  // most bytes that a power failure now would lose
  std::uint64_t evicted = 0;
  std::uint64_t damaged = 0;
  std::uint64_t lost = 0;  // entries that were accepted but could not be written
};

/// Entries appended to large files: one write each, in order, a few in flight.
///
/// Shape    docs/formats/segment.md. Files: `store.afi`, `segment-<id>.afi`, `lock`.
/// Visible  An entry survives kill -9 once its write has completed, and a power failure once
///          commit() or a later background sync has returned. Writes begin when a batch is full, and
///          at write_out(): kill -9 loses what was appended since, and what is in flight. A read of
///          an entry that is not written yet copies it out of its batch.
/// Append   Copies the entry and returns; it is refused rather than kept waiting. An entry larger
///          than all batches together gets its own memory from the budget until it is written.
/// Read     Header, epoch, place, full key, length and checksum are compared at every read. A
///          mismatch is a miss, counted, and the record is overwritten.
/// Erase    Overwrites the record's header in place and syncs, so that neither a footer nor a scan
///          brings it back. If it cannot be overwritten, its whole segment is removed.
/// Evict    Whole segments: empty ones at once, otherwise the least recently read one.
/// Errors   kLimitExceeded: larger than a segment; kNoSpace: the disk is full; kUnavailable: the
///          disk failed or exceeded its timeout: operations in flight are lost, and counted. After
///          a failed write the next append begins a new segment.
/// Threads  Any. Writers wait for each other, also during device I/O; stats() and readers of written
///          entries never wait for writers.
class SegmentLog {
 public:
  /// Recovers what is in `folder`. `budget` pays for the batches and for idle read buffers, and
  /// must outlive the log. kInvalidArgument: inconsistent sizes in `options`, or segments that this
  /// process may not write; kUnsupported: another version wrote the folder, and nothing is changed.
  static Result<std::unique_ptr<SegmentLog>> open(std::unique_ptr<BlockFolder> folder,
                                                  const SegmentLogOptions& options,
                                                  MemoryBudget& budget);
  /// Commits and seals, as far as the disk allows.
  ~SegmentLog();
  SegmentLog(const SegmentLog&) = delete;
  SegmentLog& operator=(const SegmentLog&) = delete;

  /// Whether the entry was accepted. False, with nothing changed: the device is so far behind that
  /// the append would have waited longer than append_timeout, or the budget has no memory for the
  /// copy.
  Result<bool> append(const TierKey& key, const EntryMeta& meta, BytePieces value);
  Result<bool> append(const TierKey& key, const EntryMeta& meta, std::span<const std::byte> value) {
    return append(key, meta, BytePieces(&value, 1));
  }
  /// kUnavailable, kCancelled: the device failed or was too slow; the entry stays.
  Result<std::optional<TierEntry>> read(const TierKey& key, MemoryBudget& room);
  /// read() of an entry of exactly the target's size into it: piece by piece, so that the bytes are
  /// verified and copied while they are in the processor's cache. False: a miss, or an entry of another
  /// size; the target may have been changed.
  Result<bool> read_into(const TierKey& key, std::span<std::byte> target, MemoryBudget& room);
  /// Whether there was an entry.
  Result<bool> erase(const TierKey& key);
  /// Reads the header of each entry and erases those that the filter matches, with one sync for all.
  /// An entry whose header is damaged is erased, too.
  Result<EntryCount> erase_matching(const EntryFilter& filter);
  Result<void> commit();
  /// Writes what was appended before, without waiting for a batch to fill, and starts a sync of it.
  /// Appends go on meanwhile. Returns whether there was anything to write or to sync.
  Result<bool> write_out();
  /// Whether an append was refused because a commit() is needed first: replaced or damaged records
  /// must be overwritten before a new segment begins. Call commit() from a thread that may wait.
  [[nodiscard]] bool wants_commit() const;

  /// Whether the entry is written.
  [[nodiscard]] bool contains(const TierKey& key) const;
  /// Whether an entry was accepted whose write has not completed.
  [[nodiscard]] bool is_pending(const TierKey& key) const;
  /// Metadata of an entry that is written or pending; its size is that of its blocks.
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const;
  [[nodiscard]] const DiskRecovery& recovery() const;
  [[nodiscard]] SegmentLogStats stats() const;
  /// Recounts everything; aborts if the counters disagree.
  void check_invariants() const;

 private:
  friend class WriterLock;
  struct State;
  explicit SegmentLog(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
