// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/remote_tier.h"

#include <algorithm>
#include <map>
#include <utility>

#include "storage/memory/byte_pieces.h"
#include "storage/remote/manifest.h"
#include "storage/remote/presence_cache.h"
#include "storage/remote/remote_entries.h"
#include "storage/remote/write_queue.h"

namespace afterimage {
namespace {

/// Keys probed with EXISTS in one round trip.
constexpr std::size_t kMaxKeysPerCall = 512;
constexpr const char* kBacklogReason =
    "no memory for another pending write: the servers accept entries more slowly than they are put";

/// What an operator can do about it.
std::string put_failure_of(const Error& error) {
  if (error.code != ErrorCode::kNoSpace) return "entries are not stored: " + error.message;
  return "the servers' memory is full, so entries are not stored: set maxmemory-policy "
         "allkeys-lru, "
         "or give them more memory: " +
         error.message;
}

/// What this thread knows of some entries. Of two that live at once, the later one goes first.
class PrefetchedEntries final : public LeaseService::Prefetched {
 public:
  using Entries = std::vector<std::pair<TierKey, std::optional<TierEntry>>>;

  PrefetchedEntries(const void* tier, Entries entries)
      : tier_(tier), entries_(std::move(entries)), outer_(std::exchange(innermost_, this)) {}
  ~PrefetchedEntries() override {
    AFI_CHECK(innermost_ == this);
    innermost_ = outer_;
  }
  PrefetchedEntries(const PrefetchedEntries&) = delete;
  PrefetchedEntries& operator=(const PrefetchedEntries&) = delete;

  /// Each entry once: the next get asks the servers. nullopt: it is not known.
  static std::optional<std::optional<TierEntry>> take(const void* tier, const TierKey& key) {
    if (innermost_ == nullptr || innermost_->tier_ != tier) return std::nullopt;
    Entries& entries = innermost_->entries_;
    const auto known = std::ranges::find(entries, key, &Entries::value_type::first);
    if (known == entries.end()) return std::nullopt;
    auto entry = std::move(known->second);
    entries.erase(known);
    return entry;
  }

 private:
  static thread_local PrefetchedEntries* innermost_;

  const void* tier_;
  Entries entries_;
  PrefetchedEntries* outer_;
};

thread_local PrefetchedEntries* PrefetchedEntries::innermost_ = nullptr;

}  // namespace

struct RemoteTier::State {
  State(RemoteTierOptions its_options, MemoryBudget& its_memory, const Clock& its_clock,
        std::unique_ptr<RemoteCluster> its_cluster)
      : options(std::move(its_options)),
        memory(its_memory),
        clock(its_clock),
        cluster(std::move(its_cluster)),
        entries(*cluster, options, its_clock),
        recent(options.known),
        queue(options.senders,
              [this](std::span<WriteQueue::Write> writes) { return send(writes); }) {}

  std::vector<bool> send(std::span<WriteQueue::Write> writes);
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& budget);
  void exist(std::span<const TierKey> keys);
  void note(const TierKey& key, bool present) {
    const MutexLock lock(mutex);
    recent.note(key, present, clock.now() + (present ? options.known_there : options.known_absent));
  }
  void failed(const Error& error) {
    const MutexLock lock(mutex);
    ++stats.failures;
    degraded_reason = error.message;
  }

  const RemoteTierOptions options;
  MemoryBudget& memory;
  const Clock& clock;
  std::unique_ptr<RemoteCluster> cluster;
  RemoteEntries entries;

  mutable Mutex mutex;
  PresenceCache recent AFI_GUARDED_BY(mutex);
  TierStats stats AFI_GUARDED_BY(mutex);
  RemoteTierStats more AFI_GUARDED_BY(mutex);
  std::string degraded_reason AFI_GUARDED_BY(mutex);
  bool backlogged AFI_GUARDED_BY(mutex) = false;  // the last put found no memory
  std::string put_failure AFI_GUARDED_BY(mutex);  // why the last entry sent did not arrive
  std::uint64_t reported_lost AFI_GUARDED_BY(mutex) = 0;

  WriteQueue queue;  // last: its threads use the others
};

Result<std::unique_ptr<RemoteTier>> RemoteTier::open(RemoteTierOptions options,
                                                     MemoryBudget& memory, const Clock& clock) {
  if (options.chunk == 0_B || options.chunk > kLargestChunk) {
    return fail(ErrorCode::kInvalidArgument, "the chunk size must be from 1 byte to 4 MiB");
  }
  if (options.ttl < std::chrono::milliseconds(1)) {
    return fail(ErrorCode::kInvalidArgument, "the time to live must be at least 1 ms");
  }
  options.largest = std::min(options.largest, Bytes(options.chunk.value() * kMostChunks));
  AFI_TRY(auto cluster, RemoteCluster::open(options.servers, clock));
  return std::unique_ptr<RemoteTier>(new RemoteTier(
      std::make_unique<State>(std::move(options), memory, clock, std::move(cluster))));
}

