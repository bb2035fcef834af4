// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/remote/remote_tier.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "afterimage/memory/checksum.h"
#include "afterimage/platform/random.h"
#include "afterimage/platform/workers.h"
#include "afterimage/remote/manifest.h"
#include "afterimage/remote/recent_keys.h"
#include "afterimage/remote/side_by_side.h"
#include "afterimage/remote/write_queue.h"

namespace afterimage {
namespace {

/// Chunks outlive the manifest that names them.
constexpr Duration kChunksLonger = std::chrono::minutes(1);
constexpr std::size_t kHelpsThatWait = 256;
/// Names that one EXISTS after the other asks for in one go.
constexpr std::size_t kMostAtOnce = 512;
constexpr const char* kBehind =
    "the servers take in less than is put, or there is no memory for copies on their way to them";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<WriteId> random_write() {
  AFI_TRY(const auto random, random_secret());
  WriteId write;
  std::ranges::copy(std::span(random).first(write.size()), write.begin());
  return write;
}

/// An answer that is not the one that was asked for: whatever is behind it makes no sense, either.
std::unexpected<Error> astray(RespConnection& connection) {
  connection.give_up();
  return fail(ErrorCode::kCorruption, connection.name() + ": it answers something else");
}

/// What a get learns of an entry, and the memory that its value is in or comes to.
struct Fetched {
  RemoteManifest manifest;
  std::shared_ptr<AlignedBytes> value;
};

}  // namespace

struct RemoteTier::State {
  State(RemoteTierOptions its_options, MemoryBudget& its_memory, const Clock& its_clock,
        std::unique_ptr<RemoteCluster> its_cluster)
      : options(std::move(its_options)),
        memory(its_memory),
        clock(its_clock),
        cluster(std::move(its_cluster)),
        recent(options.known),
        helpers(options.helpers, kHelpsThatWait),
        queue(options.senders,
              [this](const TierKey& key, const WriteJob& job) { return send(key, job); }) {}

  Result<void> set(const std::string& name, std::string_view first, std::string_view second,
                   Duration ttl);
  bool send(const TierKey& key, const WriteJob& job);
  Result<void> send_value(const TierKey& key, const WriteJob& job);
  Result<Fetched> read_manifest(RespConnection& connection, const RespHead& head,
                                MemoryBudget& room, Duration deadline);
  Result<std::optional<Fetched>> fetch_manifest(const TierKey& key, MemoryBudget& room);
  /// False: it is gone.
  Result<bool> fetch_chunk(const Fetched& fetched, std::size_t chunk, Duration until);
  Result<std::optional<TierEntry>> fetch(const TierKey& key, MemoryBudget& room);
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room);
  void exist(std::span<const TierKey> keys);
  void note(const TierKey& key, bool there) {
    const MutexLock lock(mutex);
    recent.note(key, there, clock.now() + (there ? options.known_there : options.known_absent));
  }
  void failed(const Error& error) {
    const MutexLock lock(mutex);
    ++stats.failures;
    trouble = error.message;
  }

  const RemoteTierOptions options;
  MemoryBudget& memory;
  const Clock& clock;
  std::unique_ptr<RemoteCluster> cluster;

  mutable Mutex mutex;
  RecentKeys recent AFI_GUARDED_BY(mutex);
  TierStats stats AFI_GUARDED_BY(mutex);
  RemoteTierStats more AFI_GUARDED_BY(mutex);
  std::string trouble AFI_GUARDED_BY(mutex);
  bool behind AFI_GUARDED_BY(mutex) = false;  // the last put found no room
  std::uint64_t lost_and_told AFI_GUARDED_BY(mutex) = 0;

  Workers helpers;
  WriteQueue queue;  // last: its threads use the others
};

Result<std::unique_ptr<RemoteTier>> RemoteTier::open(RemoteTierOptions options,
                                                     MemoryBudget& memory, const Clock& clock) {
  if (options.chunk == 0_B || options.chunk > kLargestChunk) {
    return fail(ErrorCode::kInvalidArgument, "a chunk has 1 byte to 4 MiB");
  }
  if (options.ttl < std::chrono::milliseconds(1)) {
    return fail(ErrorCode::kInvalidArgument, "what is put has to last for a while");
  }
  options.largest = std::min(options.largest, Bytes(options.chunk.value() * kMostChunks));
  AFI_TRY(auto cluster, RemoteCluster::open(options.servers, clock));
  return std::unique_ptr<RemoteTier>(new RemoteTier(
      std::make_unique<State>(std::move(options), memory, clock, std::move(cluster))));
}

