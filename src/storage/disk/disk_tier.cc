// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/disk_tier.h"

#include <functional>
#include <optional>
#include <thread>

#include "foundation/platform/fault_points.h"
#include "foundation/platform/mutex.h"
#include "storage/block_io/block_files.h"
#include "storage/disk/segment_log.h"

namespace afterimage {
namespace {

/// Lets through, until too much went wrong; then nothing for a while; then one, to see.
class Breaker {
 public:
  Breaker(std::uint32_t failure_threshold, Duration open_duration)
      : failure_threshold_(failure_threshold), open_duration_(open_duration) {}

  [[nodiscard]] bool lets_through(Duration now) {
    if (!broken()) return true;
    if (!AFI_GUARD("tier.rest", !rests(now))) return false;
    until_ = now + open_duration_;  // the others wait for what becomes of this one
    return true;
  }
  void succeeded() { failures_ = 0; }
  void failed(Duration now) {
    ++failures_;
    until_ = now + open_duration_;
  }
  [[nodiscard]] bool broken() const { return failures_ >= failure_threshold_; }
  [[nodiscard]] bool rests(Duration now) const { return broken() && now < until_; }

 private:
  std::uint32_t failure_threshold_;
  Duration open_duration_;
  std::uint32_t failures_ = 0;
  Duration until_{0};
};

/// Does what may take long, when it is asked to, on a thread of its own.
class Housekeeper {
 public:
  explicit Housekeeper(std::function<void()> work)
      : work_(std::move(work)), thread_([this] { run(); }) {}
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
  void ask() {
    {
      const MutexLock lock(mutex_);
      asked_ = true;
    }
    changed_.notify_all();
  }

 private:
  void run() {
    while (is_asked()) work_();
  }
  /// Waits; false: time to go.
  bool is_asked() {
    const MutexLock lock(mutex_);
    while (!asked_ && !stopping_) changed_.wait(mutex_);
    asked_ = false;
    return !stopping_;
  }

  const std::function<void()> work_;
  Mutex mutex_;
  Condition changed_;
  bool asked_ AFI_GUARDED_BY(mutex_) = false;
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

/// What the outside world did, as opposed to what the caller asked for or a budget lacks.
bool is_of_the_disk(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kCancelled ||
         error.code == ErrorCode::kNotFound || error.code == ErrorCode::kNoSpace;
}

constexpr const char* kBehind =
    "the disk takes in less than is put, or there is no memory for copies on their way to it";

}  // namespace

struct DiskTier::State {
  State(std::unique_ptr<SegmentLog> its_log, const DiskTierOptions& its_options,
        const Clock& its_clock)
      : log(std::move(its_log)),
        options(its_options),
        clock(its_clock),
        reads(its_options.failure_threshold, its_options.open_duration),
        writes(1, its_options.open_duration) {
    if (options.own_thread) housekeeper.emplace([this] { catch_up(); });
  }

  std::unique_ptr<SegmentLog> log;
  DiskTierOptions options;
  const Clock& clock;

  Mutex mutex;
  Breaker reads AFI_GUARDED_BY(mutex);
  Breaker writes AFI_GUARDED_BY(mutex);
  TierStats stats AFI_GUARDED_BY(mutex);
  std::string degraded_reason AFI_GUARDED_BY(mutex);
  bool behind AFI_GUARDED_BY(mutex) = false;  // the last put found no room in the batches

  std::optional<Housekeeper> housekeeper;  // last: the first to go

