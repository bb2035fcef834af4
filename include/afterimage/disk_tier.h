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

/// How the tier talks to the disk.
enum class DiskBackend : std::uint8_t {
  kBest,     // io_uring where the kernel lets us, threads elsewhere
  kThreads,  // pread and pwrite on threads of our own
};

struct SegmentLogOptions {
  Bytes capacity = 1_GiB;       // hard cap on all segments, as they lie on disk
  Bytes segment_bytes;          // 0: an eighth of the capacity, at most 256 MiB
  Bytes batch_bytes = 2_MiB;    // one write; so large that it is on a huge page
  std::uint32_t batches = 8;    // writes in flight at most; their memory is batches x batch_bytes
  Bytes commit_bytes = 64_MiB;  // a sync is started after so many
  Bytes idle_bytes = 16_MiB;    // memory of past reads kept for the next, at most
  Duration read_timeout = std::chrono::milliseconds(250);
  Duration write_timeout = std::chrono::seconds(10);  // for a write or a sync
  /// For an append's turn and for room in the batches; then it is refused. At least write_timeout:
  /// appends wait as commits do, for tools and benchmarks that have nothing else to do.
  Duration append_timeout = std::chrono::milliseconds(10);
};

struct DiskTierOptions {
  SegmentLogOptions log;
  DiskBackend backend = DiskBackend::kBest;
  /// After a write that failed, or `failure_threshold` reads in a row, the tier leaves the disk alone for so
  /// long: puts are refused and gets miss at once. Then one operation tries again.
  Duration open_duration = std::chrono::seconds(5);
  std::uint32_t failure_threshold = 3;
  /// Whether a thread of the tier's own does what puts would have to wait for. Else nobody does
  /// until catch_up() is called.
  bool own_thread = true;
};

/// Entries in a folder on disk.
///
/// Unit     Bytes on disk, the open segment at its full size, under a hard cap.
/// Errors   See Tier. open() fails, with what to do, if the folder cannot be used; afterwards a bad
///          disk costs hits and never a crash: stats().trouble says why. A put that would have to
///          wait for the disk (SegmentLogOptions::append_timeout) is refused with kUnavailable.
/// Visible  flush() returns once everything put before is safe from a power failure. An entry is
///          found earlier, when its write has completed.
/// Threads  Any; one of its own does what puts would have to wait for. flush() and erase() wait for
///          the disk.
/// Source   src/disk/DESIGN.md, docs/formats/segment.md.
class DiskTier final : public Tier {
 public:
  /// `memory` pays for what is in flight to the disk, `clock` for patience; both outlive the tier.
  static Result<std::unique_ptr<DiskTier>> open(const std::string& folder,
                                                const DiskTierOptions& options,
                                                MemoryBudget& memory, const Clock& clock);
  /// The same over a folder of blocks of the caller's.
  static Result<std::unique_ptr<DiskTier>> open(std::unique_ptr<BlockFolder> folder,
                                                const DiskTierOptions& options,
                                                MemoryBudget& memory, const Clock& clock);
  ~DiskTier() override;
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override;
  Result<void> flush() override;
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  [[nodiscard]] bool is_pending(const TierKey& key) const override;
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override;
  [[nodiscard]] TierStats stats() const override;

  /// Does what a refused put would have had to wait for, if there is anything. Waits for the disk.
  void catch_up();

  [[nodiscard]] const SegmentLog& log() const;

 private:
  struct State;
  explicit DiskTier(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