RemoteTier::RemoteTier(std::unique_ptr<State> state) : state_(std::move(state)) {}
RemoteTier::~RemoteTier() = default;

Result<void> RemoteTier::State::set(const std::string& name, std::string_view first,
                                    std::string_view second, Duration ttl) {
  const std::size_t size = first.size() + second.size();
  const RespAround around = resp_set(name, size, ttl);
  return cluster->talk(
      name, {.lane = RemoteLane::kData, .time = options.servers.time_for(Bytes(size))},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const std::array pieces{std::string_view(around.before), first, second,
                                std::string_view(around.after)};
        AFI_TRY_VOID(connection.send(pieces, deadline));
        AFI_TRY(RespHead head, connection.read_head(deadline));
        if (head.kind == RespKind::kError) {
          refusal = std::move(head.text);
        } else if (head.kind != RespKind::kText || head.text != "OK") {
          return astray(connection);
        }
        return {};
      });
}

Result<void> RemoteTier::State::send_value(const TierKey& key, const WriteJob& job) {
  const std::span<const std::byte> value = std::as_const(*job.value).bytes();
  RemoteManifest manifest{.key = key, .meta = job.meta, .value_bytes = value.size(), .sums = {}};
  AFI_TRY(manifest.write, random_write());
  if (Bytes(value.size()) <= options.chunk) {
    manifest.sums.push_back(Checksum::of(value));
    return set(manifest_name(key), text_of(encode_manifest(manifest)), text_of(value), options.ttl);
  }
  manifest.chunk_bytes = static_cast<std::uint32_t>(options.chunk.value());
  manifest.sums.resize(chunk_count(value.size(), options.chunk));
  Mutex first_mutex;
  std::optional<Error> first;
  side_by_side(helpers, options.servers.connections, manifest.sums.size(), [&](std::size_t chunk) {
    {
      const MutexLock lock(first_mutex);
      if (first.has_value()) return;  // nobody would look for the rest
    }
    const auto part = manifest.chunk_of(value, chunk);
    manifest.sums[chunk] = Checksum::of(part);
    const auto done =
        set(chunk_name(manifest.write, chunk), text_of(part), {}, options.ttl + kChunksLonger);
    const MutexLock lock(first_mutex);
    if (!done.has_value() && !first.has_value()) first = done.error();
  });
  if (first.has_value()) return std::unexpected(*first);
  return set(manifest_name(key), text_of(encode_manifest(manifest)), {}, options.ttl);
}

bool RemoteTier::State::send(const TierKey& key, const WriteJob& job) {
  const auto done = send_value(key, job);
  if (done.has_value()) {
    note(key, true);
  } else {
    failed(done.error());
  }
  return done.has_value();
}

Result<void> RemoteTier::put(const TierKey& key, const EntryMeta& meta,
                             std::span<const std::byte> bytes) {
  State& s = *state_;
  const auto refuse = [&](Error error, bool behind) {
    const MutexLock lock(s.mutex);
    ++s.stats.refused;
    s.behind = behind;
    return std::unexpected(std::move(error));
  };
  const Bytes most = std::min(s.options.largest, s.memory.capacity());
  if (Bytes(bytes.size()) > most || meta.form_bytes() > EntryMeta::kMaxFormBytes) {
    return refuse({ErrorCode::kLimitExceeded,
                   "an entry of " + std::to_string(bytes.size()) + " bytes and " +
                       std::to_string(meta.tensors.size()) + " tensors is more than is sent"},
                  false);
  }
  const Duration until = s.clock.now() + s.options.put_patience;
  Result<std::shared_ptr<AlignedBytes>> copy = nullptr;
  while (true) {
    const std::uint64_t seen = s.queue.done();
    copy = AlignedBytes::create(bytes.size(), s.memory);
    if (copy.has_value()) break;
    const Duration left = until - s.clock.now();
    if (left <= Duration(0) || !s.queue.wait_for_room(seen, left)) {
      return refuse({ErrorCode::kUnavailable, kBehind}, true);
    }
  }
  if (!bytes.empty()) std::memcpy((*copy)->bytes().data(), bytes.data(), bytes.size());
  s.queue.push(key, {.meta = meta, .value = *std::move(copy)});
  const MutexLock lock(s.mutex);
  ++s.stats.puts;
  s.behind = false;
  return {};
}

