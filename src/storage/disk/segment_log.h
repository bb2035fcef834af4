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
  std::uint64_t segments = 0;          // taken over
  std::uint64_t scanned = 0;           // of those, read through because they had no good footer
  EntryCount entries;                  // found again
  std::uint64_t torn_entries = 0;      // begun but not whole: never served
  Bytes torn_bytes;                    // of those
  std::uint64_t foreign_files = 0;     // named like segments, but not this store's: left alone
  std::uint64_t dropped_segments = 0;  // could not be read, or more than the cap allows: removed
  Bytes bytes_read;                    // by all this
};

struct SegmentLogStats {
  EntryCount entries;
  Bytes used;         // all segments as they lie on disk, the open one at its full size
  Bytes uncommitted;  // what a power failure now would lose at most
  std::uint64_t evicted = 0;
  std::uint64_t damaged = 0;
  std::uint64_t lost = 0;  // entries that were taken in but could not be written
};

/// Entries appended to large files: one write each, in order, a few in flight.
///
/// Shape    docs/formats/segment.md. Files: `store.afi`, `segment-<id>.afi`, `lock`.
/// Visible  An entry is found once its write has completed, and safe from a power failure once
///          commit() has returned or a later sync of its own has. kill -9 loses what was not yet
///          written: at most batches x batch_bytes, or one larger entry.
/// Append   Copies and goes; it is refused rather than kept waiting. An entry larger than all
///          batches gets memory of its own from the budget until it is written.
/// Read     Header, epoch, place, full key, length and checksum are compared at every read. What
///          differs is a miss, counted, and its place is overwritten.
/// Erase    Overwrites the record's header where it lies and syncs, so that neither a footer nor a
///          scan brings it back. What cannot be overwritten goes with its whole segment.
/// Evict    Whole segments: empty ones at once, else the one that was not read for longest.
/// Errors   kLimitExceeded: larger than a segment; kNoSpace: the disk is full; kUnavailable: it
///          refused, or took longer than its patience: what was under way is lost, and counted.
///          After a failed write the next append begins a new segment.
/// Threads  Any. Writers queue for one another, also while the device works; readers and stats()
///          never wait for them.
class SegmentLog {
 public:
  /// Takes over what is in `folder`. `budget` pays for the batches and for idle memory of reads,
  /// and outlives the log. kInvalidArgument: sizes that do not fit together; kCorruption: the
  /// store's name is lost.
  static Result<std::unique_ptr<SegmentLog>> open(std::unique_ptr<BlockFolder> folder,
                                                  const SegmentLogOptions& options,
                                                  MemoryBudget& budget);
  /// Commits and seals, as far as the disk allows.
  ~SegmentLog();
  SegmentLog(const SegmentLog&) = delete;
  SegmentLog& operator=(const SegmentLog&) = delete;

  /// Whether it was taken in. False, with nothing changed: the device is so far behind that it
  /// would have waited for longer than append_timeout, or the budget has no memory for the copy.
  Result<bool> append(const TierKey& key, const EntryMeta& meta, std::span<const std::byte> value);
  /// kUnavailable, kCancelled: the device failed or was too slow; the entry stays.
  Result<std::optional<TierEntry>> read(const TierKey& key, MemoryBudget& room);
  /// Whether there was one.
  Result<bool> erase(const TierKey& key);
  Result<void> commit();
  /// Whether an append was refused that can only go on after a commit(): replaced or damaged
  /// records must be overwritten before there is a new segment. Somebody with time should call it.
  [[nodiscard]] bool wants_commit() const;

  [[nodiscard]] bool contains(const TierKey& key) const;
  /// Whether one was taken in whose write has not completed.
  [[nodiscard]] bool is_pending(const TierKey& key) const;
  /// Of what contains() finds; its bytes are those of its blocks.
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const;
  [[nodiscard]] const DiskRecovery& recovery() const;
  [[nodiscard]] SegmentLogStats stats() const;
  [[nodiscard]] std::string backend() const;
  /// Recounts everything; aborts where the books disagree.
  void check_invariants() const;

 private:
  friend class WriterLock;
  struct State;
  explicit SegmentLog(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
