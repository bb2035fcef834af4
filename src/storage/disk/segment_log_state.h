// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_mutex.h"
#include "storage/block_io/read_buffers.h"
#include "storage/disk/segment_log.h"
#include "storage/disk/segments.h"
#include "storage/memory/tier_key_hash.h"

/// The log's private state. segment_log.cc has the calls, segment_writes.cc and segment_removal.cc the
/// work of writers, segment_recovery.cc opens.
namespace afterimage {

struct SegmentLog::State {
  State(std::unique_ptr<BlockFolder> its_folder, const SegmentLogOptions& its_options,
        MemoryBudget& budget)
      : folder(std::move(its_folder)),
        options(its_options),
        memory(budget),
        read_buffers(std::make_shared<ReadBuffers>(budget, its_options.idle_bytes)) {}

  /// Part of a segment on its way to the disk.
  struct Batch {
    std::shared_ptr<AlignedBytes> memory;
    std::size_t used = 0;
    std::shared_ptr<Segment> segment;
    std::uint64_t offset = 0;
    std::vector<LogEntry*> ends;      // entries whose last byte is in here
    bool last = false;                // of its segment
    std::shared_ptr<Transfer> write;  // also of those who wait for it without the lock
  };
  struct Sync {
    std::unique_ptr<Transfer> transfer;
    std::shared_ptr<Segment> segment;  // the segment that is removed if this sync fails
    std::uint64_t covers = 0;          // of all bytes ever submitted
    bool seals = false;
  };

  // Opening.
  Result<void> recover() AFI_REQUIRES(writer_mutex);
  Result<void> recover_name(bool known) AFI_REQUIRES(writer_mutex);
  Result<void> recover_segment(const std::string& name, std::uint64_t number)
      AFI_REQUIRES(writer_mutex);
  Result<void> recover_cap() AFI_REQUIRES(writer_mutex);
  void reseal(Segment& segment, const FoundSegment& found) AFI_REQUIRES(writer_mutex);

  // Writing.
  Result<bool> admit(std::uint32_t blocks, Duration timeout) AFI_REQUIRES(writer_mutex);
  [[nodiscard]] bool fits(std::uint32_t blocks) const AFI_REQUIRES(writer_mutex);
  [[nodiscard]] bool would_wait_for_a_segment() AFI_REQUIRES(writer_mutex);
  [[nodiscard]] std::size_t batches_for(std::uint32_t blocks) const AFI_REQUIRES(writer_mutex);
  Result<bool> wait_for_batches(std::size_t needed, Duration timeout) AFI_REQUIRES(writer_mutex);
  [[nodiscard]] std::size_t buffers() const AFI_REQUIRES(writer_mutex);
  void trim() AFI_REQUIRES(writer_mutex);
  Result<void> append(RecordHeader& header, BytePieces value) AFI_REQUIRES(writer_mutex);
  Result<void> make_space(std::uint32_t blocks) AFI_REQUIRES(writer_mutex);
  Result<void> begin_segment() AFI_REQUIRES(writer_mutex);
  Result<std::shared_ptr<BlockFile>> create_evicting(const std::string& name)
      AFI_REQUIRES(writer_mutex);
  Result<void> seal() AFI_REQUIRES(writer_mutex);
  Result<void> stage(std::span<const std::byte> bytes) AFI_REQUIRES(writer_mutex);
  Result<void> begin_batch() AFI_REQUIRES(writer_mutex);
  void submit() AFI_REQUIRES(writer_mutex);
  Result<void> complete_batch() AFI_REQUIRES(writer_mutex);
  void publish(const Batch& batch) AFI_REQUIRES(writer_mutex);
  void start_sync(std::shared_ptr<Segment> segment, bool seals) AFI_REQUIRES(writer_mutex);
  void start_name_sync(const std::shared_ptr<Segment>& segment) AFI_REQUIRES(writer_mutex);
  void start_syncs() AFI_REQUIRES(writer_mutex);
  Result<void> finish_sync() AFI_REQUIRES(writer_mutex);
  Result<void> harvest() AFI_REQUIRES(writer_mutex);
  Result<bool> write_out(Duration timeout) AFI_EXCLUDES(writer_mutex);
  Result<void> drain() AFI_REQUIRES(writer_mutex);
  Result<void> commit() AFI_REQUIRES(writer_mutex);
  Result<void> end_only_segment() AFI_REQUIRES(writer_mutex);
  void abandon() AFI_REQUIRES(writer_mutex);