/// The bulk of a manifest, and of the value if that follows.
Result<Fetched> RemoteTier::State::read_manifest(RespConnection& connection, const RespHead& head,
                                                 MemoryBudget& room, Duration deadline) {
  const auto all = static_cast<std::size_t>(head.number);
  deadline += options.servers.time_for(Bytes(all)) - options.servers.timeout;
  std::vector<std::byte> bytes(std::min(all, kManifestFixed));
  AFI_TRY_VOID(connection.read_bytes(bytes, deadline));
  const auto size = manifest_bytes(bytes);
  if (!size.has_value() || *size > all) return astray(connection);
  bytes.resize(*size);
  AFI_TRY_VOID(connection.read_bytes(std::span(bytes).subspan(kManifestFixed), deadline));
  auto manifest = decode_manifest(bytes);
  const std::uint64_t follows =
      manifest.has_value() && manifest->follows() ? manifest->value_bytes : 0;
  if (!manifest.has_value() || all - *size != follows ||
      Bytes(manifest->value_bytes) > options.largest) {
    return astray(connection);
  }
  Fetched fetched{.manifest = *std::move(manifest), .value = nullptr};
  AFI_TRY(fetched.value, AlignedBytes::create(fetched.manifest.value_bytes, room));
  if (follows > 0) AFI_TRY_VOID(connection.read_bytes(fetched.value->bytes(), deadline));
  AFI_TRY_VOID(connection.end_bulk(deadline));
  return fetched;
}

Result<std::optional<Fetched>> RemoteTier::State::fetch_manifest(const TierKey& key,
                                                                 MemoryBudget& room) {
  const std::string name = manifest_name(key);
  const std::string command = resp_command({"GET", name});
  std::optional<Fetched> fetched;
  AFI_TRY_VOID(cluster->talk(
      name, {.lane = RemoteLane::kData, .time = options.servers.timeout},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        fetched.reset();
        const std::array pieces{std::string_view(command)};
        AFI_TRY_VOID(connection.send(pieces, deadline));
        AFI_TRY(RespHead head, connection.read_head(deadline));
        if (head.kind == RespKind::kNil) return {};
        if (head.kind == RespKind::kError) {
          refusal = std::move(head.text);
          return {};
        }
        if (head.kind != RespKind::kBulk) return astray(connection);
        AFI_TRY(fetched, read_manifest(connection, head, room, deadline));
        return {};
      }));
  return fetched;
}

Result<bool> RemoteTier::State::fetch_chunk(const Fetched& fetched, std::size_t chunk,
                                            Duration until) {
  const Duration left = until - clock.now();
  if (left <= Duration(0)) return fail(ErrorCode::kUnavailable, "the servers are too slow");
  const auto into = fetched.manifest.chunk_of(fetched.value->bytes(), chunk);
  const std::string name = chunk_name(fetched.manifest.write, chunk);
  const std::string command = resp_command({"GET", name});
  bool there = false;
  AFI_TRY_VOID(cluster->talk(
      name,
      {.lane = RemoteLane::kData,
       .time = std::min(left, options.servers.time_for(Bytes(into.size())))},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const std::array pieces{std::string_view(command)};
        AFI_TRY_VOID(connection.send(pieces, deadline));
        AFI_TRY(RespHead head, connection.read_head(deadline));
        if (head.kind == RespKind::kNil) return {};
        if (head.kind == RespKind::kError) {
          refusal = std::move(head.text);
          return {};
        }
        if (head.kind != RespKind::kBulk || head.number != static_cast<std::int64_t>(into.size())) {
          return astray(connection);
        }
        AFI_TRY_VOID(connection.read_bytes(into, deadline));
        AFI_TRY_VOID(connection.end_bulk(deadline));
        there = true;
        return {};
      }));
  if (there && Checksum::of(into) != fetched.manifest.sums[chunk]) {
    return fail(ErrorCode::kCorruption, name + ": these are not the bytes that were put");
  }
  return there;
}

Result<std::optional<TierEntry>> RemoteTier::State::fetch(const TierKey& key, MemoryBudget& room) {
  AFI_TRY(auto fetched, fetch_manifest(key, room));
  if (!fetched.has_value()) return std::nullopt;
  const RemoteManifest& manifest = fetched->manifest;
  if (manifest.key != key) {
    return fail(ErrorCode::kCorruption, manifest_name(key) + ": another entry is under this name");
  }
  if (manifest.follows() &&
      Checksum::of(std::as_const(*fetched->value).bytes()) != manifest.sums.front()) {
    return fail(ErrorCode::kCorruption,
                manifest_name(key) + ": these are not the bytes that were put");
  }
  const Duration until = clock.now() + options.servers.connect_timeout +
                         options.servers.time_for(Bytes(manifest.value_bytes));
  Mutex first_mutex;
  std::optional<Error> first;
  std::atomic<bool> gone = false;
  side_by_side(helpers, options.servers.connections, manifest.chunks(), [&](std::size_t chunk) {
    if (gone) return;
    const auto there = fetch_chunk(*fetched, chunk, until);
    if (there.has_value() && *there) return;
    gone = true;
    const MutexLock lock(first_mutex);
    if (!there.has_value() && !first.has_value()) first = there.error();
  });
  if (first.has_value()) return std::unexpected(*first);
  if (gone) {
    const MutexLock lock(mutex);
    ++more.chunks_missing;
    return std::nullopt;
  }
  return TierEntry{.meta = std::move(fetched->manifest.meta),
                   .bytes = std::as_const(*fetched->value).bytes(),
                   .memory = fetched->value};
}

