// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"

namespace afterimage {

class BlockFolder;
class SegmentLog;

struct SegmentLogOptions {
  Bytes capacity = 1_GiB;       // hard cap on all segments, by their size on disk
  Bytes segment_bytes;          // 0: an eighth of the capacity, at most 256 MiB
  Bytes batch_bytes = 2_MiB;    // size of one write; the default is one huge page
  std::uint32_t batches = 8;    // most writes in flight; they use batches x batch_bytes of memory
  Bytes commit_bytes = 64_MiB;  // a sync is started after so many bytes
  Bytes idle_bytes = 16_MiB;    // most memory of idle read buffers
  Duration read_timeout = std::chrono::milliseconds(250);
  Duration write_timeout = std::chrono::seconds(10);  // for a write or a sync
  /// How long an append may wait for the writer lock and for space in the batches before it is
  /// refused. If it is at least write_timeout, appends wait as long as commits do: for tools and
  /// benchmarks that have nothing else to do.
  Duration append_timeout = std::chrono::milliseconds(10);
};

struct DiskTierOptions {
  SegmentLogOptions log;
  bool uring = true;  // io_uring where the kernel allows it, threads elsewhere; false: threads
  /// Longest time that an accepted entry waits for its write, if the disk keeps up: how much a
  /// kill -9 can lose. Above zero.
  Duration flush_interval = std::chrono::seconds(1);
  /// After a failed write, or `failure_threshold` failed reads in a row, the tier stops using the
  /// disk for this long: puts are refused and gets miss at once. Then one operation tries again.
  Duration open_duration = std::chrono::seconds(5);
  std::uint32_t failure_threshold = 3;
  /// Whether an internal thread calls catch_up() after every flush_interval, and when puts would
  /// otherwise have to wait. False: the owner calls it.
  bool own_thread = true;
};

/// Entries in a folder on disk.
///
/// Unit     Bytes on disk, the open segment at its full size, under a hard cap.
/// Errors   See Tier. open() fails if the folder cannot be used; its message says what to do. Later
///          disk failures cost hits and never a crash: stats().degraded_reason says why. A put that
///          would have to wait for the disk longer than SegmentLogOptions::append_timeout is
///          refused with kUnavailable.
/// Visible  At once: a get finds an entry that is not written yet in its batch. An entry survives
///          kill -9 after at most DiskTierOptions::flush_interval and the time of the write; a sync
///          follows, after which it survives a power failure. flush() returns once everything put
///          before does.
/// Threads  Any. An internal thread writes, and does the work that puts would have to wait for.
///          flush() and erase() wait for the disk.
/// Source   src/storage/disk/DESIGN.md, docs/formats/segment.md.
class DiskTier final : public Tier {
 public:
  /// `memory` pays for writes in flight, `clock` times the circuit breaker; both outlive the tier.
  static Result<std::unique_ptr<DiskTier>> open(const std::string& folder,
                                                const DiskTierOptions& options,
                                                MemoryBudget& memory, const Clock& clock);
  /// The same over a block folder supplied by the caller.
  static Result<std::unique_ptr<DiskTier>> open(std::unique_ptr<BlockFolder> folder,
                                                const DiskTierOptions& options,
                                                MemoryBudget& memory, const Clock& clock);
  ~DiskTier() override;
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    return put_pieces(key, meta, {&bytes, 1});
  }
  Result<void> put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  /// get() of an entry of exactly the target's size, into it, with a copy less. False: a miss, or an
  /// entry of another size; the target may have been changed.
  Result<bool> read_into(const TierKey& key, std::span<std::byte> target, MemoryBudget& room);
  Result<void> erase(const TierKey& key) override;
  Result<EntryCount> erase_matching(const EntryFilter& filter) override;
  Result<void> flush() override;
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  [[nodiscard]] bool is_pending(const TierKey& key) const override;
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override;
  [[nodiscard]] TierStats stats() const override;

  /// Writes what was put and is not written yet, and does the work that refused puts would have had
  /// to wait for. Waits for the disk.
  void catch_up();

  [[nodiscard]] const SegmentLog& log() const;

 private:
  struct State;
  explicit DiskTier(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
