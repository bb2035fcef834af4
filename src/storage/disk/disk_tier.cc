// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/disk_tier.h"

#include <functional>
#include <optional>
#include <thread>

#include "foundation/platform/fault_points.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "storage/block_io/block_files.h"
#include "storage/disk/segment_log.h"
#include "storage/memory/circuit_breaker.h"

namespace afterimage {
namespace {

/// Runs long work on its own thread, on request and after every interval.
class Housekeeper {
 public:
  Housekeeper(std::function<void()> work, Duration every)
      : work_(std::move(work)), every_(every), thread_([this] { run(); }) {}
  Housekeeper(const Housekeeper&) = delete;
  Housekeeper& operator=(const Housekeeper&) = delete;
  ~Housekeeper() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void request() {
    {
      const MutexLock lock(mutex_);
      requested_ = true;
    }
    changed_.notify_all();
  }

 private:
  void run() {
    while (wait()) work_();
  }
  /// Waits for a request or the interval. False: the thread should stop.
  bool wait() {
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, every_,
                      [this]() AFI_REQUIRES(mutex_) { return requested_ || stopping_; });
    requested_ = false;
    return !stopping_;
  }

  const std::function<void()> work_;
  const Duration every_;
  Mutex mutex_;
  TimedCondition changed_;
  bool requested_ AFI_GUARDED_BY(mutex_) = false;
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the other members
};

/// Whether the disk failed, as opposed to an invalid call or a full memory budget.
bool is_disk_failure(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kCancelled ||
         error.code == ErrorCode::kNotFound || error.code == ErrorCode::kNoSpace;
}

constexpr const char* kBehind =
    "the disk is slower than the puts, or there is no memory for writes in flight";

}  // namespace

struct DiskTier::State {
  State(std::unique_ptr<SegmentLog> its_log, const DiskTierOptions& its_options,
        const Clock& its_clock)
      : log(std::move(its_log)),
        options(its_options),
        clock(its_clock),
        reads(CircuitBreakerOptions::in_a_row(its_options.failure_threshold,
                                              its_options.open_duration)),
        writes(CircuitBreakerOptions::in_a_row(1, its_options.open_duration)) {
    if (options.own_thread) housekeeper.emplace([this] { catch_up(); }, options.flush_interval);
  }

  std::unique_ptr<SegmentLog> log;
  DiskTierOptions options;
  const Clock& clock;

  Mutex mutex;
  CircuitBreaker reads AFI_GUARDED_BY(mutex);
  CircuitBreaker writes AFI_GUARDED_BY(mutex);
  TierStats stats AFI_GUARDED_BY(mutex);
  std::string degraded_reason AFI_GUARDED_BY(mutex);
  bool behind AFI_GUARDED_BY(mutex) = false;  // the last put found the batches full

  std::optional<Housekeeper> housekeeper;  // last: destroyed first

  void failed(CircuitBreaker& breaker, const Error& error) AFI_REQUIRES(mutex) {
    breaker.failed(clock.now());
    ++stats.failures;
    degraded_reason = error.message;
  }
  template <typename Found>
  Result<Found> counted(bool there, const std::function<Result<Found>()>& read);
  /// Updates the breaker after a write, a sync or an erase.
  Result<void> record_write(const Result<void>& done) {
    const MutexLock lock(mutex);
    if (done) {
      writes.succeeded(clock.now());
    } else if (is_disk_failure(done.error())) {
      failed(writes, done.error());
    }
    return done;
  }
  /// Writes what is not written yet, and does the work that a put would have had to wait for.
  void catch_up() {
    {
      const MutexLock lock(mutex);
      if (writes.is_rejecting(clock.now())) return;
    }
    if (log->wants_commit()) {
      static_cast<void>(record_write(log->commit()));
      return;
    }
    const Result<bool> wrote = log->write_out();
    // Having nothing to write is no evidence that the disk works.
    if (!wrote) static_cast<void>(record_write(std::unexpected(wrote.error())));
    if (wrote && *wrote) static_cast<void>(record_write({}));
  }
  Result<void> may_write() {
    const MutexLock lock(mutex);
    if (AFI_GUARD("tier.rest", writes.try_acquire(clock.now()))) return {};
    ++stats.refused;
    return fail(ErrorCode::kUnavailable,
                "the disk tier is not writing after a failure: " + degraded_reason);
  }
};

Result<std::unique_ptr<DiskTier>> DiskTier::open(const std::string& folder,
                                                 const DiskTierOptions& options,
                                                 MemoryBudget& memory, const Clock& clock) {
  AFI_TRY(auto blocks,
          open_block_folder(folder, options.uring ? DiskBackend::kBest : DiskBackend::kThreads));
  return open(std::move(blocks), options, memory, clock);
}