Result<std::optional<TierEntry>> RemoteTier::State::get(const TierKey& key, MemoryBudget& room) {
  if (cluster->reachable(manifest_name(key)) == nullptr) {
    const MutexLock lock(mutex);
    ++stats.misses;
    ++more.left_alone;
    return std::nullopt;
  }
  auto found = fetch(key, room);
  const bool no_room = !found.has_value() && found.error().code == ErrorCode::kNoSpace;
  if (no_room) return found;
  if (!found.has_value()) {
    failed(found.error());
    const MutexLock lock(mutex);
    ++stats.misses;
    stats.damaged += found.error().code == ErrorCode::kCorruption ? 1 : 0;
    // Nobody has to ask again at once; and whoever has it should put it again.
    recent.note(key, false, clock.now() + options.known_absent);
    return std::nullopt;
  }
  note(key, found->has_value());
  const MutexLock lock(mutex);
  ++(found->has_value() ? stats.hits : stats.misses);
  return found;
}

Result<std::optional<TierEntry>> RemoteTier::get(const TierKey& key, MemoryBudget& room) {
  return state_->get(key, room);
}

std::vector<Result<std::optional<TierEntry>>> RemoteTier::get_all(std::span<const TierKey> keys,
                                                                  MemoryBudget& room) {
  std::vector<Result<std::optional<TierEntry>>> found(keys.size(), std::nullopt);
  side_by_side(state_->helpers, state_->options.servers.connections, keys.size(),
               [&](std::size_t i) { found[i] = state_->get(keys[i], room); });
  return found;
}

/// One server's keys, in one go there and one back.
void RemoteTier::State::exist(std::span<const TierKey> keys) {
  std::string commands;
  for (const TierKey& key : keys) commands += resp_command({"EXISTS", manifest_name(key)});
  std::vector<bool> there(keys.size());
  const auto asked = cluster->talk(
      manifest_name(keys.front()),
      {.lane = RemoteLane::kControl, .time = options.servers.time_for(Bytes(commands.size()))},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const std::array pieces{std::string_view(commands)};
        AFI_TRY_VOID(connection.send(pieces, deadline));
        for (std::size_t i = 0; i < keys.size(); ++i) {
          AFI_TRY(RespHead head, connection.read_head(deadline));
          if (head.kind == RespKind::kNumber) {
            there[i] = head.number == 1;
          } else if (head.kind != RespKind::kError) {
            return astray(connection);
          } else if (i == 0) {
            refusal = std::move(head.text);  // then all are asked of somebody else, if need be
          }
        }
        return {};
      });
  for (std::size_t i = 0; i < keys.size(); ++i) {
    note(keys[i], asked.has_value() && there[i]);
  }
  if (!asked.has_value()) failed(asked.error());
}

void RemoteTier::find_out(std::span<const TierKey> keys) {
  std::map<const void*, std::vector<TierKey>> by_server;
  const Duration now = state_->clock.now();
  for (const TierKey& key : keys) {
    {
      const MutexLock lock(state_->mutex);
      if (state_->recent.there(key, now).has_value()) continue;
    }
    const void* const server = state_->cluster->reachable(manifest_name(key));
    if (server != nullptr) by_server[server].push_back(key);
  }
  std::vector<std::span<const TierKey>> questions;
  for (const auto& [server, its] : by_server) {
    for (std::size_t at = 0; at < its.size(); at += kMostAtOnce) {
      questions.push_back(std::span(its).subspan(at, std::min(kMostAtOnce, its.size() - at)));
    }
  }
  side_by_side(state_->helpers, questions.size(), questions.size(),
               [&](std::size_t i) { state_->exist(questions[i]); });
}