RemoteTier::RemoteTier(std::unique_ptr<State> state) : state_(std::move(state)) {}
RemoteTier::~RemoteTier() = default;

std::vector<bool> RemoteTier::State::send(std::span<WriteQueue::Write> writes) {
  std::vector<RemoteEntries::ToSend> sending;
  for (const auto& [key, job] : writes) {
    sending.push_back({.key = key, .meta = job.meta, .value = std::as_const(*job.value).bytes()});
  }
  const std::vector<Result<void>> sent = entries.send_all(sending);
  std::vector<bool> arrived;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const Result<void>& done = sent[i];
    arrived.push_back(done.has_value());
    if (done.has_value()) {
      note(writes[i].key, true);
    } else {
      failed(done.error());
    }
    const MutexLock lock(mutex);
    put_failure = done.has_value() ? "" : put_failure_of(done.error());
  }
  return arrived;
}

Result<void> RemoteTier::put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) {
  State& s = *state_;
  const std::size_t size = size_of(pieces);
  const auto refuse = [&](Error error, bool backlogged) {
    const MutexLock lock(s.mutex);
    ++s.stats.refused;
    s.backlogged = backlogged;
    return std::unexpected(std::move(error));
  };
  const Bytes most = std::min(s.options.largest, s.memory.capacity());
  if (Bytes(size) > most || meta.form_bytes() > EntryMeta::kMaxFormBytes) {
    return refuse(
        {ErrorCode::kLimitExceeded, "an entry of " + std::to_string(size) + " bytes and " +
                                        std::to_string(meta.tensors.size()) +
                                        " tensors exceeds the limit of the remote tier"},
        false);
  }
  const Duration until = s.clock.now() + s.options.put_timeout;
  Result<std::shared_ptr<AlignedBytes>> copy = nullptr;
  while (true) {
    const std::uint64_t seen = s.queue.done();
    copy = AlignedBytes::create(size, s.memory);
    if (copy.has_value()) break;
    const Duration left = until - s.clock.now();
    if (left <= Duration(0) || !s.queue.wait_for_space(seen, left)) {
      return refuse({ErrorCode::kUnavailable, kBacklogReason}, true);
    }
  }
  copy_pieces(pieces, (*copy)->bytes());
  s.queue.push(key, {.meta = meta, .value = *std::move(copy)});
  const MutexLock lock(s.mutex);
  ++s.stats.puts;
  s.backlogged = false;
  return {};
}

Result<std::optional<TierEntry>> RemoteTier::State::get(const TierKey& key, MemoryBudget& budget) {
  if (auto known = PrefetchedEntries::take(this, key); known.has_value()) {
    note(key, known->has_value());
    const MutexLock lock(mutex);
    ++(known->has_value() ? stats.hits : stats.misses);
    return *std::move(known);
  }
  if (cluster->reachable(manifest_name(key)) == nullptr) {
    const MutexLock lock(mutex);
    ++stats.misses;
    ++more.circuit_rejected;
    return std::nullopt;
  }
  auto found = entries.fetch(key, budget);
  const bool no_space = !found.has_value() && found.error().code == ErrorCode::kNoSpace;
  if (no_space) return found;
  if (!found.has_value()) {
    failed(found.error());
    const MutexLock lock(mutex);
    ++stats.misses;
    stats.damaged += found.error().code == ErrorCode::kCorruption ? 1 : 0;
    // Treat it as absent for a while: readers skip it, and a process that has it puts it again.
    recent.note(key, false, clock.now() + options.known_absent);
    return std::nullopt;
  }
  note(key, found->has_value());
  const MutexLock lock(mutex);
  ++(found->has_value() ? stats.hits : stats.misses);
  return found;
}

Result<std::optional<TierEntry>> RemoteTier::get(const TierKey& key, MemoryBudget& budget) {
  return state_->get(key, budget);
}

RemoteTier::ClaimedLease RemoteTier::claim_and_prefetch(std::string name, std::string command,
                                                        std::span<const TierKey> keys,
                                                        MemoryBudget& room) {
  auto claimed = state_->entries.claim_and_fetch(
      {.name = std::move(name), .command = std::move(command)}, keys, room);
  ClaimedLease done{.granted = claimed.granted, .prefetched = nullptr};
  if (!claimed.found.empty()) {
    done.prefetched = std::make_unique<PrefetchedEntries>(state_.get(), std::move(claimed.found));
  }
  return done;
}

std::vector<Result<std::optional<TierEntry>>> RemoteTier::get_all(std::span<const TierKey> keys,
                                                                  MemoryBudget& budget) {
  std::vector<Result<std::optional<TierEntry>>> found(keys.size(), std::nullopt);
  state_->entries.parallel_for(keys.size(),
                               [&](std::size_t i) { found[i] = state_->get(keys[i], budget); });
  return found;
}

/// All keys belong to one server.
void RemoteTier::State::exist(std::span<const TierKey> keys) {
  const auto exist_results = entries.exist(keys);
  if (!exist_results.has_value()) failed(exist_results.error());
  for (std::size_t i = 0; i < keys.size(); ++i)
    note(keys[i], exist_results.has_value() && (*exist_results)[i]);
}