Result<std::unique_ptr<DiskTier>> DiskTier::open(std::unique_ptr<BlockFolder> folder,
                                                 const DiskTierOptions& options,
                                                 MemoryBudget& memory, const Clock& clock) {
  if (options.flush_interval <= Duration(0)) {
    return fail(ErrorCode::kInvalidArgument, "a disk tier's flush interval must be above zero");
  }
  AFI_TRY(auto log, SegmentLog::open(std::move(folder), options.log, memory));
  return std::unique_ptr<DiskTier>(
      new DiskTier(std::make_unique<State>(std::move(log), options, clock)));
}

DiskTier::DiskTier(std::unique_ptr<State> state) : state_(std::move(state)) {}
DiskTier::~DiskTier() = default;

Result<void> DiskTier::put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) {
  AFI_TRY_VOID(state_->may_write());
  const Result<bool> taken = state_->log->append(key, meta, pieces);
  if (taken && !*taken && state_->housekeeper && state_->log->wants_commit()) {
    state_->housekeeper->request();
  }
  const MutexLock lock(state_->mutex);
  state_->behind = taken && !*taken;
  ++(taken && *taken ? state_->stats.puts : state_->stats.refused);
  if (!taken) {
    if (is_disk_failure(taken.error())) state_->failed(state_->writes, taken.error());
    return std::unexpected(taken.error());
  }
  if (!*taken) return fail(ErrorCode::kUnavailable, kBehind);
  state_->writes.succeeded(state_->clock.now());
  return {};
}

/// `Found`: converts to whether there is an entry; its default is a miss.
template <typename Found>
Result<Found> DiskTier::State::counted(bool there, const std::function<Result<Found>()>& read) {
  {
    const MutexLock lock(mutex);
    // A miss does no I/O, so it must not be the probe of an open breaker.
    if (!there || !AFI_GUARD("tier.rest", reads.try_acquire(clock.now()))) {
      ++stats.misses;
      return Found();
    }
  }
  Result<Found> found = read();
  const MutexLock lock(mutex);
  if (!found && found.error().code == ErrorCode::kNoSpace) return found;
  if (!found) failed(reads, found.error());
  if (found) reads.succeeded(clock.now());  // even if the entry was damaged
  if (!found || !*found) {
    ++stats.misses;
    return Found();
  }
  ++stats.hits;
  return found;
}

Result<std::optional<TierEntry>> DiskTier::get(const TierKey& key, MemoryBudget& room) {
  return state_->counted<std::optional<TierEntry>>(may_contain(key),
                                                   [&] { return state_->log->read(key, room); });
}

Result<bool> DiskTier::read_into(const TierKey& key, std::span<std::byte> target,
                                 MemoryBudget& room) {
  return state_->counted<bool>(may_contain(key),
                               [&] { return state_->log->read_into(key, target, room); });
}

Result<void> DiskTier::erase(const TierKey& key) {
  // Bypasses the breaker: an erase is always attempted.
  const auto found = state_->log->erase(key);
  if (found && *found) {
    const MutexLock lock(state_->mutex);
    ++state_->stats.erased;
  }
  return state_->record_write(found ? Result<void>() : std::unexpected(found.error()));
}

Result<EntryCount> DiskTier::erase_matching(const EntryFilter& filter) {
  const auto erased = state_->log->erase_matching(filter);
  if (erased) {
    const MutexLock lock(state_->mutex);
    state_->stats.erased += erased->value();
  }
  AFI_TRY_VOID(state_->record_write(erased ? Result<void>() : std::unexpected(erased.error())));
  return erased;
}

Result<void> DiskTier::flush() {
  AFI_TRY_VOID(state_->may_write());
  return state_->record_write(state_->log->commit());
}

bool DiskTier::may_contain(const TierKey& key) const {
  // In this order: an entry whose write completes in between is found by contains().
  return state_->log->is_pending(key) || state_->log->contains(key);
}
bool DiskTier::is_pending(const TierKey& key) const { return state_->log->is_pending(key); }
std::optional<EntryMetadata> DiskTier::metadata(const TierKey& key) const {
  return state_->log->metadata(key);
}
void DiskTier::catch_up() { state_->catch_up(); }
const SegmentLog& DiskTier::log() const { return *state_->log; }

TierStats DiskTier::stats() const {
  const SegmentLogStats log = state_->log->stats();
  const MutexLock lock(state_->mutex);
  TierStats stats = state_->stats;
  stats.evicted = log.evicted;
  stats.damaged = log.damaged;
  stats.entries = log.entries;
  stats.used = log.used;
  stats.capacity = state_->options.log.capacity;
  if (state_->behind) stats.degraded_reason = kBehind;
  if (state_->reads.is_open() || state_->writes.is_open())
    stats.degraded_reason = state_->degraded_reason;
  return stats;
}

}  // namespace afterimage