  // Removing.
  Result<void> scrub(const TierKey* only = nullptr) AFI_REQUIRES(writer_mutex);
  Result<void> make_removals_safe() AFI_REQUIRES(writer_mutex);
  Result<void> overwrite(const LogEntry& entry) AFI_REQUIRES(writer_mutex);
  Result<void> evict() AFI_REQUIRES(writer_mutex);
  Result<void> drop(const std::shared_ptr<Segment>& segment) AFI_REQUIRES(writer_mutex);
  Result<void> drop_doomed() AFI_REQUIRES(writer_mutex);
  bool mark_dead(const TierKey& key, std::optional<std::uint64_t> sequence)
      AFI_REQUIRES(writer_mutex);
  struct LiveEntry {
    FooterEntry place;
    DiskId epoch;
    std::shared_ptr<BlockFile> file;
  };
  [[nodiscard]] std::vector<LiveEntry> live_entries() const;
  /// Where a written entry lies.
  struct Located {
    FooterEntry place;
    DiskId epoch;
    std::shared_ptr<BlockFile> file;
  };
  [[nodiscard]] std::optional<Located> locate(const TierKey& key);
  /// About the size of a piece that stays in a core's cache while it is verified and copied.
  static constexpr std::size_t kPieceBytes = std::size_t{256} << 10U;
  Result<bool> read_pieces(const Located& found, std::span<std::byte> target, MemoryBudget& room);
  Result<std::optional<TierEntry>> read_pending(const TierKey& key, MemoryBudget& room)
      AFI_EXCLUDES(writer_mutex);
  Result<EntryCount> erase_all(std::span<const TierKey> keys);
  Result<std::optional<EntryMeta>> read_meta(const LiveEntry& entry);
  void no_longer_pending(LogEntry& entry, LogEntry::State state)
      AFI_REQUIRES(writer_mutex, index_mutex);

  const std::unique_ptr<BlockFolder> folder;
  const SegmentLogOptions options;
  MemoryBudget& memory;
  const std::shared_ptr<ReadBuffers> read_buffers;
  DiskId store{};
  DiskRecovery recovery;

  // Lock `writer_mutex` before `index_mutex`. An entry's state changes only under both.
  mutable TimedMutex writer_mutex;
  std::shared_ptr<Segment> active AFI_GUARDED_BY(writer_mutex);
  std::uint64_t offset AFI_GUARDED_BY(writer_mutex) =
      0;                                     // next write position in the active segment
  Batch batch AFI_GUARDED_BY(writer_mutex);  // being filled
  std::deque<Batch> in_flight AFI_GUARDED_BY(writer_mutex);
  std::vector<std::shared_ptr<AlignedBytes>> spare AFI_GUARDED_BY(writer_mutex);
  std::deque<Sync> syncs AFI_GUARDED_BY(writer_mutex);
  /// Segments with completed writes that no sync covers yet, even if nothing more is added to them.
  SegmentSet unsynced AFI_GUARDED_BY(writer_mutex);
  /// Segments whose sync failed and that could not be removed yet.
  SegmentSet doomed AFI_GUARDED_BY(writer_mutex);
  /// Dead entries whose records still look live on disk.
  std::vector<const LogEntry*> unscrubbed AFI_GUARDED_BY(writer_mutex);
  bool removed AFI_GUARDED_BY(writer_mutex) = false;    // a file; a power failure may bring it back
  bool replacing AFI_GUARDED_BY(writer_mutex) = false;  // an uncommitted entry replaces another
  std::uint64_t next_sequence AFI_GUARDED_BY(writer_mutex) = 1;
  std::uint64_t next_segment AFI_GUARDED_BY(writer_mutex) = 1;
  std::uint64_t submitted AFI_GUARDED_BY(writer_mutex) = 0;
  std::uint64_t completed AFI_GUARDED_BY(writer_mutex) = 0;
  std::uint64_t sync_asked AFI_GUARDED_BY(writer_mutex) = 0;
  std::uint64_t durable AFI_GUARDED_BY(writer_mutex) = 0;
  std::uint64_t foreign AFI_GUARDED_BY(writer_mutex) = 0;  // bytes under the cap of foreign files

  mutable Mutex index_mutex;
  EntryIndex index AFI_GUARDED_BY(index_mutex);
  std::unordered_multimap<TierKey, const LogEntry*, TierKeyHash> pending
      AFI_GUARDED_BY(index_mutex);
  std::map<std::uint64_t, std::shared_ptr<Segment>> segments AFI_GUARDED_BY(index_mutex);
  std::uint64_t uses AFI_GUARDED_BY(index_mutex) = 0;
  SegmentLogStats stats AFI_GUARDED_BY(index_mutex);  // `used` is what is charged to the cap

  std::atomic<bool> wants_commit{false};
  std::atomic<std::uint64_t> uncommitted{0};  // as of the last writer
};

/// Holds `writer_mutex`, and publishes the uncommitted bytes when released, so stats() needs no
/// lock.
class AFI_THREAD_ANNOTATION(scoped_lockable) WriterLock {
 public:
  explicit WriterLock(SegmentLog::State& state)
      AFI_THREAD_ANNOTATION(acquire_capability(state.writer_mutex))
      : state_(state) {
    state.writer_mutex.lock();
  }
  /// Adopts a lock that is already held.
  WriterLock(SegmentLog::State& state, std::adopt_lock_t) AFI_REQUIRES(state.writer_mutex)
      : state_(state) {}
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  ~WriterLock() AFI_THREAD_ANNOTATION(release_capability()) {
    state_.uncommitted = state_.submitted + state_.batch.used - state_.durable;
    state_.writer_mutex.unlock();
  }

 private:
  SegmentLog::State& state_;
};

Result<DiskId> random_disk_id();

}  // namespace afterimage
