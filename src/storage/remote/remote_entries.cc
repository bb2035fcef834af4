// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/remote_entries.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "afterimage/secret.h"
#include "foundation/platform/fault_points.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/checksum.h"
#include "storage/redis/side_by_side.h"

namespace afterimage {
namespace {

/// Chunks outlive the manifest that names them.
constexpr Duration kChunksLonger = std::chrono::minutes(1);
constexpr std::size_t kHelpsThatWait = 256;
/// Chunks that are dropped in one go.
constexpr std::size_t kDroppedAtOnce = 512;

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

std::unexpected<Error> other_bytes(const std::string& name) {
  return fail(ErrorCode::kCorruption, name + ": these are not the bytes that were put");
}

/// The bulk of a manifest whose value is in chunks. nullopt: it is none, or is not whole: then it
/// names no chunks.
Result<std::optional<RemoteManifest>> read_chunked(RespConnection& connection, const RespHead& head,
                                                   Duration deadline) {
  const auto all = static_cast<std::size_t>(head.number);
  if (all > kLongestManifest) {
    // A value behind its manifest has no chunks: a new connection costs less than its bytes.
    connection.give_up();
    return std::nullopt;
  }
  std::vector<std::byte> bytes(all);
  AFI_TRY_VOID(connection.read_bytes(bytes, deadline));
  AFI_TRY_VOID(connection.end_bulk(deadline));
  auto manifest = decode_manifest(bytes);
  if (!manifest.has_value() || manifest->follows()) return std::nullopt;
  return *std::move(manifest);
}

/// The first error of those who work side by side.
class FirstError {
 public:
  void note(Error error) {
    const MutexLock lock(mutex_);
    if (!error_.has_value()) error_ = std::move(error);
  }
  [[nodiscard]] bool any() const {
    const MutexLock lock(mutex_);
    return error_.has_value();
  }
  [[nodiscard]] Result<void> result() const {
    const MutexLock lock(mutex_);
    return error_.has_value() ? Result<void>(std::unexpected(*error_)) : Result<void>();
  }

 private:
  mutable Mutex mutex_;
  std::optional<Error> error_ AFI_GUARDED_BY(mutex_);
};

}  // namespace

/// What is known of an entry, and the memory that its value is in or comes to.
struct RemoteEntries::Fetched {
  RemoteManifest manifest;
  std::shared_ptr<AlignedBytes> value;
};

RemoteEntries::RemoteEntries(RemoteCluster& cluster, const RemoteEntriesOptions& options,
                             const Clock& clock)
    : cluster_(cluster),
      servers_(cluster.servers()),
      options_(options),
      clock_(clock),
      helpers_(options.helpers, kHelpsThatWait) {}

void RemoteEntries::side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) {
  afterimage::side_by_side(helpers_, servers_.connections, count, work);
}

Result<void> RemoteEntries::set(const std::string& name, std::string_view first,
                                std::string_view second, Duration ttl,
                                std::optional<RemoteManifest>* replaced) {
  const std::size_t size = first.size() + second.size();
  const RespAround around = resp_set(name, size, ttl, replaced != nullptr);
  return cluster_.talk(
      name, {.lane = RemoteLane::kData, .time = servers_.time_for(Bytes(size))},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const std::array pieces{std::string_view(around.before), first, second,
                                std::string_view(around.after)};
        AFI_TRY_VOID(connection.send(pieces, deadline));
        AFI_TRY(RespHead head, connection.read_head(deadline));
        if (head.kind == RespKind::kError) {
          refusal = std::move(head.text);
          return {};
        }
        const bool done = replaced == nullptr
                              ? head.kind == RespKind::kText && head.text == "OK"
                              : head.kind == RespKind::kNil || head.kind == RespKind::kBulk;
        if (!AFI_GUARD("remote.set.reply", done)) return astray(connection);
        if (head.kind == RespKind::kBulk) {
          AFI_TRY(*replaced, read_chunked(connection, head, deadline));
        }
        return {};
      });
}