Result<void> RemoteTier::erase(const TierKey& key) {
  State& s = *state_;
  const std::string name = manifest_name(key);
  const auto refuse = [&](Error error) {
    const MutexLock lock(s.mutex);
    ++s.stats.failures;
    s.trouble = error.message;
    return std::unexpected(std::move(error));
  };
  bool was_there = s.queue.has(key);
  // What is being sent comes to an end by itself: its own deadlines see to that.
  if (!s.queue.cancel(key, s.options.flush_patience)) {
    return refuse({ErrorCode::kUnavailable, "a write of the entry does not come to an end"});
  }
  {
    const MutexLock lock(s.mutex);
    s.recent.note(key, false, s.clock.now() + s.options.known_absent);
  }
  bool all_heard = true;
  const std::size_t replicas = s.cluster->replicas(name);
  const auto done = s.cluster->talk(
      name,
      {.lane = RemoteLane::kControl,
       .time = 3 * s.options.servers.timeout,
       .despite_breaker = true},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        // Twice, with an answer between: a write that was given up and had come to the server's
        // door before our first word is done before our second.
        for (int time = 0; time < 2; ++time) {
          AFI_TRY(RespValue said, connection.ask({"DEL", name}, deadline));
          if (said.kind == RespKind::kError) {
            refusal = std::move(said.text);
            return {};
          }
          if (said.kind != RespKind::kNumber) return astray(connection);
          was_there |= said.number > 0;
        }
        if (replicas == 0) return {};
        // A replica that did not hear of it would bring it back when it takes over.
        const auto patience =
            std::chrono::duration_cast<std::chrono::milliseconds>(s.options.servers.timeout);
        AFI_TRY(RespValue heard,
                connection.ask({"WAIT", std::to_string(replicas),
                                std::to_string(std::max<std::int64_t>(1, patience.count()))},
                               deadline));
        if (heard.kind == RespKind::kError) {
          refusal = std::move(heard.text);
          return {};
        }
        if (heard.kind != RespKind::kNumber) return astray(connection);
        all_heard = heard.number >= static_cast<std::int64_t>(replicas);
        return {};
      });
  if (!done.has_value()) return refuse(done.error());
  if (!all_heard) {
    return refuse({ErrorCode::kUnavailable,
                   "not every copy of the servers' has heard of an erasure: the entry may come "
                   "back, until its time is over, if one of them takes over"});
  }
  const MutexLock lock(s.mutex);
  s.stats.erased += was_there ? 1 : 0;
  return {};
}

Result<void> RemoteTier::flush() {
  State& s = *state_;
  if (!s.queue.drain(s.options.flush_patience)) {
    return fail(ErrorCode::kUnavailable, "what was put is still on its way");
  }
  const std::uint64_t lost = s.queue.lost();
  const MutexLock lock(s.mutex);
  if (std::exchange(s.lost_and_told, lost) == lost) return {};
  return fail(ErrorCode::kUnavailable, "some of what was put did not arrive: " + s.trouble);
}

bool RemoteTier::may_hold(const TierKey& key) const {
  {
    const MutexLock lock(state_->mutex);
    if (state_->recent.there(key, state_->clock.now()) == false) return false;
  }
  return state_->cluster->reachable(manifest_name(key)) != nullptr;
}

bool RemoteTier::holds(const TierKey& key) const {
  const MutexLock lock(state_->mutex);
  return state_->recent.there(key, state_->clock.now()) == true;
}

bool RemoteTier::awaits(const TierKey& key) const { return state_->queue.has(key); }

void RemoteTier::after(const TierKey& key, std::function<void()> then) {
  state_->queue.after(key, std::move(then));
}

Duration RemoteTier::longest_get(Bytes value) const {
  const RemoteServers& servers = state_->options.servers;
  const auto asked = [&](Bytes bytes) { return servers.connect_timeout + servers.time_for(bytes); };
  // A server that sends us elsewhere is one server more.
  if (value <= state_->options.chunk) return 2 * asked(value);
  return 2 * asked(0_B) + asked(value) + 2 * asked(state_->options.chunk);
}

RemoteCluster& RemoteTier::cluster() { return *state_->cluster; }

TierStats RemoteTier::stats() const {
  const RemoteClusterStats cluster = state_->cluster->stats();
  const MutexLock lock(state_->mutex);
  TierStats stats = state_->stats;
  stats.entries = EntryCount(state_->recent.count_there());
  stats.used = state_->memory.used();
  stats.capacity = state_->memory.capacity();
  if (state_->behind) stats.trouble = kBehind;
  if (!cluster.trouble.empty()) stats.trouble = cluster.trouble;
  return stats;
}

RemoteTierStats RemoteTier::remote_stats() const {
  RemoteClusterStats cluster = state_->cluster->stats();
  const std::uint64_t lost = state_->queue.lost();
  const MutexLock lock(state_->mutex);
  RemoteTierStats stats = state_->more;
  stats.cluster = std::move(cluster);
  stats.lost = lost;
  return stats;
}

}  // namespace afterimage