void RemoteTier::probe(std::span<const TierKey> keys) {
  std::map<const void*, std::vector<TierKey>> by_server;
  const Duration now = state_->clock.now();
  for (const TierKey& key : keys) {
    {
      const MutexLock lock(state_->mutex);
      if (state_->recent.present(key, now).has_value()) continue;
    }
    const void* const server = state_->cluster->reachable(manifest_name(key));
    if (server != nullptr) by_server[server].push_back(key);
  }
  std::vector<std::span<const TierKey>> batches;
  for (const auto& [server, server_keys] : by_server) {
    for (std::size_t at = 0; at < server_keys.size(); at += kMaxKeysPerCall) {
      batches.push_back(
          std::span(server_keys).subspan(at, std::min(kMaxKeysPerCall, server_keys.size() - at)));
    }
  }
  state_->entries.parallel_for(batches.size(), [&](std::size_t i) { state_->exist(batches[i]); });
}

void RemoteTier::invalidate_negative(std::span<const TierKey> keys) {
  const Duration now = state_->clock.now();
  const MutexLock lock(state_->mutex);
  for (const TierKey& key : keys) {
    if (state_->recent.present(key, now) == false) state_->recent.forget(key);
  }
}

Result<void> RemoteTier::erase(const TierKey& key) {
  State& s = *state_;
  const bool was_pending = s.queue.has(key);
  // A write that is being sent ends by its own deadlines.
  Result<bool> erased = s.queue.cancel(key, s.options.flush_timeout)
                            ? s.entries.erase(key)
                            : fail(ErrorCode::kUnavailable,
                                   "erase: a pending write of the entry did not finish in time");
  s.note(key, false);
  if (!erased.has_value()) {
    s.failed(erased.error());
    return std::unexpected(erased.error());
  }
  const MutexLock lock(s.mutex);
  s.stats.erased += *erased || was_pending ? 1 : 0;
  return {};
}

Result<EntryCount> RemoteTier::erase_matching(const EntryFilter& filter) {
  State& s = *state_;
  if (!s.queue.drain(s.options.flush_timeout)) {
    return fail(ErrorCode::kUnavailable,
                "erase: writes were still pending when the flush timeout ended");
  }
  auto erased = s.entries.erase_matching(filter, [&s](const TierKey& key) { s.note(key, false); });
  if (!erased.has_value()) {
    s.failed(erased.error());
    return erased;
  }
  const MutexLock lock(s.mutex);
  s.stats.erased += erased->value();
  return erased;
}

Result<void> RemoteTier::flush() {
  State& s = *state_;
  if (!s.queue.drain(s.options.flush_timeout)) {
    return fail(ErrorCode::kUnavailable,
                "flush: writes were still pending when the flush timeout ended");
  }
  const std::uint64_t lost = s.queue.lost();
  const MutexLock lock(s.mutex);
  if (std::exchange(s.reported_lost, lost) == lost) return {};
  return fail(ErrorCode::kUnavailable,
              "flush: some entries did not reach the servers: " + s.degraded_reason);
}

bool RemoteTier::may_contain(const TierKey& key) const {
  {
    const MutexLock lock(state_->mutex);
    if (state_->recent.present(key, state_->clock.now()) == false) return false;
  }
  return state_->cluster->reachable(manifest_name(key)) != nullptr;
}

bool RemoteTier::holds(const TierKey& key) const {
  const MutexLock lock(state_->mutex);
  return state_->recent.present(key, state_->clock.now()) == true;
}

bool RemoteTier::is_pending(const TierKey& key) const { return state_->queue.has(key); }

void RemoteTier::when_settled(const TierKey& key, std::function<void()> callback) {
  state_->queue.when_settled(key, std::move(callback));
}

Duration RemoteTier::longest_get(Bytes value) const { return state_->entries.longest_fetch(value); }

RemoteCluster& RemoteTier::cluster() { return *state_->cluster; }

TierStats RemoteTier::stats() const {
  const RemoteClusterStats cluster = state_->cluster->stats();
  const MutexLock lock(state_->mutex);
  TierStats stats = state_->stats;
  stats.entries = EntryCount(state_->recent.count_present());
  stats.used = state_->memory.used();
  stats.capacity = state_->memory.capacity();
  if (!state_->put_failure.empty()) stats.degraded_reason = state_->put_failure;
  if (state_->backlogged) stats.degraded_reason = kBacklogReason;
  if (!cluster.degraded_reason.empty()) stats.degraded_reason = cluster.degraded_reason;
  return stats;
}

RemoteTierStats RemoteTier::remote_stats() const {
  RemoteClusterStats cluster = state_->cluster->stats();
  const std::uint64_t lost = state_->queue.lost();
  const MutexLock lock(state_->mutex);
  RemoteTierStats stats = state_->more;
  stats.cluster = std::move(cluster);
  stats.lost = lost;
  stats.incomplete = state_->entries.incomplete();
  return stats;
}

}  // namespace afterimage