Result<void> RemoteEntries::send(const TierKey& key, const EntryMeta& meta,
                                 std::span<const std::byte> value) {
  RemoteManifest manifest{.key = key, .meta = meta, .value_bytes = value.size(), .sums = {}};
  if (AFI_STEP("remote.write.number")) {
    AFI_TRY(manifest.write, random_write());
  }
  const std::string name = manifest_name(key);
  if (Bytes(value.size()) <= options_.chunk) {
    manifest.sums.push_back(Checksum::of(value));
    return set(name, text_of(encode_manifest(manifest)), text_of(value), options_.ttl);
  }
  const auto sent = send_chunks(manifest, value);
  // Without its chunks a manifest would hide the entry that it replaces.
  if (!AFI_GUARD("remote.chunks.first", sent.has_value())) {
    drop_chunks(manifest);
    return sent;
  }
  // Told in the same breath: of two who replace it at once, each is told of another.
  std::optional<RemoteManifest> replaced;
  const auto done = set(name, text_of(encode_manifest(manifest)), {}, options_.ttl, &replaced);
  if (!done.has_value()) {
    // Refused in words; what was not answered may have been done.
    if (done.error().code == ErrorCode::kNoSpace) drop_chunks(manifest);
    return done;
  }
  if (replaced.has_value() && AFI_GUARD("remote.replaced.key", replaced->key == key) &&
      AFI_GUARD("remote.replaced.other", replaced->write != manifest.write)) {
    drop_chunks(*replaced);
  }
  return {};
}

Result<void> RemoteEntries::send_chunks(RemoteManifest& manifest,
                                        std::span<const std::byte> value) {
  manifest.chunk_bytes = static_cast<std::uint32_t>(options_.chunk.value());
  manifest.sums.resize(chunk_count(value.size(), options_.chunk));
  FirstError first;
  side_by_side(manifest.sums.size(), [&](std::size_t chunk) {
    if (first.any()) return;  // nobody would look for the rest
    const auto part = manifest.chunk_of(value, chunk);
    manifest.sums[chunk] = Checksum::of(part);
    const auto done =
        set(chunk_name(manifest.write, chunk), text_of(part), {}, options_.ttl + kChunksLonger);
    if (!done.has_value()) first.note(done.error());
  });
  return first.result();
}

/// Whoever cannot be asked keeps them until their time is over.
void RemoteEntries::drop_chunks(const RemoteManifest& manifest) {
  std::map<const void*, std::vector<std::string>> by_server;
  for (std::size_t chunk = 0; chunk < manifest.chunks(); ++chunk) {
    std::string name = chunk_name(manifest.write, chunk);
    const void* const server = cluster_.reachable(name);
    if (server != nullptr) by_server[server].push_back(std::move(name));
  }
  std::vector<std::span<const std::string>> drops;
  for (const auto& [server, names] : by_server) {
    for (std::size_t at = 0; at < names.size(); at += kDroppedAtOnce) {
      const std::size_t count = std::min(kDroppedAtOnce, names.size() - at);
      drops.push_back(std::span(names).subspan(at, count));
    }
  }
  side_by_side(drops.size(), [&](std::size_t i) {
    static_cast<void>(of_each("DEL", drops[i], RemoteLane::kData));
  });
}

/// Whether there is something under the name; if so, `on_bulk` reads it.
Result<bool> RemoteEntries::get(const std::string& name, Duration time, const OnBulk& on_bulk) {
  const std::string command = resp_command({"GET", name});
  bool there = false;
  AFI_TRY_VOID(cluster_.talk(
      name, {.lane = RemoteLane::kData, .time = time},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const std::string_view piece = command;
        AFI_TRY_VOID(connection.send(std::span(&piece, 1), deadline));
        AFI_TRY(RespHead head, connection.read_head(deadline));
        if (head.kind == RespKind::kNil) return {};
        if (head.kind == RespKind::kError) {
          refusal = std::move(head.text);
          return {};
        }
        if (!AFI_GUARD("remote.get.reply", head.kind == RespKind::kBulk)) return astray(connection);
        AFI_TRY_VOID(on_bulk(connection, head, deadline));
        there = true;
        return {};
      }));
  return there;
}

/// The bulk of a manifest, and of the value if that follows.
Result<RemoteEntries::Fetched> RemoteEntries::read_manifest(RespConnection& connection,
                                                            const RespHead& head,
                                                            MemoryBudget& room,
                                                            Duration deadline) const {
  const auto all = static_cast<std::size_t>(head.number);
  std::vector<std::byte> bytes(std::min(all, kManifestFixed));
  AFI_TRY_VOID(connection.read_bytes(bytes, deadline));
  const auto size = manifest_bytes(bytes);
  if (!size.has_value() || !AFI_GUARD("remote.manifest.length", *size <= all)) {
    return astray(connection);
  }
  bytes.resize(*size);
  AFI_TRY_VOID(connection.read_bytes(std::span(bytes).subspan(kManifestFixed), deadline));
  auto manifest = decode_manifest(bytes);
  if (!manifest.has_value() ||
      !AFI_GUARD("remote.largest", Bytes(manifest->value_bytes) <= options_.largest)) {
    return astray(connection);
  }
  const std::uint64_t follows = manifest->follows() ? manifest->value_bytes : 0;
  if (!AFI_GUARD("remote.value.length", all - *size == follows)) return astray(connection);
  deadline += servers_.time_for(Bytes(follows)) - servers_.timeout;
  Fetched fetched{.manifest = *std::move(manifest), .value = nullptr};
  AFI_TRY(fetched.value, AlignedBytes::create(fetched.manifest.value_bytes, room));
  if (follows > 0) AFI_TRY_VOID(connection.read_bytes(fetched.value->bytes(), deadline));
  AFI_TRY_VOID(connection.end_bulk(deadline));
  return fetched;
}