  void failed(Breaker& breaker, const Error& error) AFI_REQUIRES(mutex) {
    breaker.failed(clock.now());
    ++stats.failures;
    degraded_reason = error.message;
  }
  /// After a write, a sync or an erase: what it means for the next.
  Result<void> wrote(const Result<void>& done) {
    const MutexLock lock(mutex);
    if (done) {
      writes.succeeded();
    } else if (is_of_the_disk(done.error())) {
      failed(writes, done.error());
    }
    return done;
  }
  /// What a put would have had to wait for.
  void catch_up() {
    if (!log->wants_commit()) return;
    {
      const MutexLock lock(mutex);
      if (writes.rests(clock.now())) return;
    }
    static_cast<void>(wrote(log->commit()));
  }
  Result<void> may_write() {
    const MutexLock lock(mutex);
    if (writes.lets_through(clock.now())) return {};
    ++stats.refused;
    return fail(ErrorCode::kUnavailable, "the disk tier rests: " + degraded_reason);
  }
};

Result<std::unique_ptr<DiskTier>> DiskTier::open(const std::string& folder,
                                                 const DiskTierOptions& options,
                                                 MemoryBudget& memory, const Clock& clock) {
  AFI_TRY(auto blocks, open_block_folder(folder, options.backend));
  return open(std::move(blocks), options, memory, clock);
}

Result<std::unique_ptr<DiskTier>> DiskTier::open(std::unique_ptr<BlockFolder> folder,
                                                 const DiskTierOptions& options,
                                                 MemoryBudget& memory, const Clock& clock) {
  AFI_TRY(auto log, SegmentLog::open(std::move(folder), options.log, memory));
  return std::unique_ptr<DiskTier>(
      new DiskTier(std::make_unique<State>(std::move(log), options, clock)));
}

DiskTier::DiskTier(std::unique_ptr<State> state) : state_(std::move(state)) {}
DiskTier::~DiskTier() = default;

Result<void> DiskTier::put(const TierKey& key, const EntryMeta& meta,
                           std::span<const std::byte> bytes) {
  AFI_TRY_VOID(state_->may_write());
  const Result<bool> taken = state_->log->append(key, meta, bytes);
  if (taken && !*taken && state_->housekeeper && state_->log->wants_commit()) {
    state_->housekeeper->ask();
  }
  const MutexLock lock(state_->mutex);
  state_->behind = taken && !*taken;
  ++(taken && *taken ? state_->stats.puts : state_->stats.refused);
  if (!taken) {
    if (is_of_the_disk(taken.error())) state_->failed(state_->writes, taken.error());
    return std::unexpected(taken.error());
  }
  if (!*taken) return fail(ErrorCode::kUnavailable, kBehind);
  state_->writes.succeeded();
  return {};
}

Result<std::optional<TierEntry>> DiskTier::get(const TierKey& key, MemoryBudget& room) {
  // What is not there says nothing of the disk, and must not be the one that tries it again.
  const bool there = state_->log->contains(key);
  {
    const MutexLock lock(state_->mutex);
    if (!there || !state_->reads.lets_through(state_->clock.now())) {
      ++state_->stats.misses;
      return std::nullopt;
    }
  }
  auto found = state_->log->read(key, room);
  const MutexLock lock(state_->mutex);
  if (!found && found.error().code == ErrorCode::kNoSpace) return found;
  if (!found) state_->failed(state_->reads, found.error());
  if (found) state_->reads.succeeded();  // also if what it gave was damaged
  if (!found || !*found) {
    ++state_->stats.misses;
    return std::nullopt;
  }
  ++state_->stats.hits;
  return found;
}

Result<void> DiskTier::erase(const TierKey& key) {
  // Not asked of the breaker: what is to be erased for good is worth every try.
  const auto found = state_->log->erase(key);
  if (found && *found) {
    const MutexLock lock(state_->mutex);
    ++state_->stats.erased;
  }
  return state_->wrote(found ? Result<void>() : std::unexpected(found.error()));
}

Result<void> DiskTier::flush() {
  AFI_TRY_VOID(state_->may_write());
  return state_->wrote(state_->log->commit());
}

bool DiskTier::may_contain(const TierKey& key) const { return state_->log->contains(key); }
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
  if (state_->reads.broken() || state_->writes.broken())
    stats.degraded_reason = state_->degraded_reason;
  return stats;
}

}  // namespace afterimage