Result<bool> RemoteEntries::fetch_chunk(const Fetched& fetched, std::size_t chunk, Duration until) {
  const Duration left = until - clock_.now();
  if (left <= Duration(0)) return fail(ErrorCode::kUnavailable, "the servers are too slow");
  const auto into = fetched.manifest.chunk_of(fetched.value->bytes(), chunk);
  const std::string name = chunk_name(fetched.manifest.write, chunk);
  AFI_TRY(
      const bool there,
      get(name, std::min(left, servers_.time_for(Bytes(into.size()))),
          [&](RespConnection& connection, const RespHead& head, Duration deadline) -> Result<void> {
            if (!AFI_GUARD("remote.chunk.length",
                           head.number == static_cast<std::int64_t>(into.size()))) {
              return astray(connection);
            }
            AFI_TRY_VOID(connection.read_bytes(into, deadline));
            return connection.end_bulk(deadline);
          }));
  if (there &&
      !AFI_GUARD("remote.chunk.checksum", Checksum::of(into) == fetched.manifest.sums[chunk])) {
    return other_bytes(name);
  }
  return there;
}

/// False: one of them is gone.
Result<bool> RemoteEntries::fetch_chunks(const Fetched& fetched, Duration until) {
  FirstError first;
  std::atomic<bool> gone = false;
  side_by_side(fetched.manifest.chunks(), [&](std::size_t chunk) {
    if (gone || first.any()) return;
    const auto there = fetch_chunk(fetched, chunk, until);
    if (!there.has_value()) first.note(there.error());
    if (there.has_value() && !AFI_GUARD("remote.chunk.there", *there)) gone = true;
  });
  AFI_TRY_VOID(first.result());
  return !gone;
}

/// The entry's manifest, and its value if that follows; else the memory that it comes to.
Result<std::optional<RemoteEntries::Fetched>> RemoteEntries::find(const TierKey& key,
                                                                  MemoryBudget& room) {
  const std::string name = manifest_name(key);
  Fetched fetched;
  AFI_TRY(const bool there, get(name, servers_.timeout,
                                [&](RespConnection& connection, const RespHead& head,
                                    Duration deadline) -> Result<void> {
                                  AFI_TRY(fetched, read_manifest(connection, head, room, deadline));
                                  return {};
                                }));
  if (!there) return std::nullopt;
  const RemoteManifest& manifest = fetched.manifest;
  if (!AFI_GUARD("remote.key", manifest.key == key)) {
    return fail(ErrorCode::kCorruption, name + ": another entry is under this name");
  }
  if (manifest.follows() &&
      !AFI_GUARD("remote.value.checksum",
                 Checksum::of(std::as_const(*fetched.value).bytes()) == manifest.sums.front())) {
    return other_bytes(name);
  }
  return fetched;
}

Result<std::optional<TierEntry>> RemoteEntries::fetch(const TierKey& key, MemoryBudget& room) {
  Duration until{0};
  std::optional<WriteId> gone;
  while (true) {
    AFI_TRY(auto fetched, find(key, room));
    if (!fetched.has_value()) return std::nullopt;
    if (gone == fetched->manifest.write) break;
    const std::span<const std::byte> value = std::as_const(*fetched->value).bytes();
    if (!gone.has_value()) {
      until = clock_.now() + servers_.connect_timeout + servers_.time_for(Bytes(value.size()));
    }
    AFI_TRY(const bool whole, fetch_chunks(*fetched, until));
    if (whole) {
      return TierEntry{
          .meta = std::move(fetched->manifest.meta), .bytes = value, .memory = fetched->value};
    }
    if (gone.has_value()) break;
    // Whoever replaced it has dropped its chunks, after putting a manifest that names others.
    gone = fetched->manifest.write;
  }
  ++incomplete_;
  return std::nullopt;
}

Result<std::vector<std::optional<std::int64_t>>> RemoteEntries::of_each(
    std::string_view verb, std::span<const std::string> names, RemoteLane lane) {
  std::string commands;
  for (const std::string& name : names) commands += resp_command({verb, name});
  std::vector<std::optional<std::int64_t>> numbers(names.size());
  AFI_TRY_VOID(cluster_.talk(
      names.front(), {.lane = lane, .time = servers_.time_for(Bytes(commands.size()))},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const std::string_view piece = commands;
        AFI_TRY_VOID(connection.send(std::span(&piece, 1), deadline));
        for (std::size_t i = 0; i < names.size(); ++i) {
          AFI_TRY(RespHead head, connection.read_head(deadline));
          const bool refused = head.kind == RespKind::kError;
          if (!refused && !AFI_GUARD("remote.each.reply", head.kind == RespKind::kNumber)) {
            return astray(connection);
          }
          numbers[i] = refused ? std::nullopt : std::optional(head.number);
          // Where the first is, all are asked for, if need be.
          if (refused && i == 0) refusal = std::move(head.text);
        }
        return {};
      }));
  return numbers;
}

Result<std::vector<bool>> RemoteEntries::exist(std::span<const TierKey> keys) {
  std::vector<std::string> names;
  for (const TierKey& key : keys) names.push_back(manifest_name(key));
  AFI_TRY(const auto numbers, of_each("EXISTS", names, RemoteLane::kControl));
  std::vector<bool> there;
  for (const std::optional<std::int64_t>& number : numbers) there.push_back(number == 1);
  return there;
}

Result<bool> RemoteEntries::erase(const TierKey& key) {
  const std::string name = manifest_name(key);
  const std::size_t replicas = cluster_.replicas(name);
  // Which chunks it has is known only as long as it is there.
  std::optional<RemoteManifest> chunked;
  static_cast<void>(
      get(name, servers_.timeout,
          [&](RespConnection& connection, const RespHead& head, Duration deadline) -> Result<void> {
            AFI_TRY(chunked, read_chunked(connection, head, deadline));
            return {};
          }));
  bool was_there = false;
  bool all_heard = true;
  const auto number = [](RespConnection& connection, Result<RespValue> said,
                         std::string& refusal) -> Result<std::int64_t> {
    if (!said.has_value()) return std::unexpected(said.error());
    if (said->kind == RespKind::kError) {
      refusal = std::move(said->text);
      return 0;
    }
    if (!AFI_GUARD("remote.erase.reply", said->kind == RespKind::kNumber)) {
      return astray(connection);
    }
    return said->number;
  };
  const auto told = cluster_.talk(
      name, {.lane = RemoteLane::kControl, .time = 3 * servers_.timeout, .despite_breaker = true},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        // Twice, with an answer between: a write that was given up and had come to the server's
        // door before our first word is done before our second.
        const int times = AFI_STEP("remote.erase.again") ? 2 : 1;
        for (int time = 0; time < times && refusal.empty(); ++time) {
          AFI_TRY(const std::int64_t erased,
                  number(connection, connection.ask({"DEL", name}, deadline), refusal));
          was_there |= erased > 0;
        }
        if (replicas == 0 || !refusal.empty()) return {};
        // A replica that did not hear of it would bring it back when it takes over.
        const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(servers_.timeout);
        AFI_TRY(const std::int64_t heard, number(connection,
                                                 connection.ask({"WAIT", std::to_string(replicas),
                                                                 std::to_string(timeout.count())},
                                                                deadline),
                                                 refusal));
        all_heard = AFI_GUARD("remote.erase.copies", heard >= static_cast<std::int64_t>(replicas));
        return {};
      });
  if (chunked.has_value() && AFI_GUARD("remote.erased.key", chunked->key == key)) {
    drop_chunks(*chunked);
  }
  AFI_TRY_VOID(told);
  if (all_heard) return was_there;
  return fail(ErrorCode::kUnavailable,
              "not every copy of the servers' has heard of an erasure: until its time is over the "
              "entry may come back, if one of them takes over");
}

Duration RemoteEntries::longest_fetch(Bytes value) const {
  const auto asked = [&](Bytes bytes) {
    return servers_.connect_timeout + servers_.time_for(bytes);
  };
  // A server that sends us elsewhere is one server more.
  if (value <= options_.chunk) return 2 * asked(value);
  // And what was replaced while it was read is looked for once more, in what is left of the time.
  return 4 * asked(0_B) + asked(value) + 2 * asked(options_.chunk);
}

}  // namespace afterimage
