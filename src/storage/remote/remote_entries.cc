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
#include "foundation/platform/parallel_for.h"
#include "storage/memory/checksum.h"

namespace afterimage {
namespace {

/// Added to the chunks' time to live, so that they outlive the manifest that names them.
constexpr Duration kChunkExtraTtl = std::chrono::minutes(1);
constexpr std::size_t kMaxQueuedTasks = 256;
/// Chunks deleted in one round trip.
constexpr std::size_t kMaxDeletesPerCall = 512;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<WriteId> random_write() {
  AFI_TRY(const auto random, random_secret());
  WriteId write;
  std::ranges::copy(std::span(random).first(write.size()), write.begin());
  return write;
}

/// Abandons the connection: after an unexpected reply, later bytes cannot be interpreted.
std::unexpected<Error> unexpected_reply(RespConnection& connection) {
  connection.abandon();
  return fail(ErrorCode::kCorruption, connection.name() + ": unexpected reply");
}

std::unexpected<Error> checksum_mismatch(const std::string& name) {
  return fail(ErrorCode::kCorruption, name + ": checksum mismatch");
}

/// Reads a bulk as the manifest of a chunked entry. nullopt: it is not a valid one, so it names no
/// chunks.
Result<std::optional<RemoteManifest>> read_chunked(RespConnection& connection, const RespHead& head,
                                                   Duration deadline) {
  const auto all = static_cast<std::size_t>(head.number);
  if (all > kLongestManifest) {
    // An inline value has no chunks, and reconnecting costs less than reading its bytes.
    connection.abandon();
    return std::nullopt;
  }
  std::vector<std::byte> bytes(all);
  AFI_TRY_VOID(connection.read_bytes(bytes, deadline));
  AFI_TRY_VOID(connection.end_bulk(deadline));
  auto manifest = decode_manifest(bytes);
  if (!manifest.has_value() || manifest->value_is_inline()) return std::nullopt;
  return *std::move(manifest);
}

/// The number that a command replied; an error reply goes into `refusal`.
Result<std::int64_t> whole_number(RespConnection& connection, Result<RespValue> reply,
                                  std::string& refusal) {
  if (!reply.has_value()) return std::unexpected(reply.error());
  if (reply->kind == RespKind::kError) {
    refusal = std::move(reply->text);
    return 0;
  }
  if (!AFI_GUARD("remote.erase.reply", reply->kind == RespKind::kNumber)) {
    return unexpected_reply(connection);
  }
  return reply->number;
}

/// The first error of several parallel tasks.
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

RemoteEntries::RemoteEntries(RemoteCluster& cluster, const RemoteTierOptions& options,
                             const Clock& clock)
    : cluster_(cluster),
      servers_(cluster.servers()),
      options_(options),
      clock_(clock),
      helpers_(options.helpers, kMaxQueuedTasks) {}

void RemoteEntries::parallel_for(std::size_t count, const std::function<void(std::size_t)>& work) {
  afterimage::parallel_for(helpers_, servers_.connections, count, work);
}

Result<void> RemoteEntries::set(const std::string& name, std::string_view first,
                                std::string_view second, Duration ttl,
                                std::optional<RemoteManifest>* replaced) {
  const std::size_t size = first.size() + second.size();
  const RespAround frame = resp_set(name, size, ttl, replaced != nullptr);
  return cluster_.call(
      name, {.lane = RemoteLane::kData, .time = servers_.time_for(Bytes(size))},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const std::array pieces{std::string_view(frame.before), first, second,
                                std::string_view(frame.after)};
        AFI_TRY_VOID(connection.send(pieces, deadline));
        AFI_TRY(RespHead head, connection.read_head(deadline));
        if (head.kind == RespKind::kError) {
          refusal = std::move(head.text);
          return {};
        }
        const bool done = replaced == nullptr
                              ? head.kind == RespKind::kText && head.text == "OK"
                              : head.kind == RespKind::kNil || head.kind == RespKind::kBulk;
        if (!AFI_GUARD("remote.set.reply", done)) return unexpected_reply(connection);
        if (head.kind == RespKind::kBulk) {
          AFI_TRY(*replaced, read_chunked(connection, head, deadline));
        }
        return {};
      });
}

Result<RemoteManifest> RemoteEntries::new_manifest(const TierKey& key, const EntryMeta& meta,
                                                   std::span<const std::byte> value) {
  RemoteManifest manifest{.key = key, .meta = meta, .value_bytes = value.size(), .sums = {}};
  if (AFI_STEP("remote.write.number")) {
    AFI_TRY(manifest.write, random_write());
  }
  return manifest;
}

Result<void> RemoteEntries::send(const TierKey& key, const EntryMeta& meta,
                                 std::span<const std::byte> value) {
  AFI_TRY(RemoteManifest manifest, new_manifest(key, meta, value));
  const std::string name = manifest_name(key);
  if (Bytes(value.size()) <= options_.chunk) {
    manifest.sums.push_back(Checksum::of(value));
    return set(name, text_of(encode_manifest(manifest)), text_of(value), options_.ttl);
  }
  const auto sent = send_chunks(manifest, value);
  // A manifest without its chunks would hide the entry that it replaces.
  if (!AFI_GUARD("remote.chunks.first", sent.has_value())) {
    drop_chunks(manifest);
    return sent;
  }
  // SET … GET is atomic: of two concurrent writers, each learns of a different replaced manifest.
  std::optional<RemoteManifest> replaced;
  const auto done = set(name, text_of(encode_manifest(manifest)), {}, options_.ttl, &replaced);
  if (!done.has_value()) {
    // Only after an explicit refusal: without a reply the manifest may have been stored.
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
  parallel_for(manifest.sums.size(), [&](std::size_t chunk) {
    if (first.any()) return;  // no manifest will name the rest
    const auto part = manifest.chunk_of(value, chunk);
    manifest.sums[chunk] = Checksum::of(part);
    const auto done =
        set(chunk_name(manifest.write, chunk), text_of(part), {}, options_.ttl + kChunkExtraTtl);
    if (!done.has_value()) first.note(done.error());
  });
  return first.result();
}

/// Best effort: chunks on unreachable servers stay until they expire.
void RemoteEntries::drop_chunks(const RemoteManifest& manifest) {
  std::map<const void*, std::vector<std::string>> by_server;
  for (std::size_t chunk = 0; chunk < manifest.chunks(); ++chunk) {
    std::string name = chunk_name(manifest.write, chunk);
    const void* const server = cluster_.reachable(name);
    if (server != nullptr) by_server[server].push_back(std::move(name));
  }
  std::vector<std::span<const std::string>> drops;
  for (const auto& [server, names] : by_server) {
    for (std::size_t at = 0; at < names.size(); at += kMaxDeletesPerCall) {
      const std::size_t count = std::min(kMaxDeletesPerCall, names.size() - at);
      drops.push_back(std::span(names).subspan(at, count));
    }
  }
  parallel_for(drops.size(), [&](std::size_t i) {
    static_cast<void>(batch("DEL", drops[i], RemoteLane::kData));
  });
}

/// DEL twice, waiting for the first reply: an earlier write of ours that timed out may still lie in
/// the server's socket; the server has executed it before the second DEL.
Result<bool> RemoteEntries::remove(const std::string& name, RespConnection& connection,
                                   Duration deadline, std::string& refusal) {
  bool was_there = false;
  const int times = AFI_STEP("remote.erase.again") ? 2 : 1;
  for (int time = 0; time < times && refusal.empty(); ++time) {
    AFI_TRY(const std::int64_t erased,
            whole_number(connection, connection.ask({"DEL", name}, deadline), refusal));
    was_there |= erased > 0;
  }
  return was_there;
}

/// A replica without the deletion would bring the entry back when it takes over.
Result<bool> RemoteEntries::all_replicas_have_it(const std::string& name,
                                                 RespConnection& connection, Duration deadline,
                                                 std::string& refusal) {
  AFI_TRY(const std::size_t replicas,
          cluster_.replicas_to_await(name, connection, deadline, RemoteCluster::Replicas::kAll));
  if (replicas == 0) return true;
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(servers_.timeout);
  AFI_TRY(const std::int64_t acknowledged,
          whole_number(
              connection,
              connection.ask({"WAIT", std::to_string(replicas), std::to_string(timeout.count())},
                             deadline),
              refusal));
  return AFI_GUARD("remote.erase.copies", acknowledged >= static_cast<std::int64_t>(replicas));
}

/// Whether the name exists; if so, `on_bulk` reads its value.
Result<bool> RemoteEntries::get(const std::string& name, Duration time, const OnBulk& on_bulk) {
  const std::string command = resp_command({"GET", name});
  bool exists = false;
  AFI_TRY_VOID(cluster_.call(
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
        if (!AFI_GUARD("remote.get.reply", head.kind == RespKind::kBulk))
          return unexpected_reply(connection);
        AFI_TRY_VOID(on_bulk(connection, head, deadline));
        exists = true;
        return {};
      }));
  return exists;
}

/// Reads the bulk of a manifest, and the value if it is inline.
Result<RemoteEntries::Fetched> RemoteEntries::read_manifest(RespConnection& connection,
                                                            const RespHead& head,
                                                            MemoryBudget& budget,
                                                            Duration deadline) const {
  const auto all = static_cast<std::size_t>(head.number);
  std::vector<std::byte> bytes(std::min(all, kManifestFixed));
  AFI_TRY_VOID(connection.read_bytes(bytes, deadline));
  const auto size = manifest_bytes(bytes);
  if (!size.has_value() || !AFI_GUARD("remote.manifest.length", *size <= all)) {
    return unexpected_reply(connection);
  }
  bytes.resize(*size);
  AFI_TRY_VOID(connection.read_bytes(std::span(bytes).subspan(kManifestFixed), deadline));
  auto manifest = decode_manifest(bytes);
  if (!manifest.has_value() ||
      !AFI_GUARD("remote.largest", Bytes(manifest->value_bytes) <= options_.largest)) {
    return unexpected_reply(connection);
  }
  const std::uint64_t inline_bytes = manifest->value_is_inline() ? manifest->value_bytes : 0;
  if (!AFI_GUARD("remote.value.length", all - *size == inline_bytes))
    return unexpected_reply(connection);
  deadline += servers_.time_for(Bytes(inline_bytes)) - servers_.timeout;
  Fetched fetched{.manifest = *std::move(manifest), .value = nullptr};
  AFI_TRY(fetched.value, AlignedBytes::create(fetched.manifest.value_bytes, budget));
  if (inline_bytes > 0) AFI_TRY_VOID(connection.read_bytes(fetched.value->bytes(), deadline));
  AFI_TRY_VOID(connection.end_bulk(deadline));
  return fetched;
}

Result<bool> RemoteEntries::fetch_chunk(const Fetched& fetched, std::size_t chunk, Duration until) {
  const Duration left = until - clock_.now();
  if (left <= Duration(0))
    return fail(ErrorCode::kTimeout, "fetching an entry's chunks exceeded its deadline");
  const auto into = fetched.manifest.chunk_of(fetched.value->bytes(), chunk);
  const std::string name = chunk_name(fetched.manifest.write, chunk);
  AFI_TRY(
      const bool exists,
      get(name, std::min(left, servers_.time_for(Bytes(into.size()))),
          [&](RespConnection& connection, const RespHead& head, Duration deadline) -> Result<void> {
            if (!AFI_GUARD("remote.chunk.length",
                           head.number == static_cast<std::int64_t>(into.size()))) {
              return unexpected_reply(connection);
            }
            AFI_TRY_VOID(connection.read_bytes(into, deadline));
            return connection.end_bulk(deadline);
          }));
  if (exists &&
      !AFI_GUARD("remote.chunk.checksum", Checksum::of(into) == fetched.manifest.sums[chunk])) {
    return checksum_mismatch(name);
  }
  return exists;
}

/// False: a chunk is missing.
Result<bool> RemoteEntries::fetch_chunks(const Fetched& fetched, Duration until) {
  FirstError first;
  std::atomic<bool> missing = false;
  parallel_for(fetched.manifest.chunks(), [&](std::size_t chunk) {
    if (missing || first.any()) return;
    const auto exists = fetch_chunk(fetched, chunk, until);
    if (!exists.has_value()) first.note(exists.error());
    if (exists.has_value() && !AFI_GUARD("remote.chunk.there", *exists)) missing = true;
  });
  AFI_TRY_VOID(first.result());
  return !missing;
}

/// Fetches the entry's manifest, and its value if it is inline; otherwise allocates the value.
Result<std::optional<RemoteEntries::Fetched>> RemoteEntries::find(const TierKey& key,
                                                                  MemoryBudget& budget) {
  const std::string name = manifest_name(key);
  Fetched fetched;
  AFI_TRY(
      const bool exists,
      get(name, servers_.timeout,
          [&](RespConnection& connection, const RespHead& head, Duration deadline) -> Result<void> {
            AFI_TRY(fetched, read_manifest(connection, head, budget, deadline));
            return {};
          }));
  if (!exists) return std::nullopt;
  const RemoteManifest& manifest = fetched.manifest;
  if (!AFI_GUARD("remote.key", manifest.key == key)) {
    return fail(ErrorCode::kCorruption, name + ": the manifest belongs to another key");
  }
  if (manifest.value_is_inline() &&
      !AFI_GUARD("remote.value.checksum",
                 Checksum::of(std::as_const(*fetched.value).bytes()) == manifest.sums.front())) {
    return checksum_mismatch(name);
  }
  return fetched;
}

Result<std::optional<TierEntry>> RemoteEntries::fetch(const TierKey& key, MemoryBudget& budget) {
  Duration until{0};
  std::optional<WriteId> missing;
  while (true) {
    AFI_TRY(auto fetched, find(key, budget));
    if (!fetched.has_value()) return std::nullopt;
    if (missing == fetched->manifest.write) break;
    const std::span<const std::byte> value = std::as_const(*fetched->value).bytes();
    if (!missing.has_value()) {
      until = clock_.now() + servers_.connect_timeout + servers_.time_for(Bytes(value.size()));
    }
    AFI_TRY(const bool whole, fetch_chunks(*fetched, until));
    if (whole) {
      return TierEntry{
          .meta = std::move(fetched->manifest.meta), .bytes = value, .memory = fetched->value};
    }
    if (missing.has_value()) break;
    // A concurrent writer may have replaced the entry and deleted these chunks: read the manifest
    // once more.
    missing = fetched->manifest.write;
  }
  ++incomplete_;
  return std::nullopt;
}

Result<std::vector<std::optional<std::int64_t>>> RemoteEntries::batch(
    std::string_view verb, std::span<const std::string> names, RemoteLane lane) {
  std::string commands;
  for (const std::string& name : names) commands += resp_command({verb, name});
  std::vector<std::optional<std::int64_t>> numbers(names.size());
  AFI_TRY_VOID(cluster_.call(
      names.front(), {.lane = lane, .time = servers_.time_for(Bytes(commands.size()))},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const std::string_view piece = commands;
        AFI_TRY_VOID(connection.send(std::span(&piece, 1), deadline));
        for (std::size_t i = 0; i < names.size(); ++i) {
          AFI_TRY(RespHead head, connection.read_head(deadline));
          const bool refused = head.kind == RespKind::kError;
          if (!refused && !AFI_GUARD("remote.each.reply", head.kind == RespKind::kNumber)) {
            return unexpected_reply(connection);
          }
          numbers[i] = refused ? std::nullopt : std::optional(head.number);
          // A redirection of the first name redirects the whole batch.
          if (refused && i == 0) refusal = std::move(head.text);
        }
        return {};
      }));
  return numbers;
}

Result<std::vector<bool>> RemoteEntries::exist(std::span<const TierKey> keys) {
  std::vector<std::string> names;
  for (const TierKey& key : keys) names.push_back(manifest_name(key));
  AFI_TRY(const auto numbers, batch("EXISTS", names, RemoteLane::kControl));
  std::vector<bool> exists;
  for (const std::optional<std::int64_t>& number : numbers) exists.push_back(number == 1);
  return exists;
}

Result<bool> RemoteEntries::erase(const TierKey& key) {
  const std::string name = manifest_name(key);
  // Read the manifest first: it alone names the chunks.
  std::optional<RemoteManifest> chunked;
  static_cast<void>(
      get(name, servers_.timeout,
          [&](RespConnection& connection, const RespHead& head, Duration deadline) -> Result<void> {
            AFI_TRY(chunked, read_chunked(connection, head, deadline));
            return {};
          }));
  bool was_there = false;
  bool all_acknowledged = true;
  const auto done = cluster_.call(
      name, {.lane = RemoteLane::kControl, .time = 4 * servers_.timeout, .ignore_breaker = true},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        AFI_TRY(was_there, remove(name, connection, deadline, refusal));
        if (!refusal.empty()) return {};
        AFI_TRY(all_acknowledged, all_replicas_have_it(name, connection, deadline, refusal));
        return {};
      });
  if (chunked.has_value() && AFI_GUARD("remote.erased.key", chunked->key == key)) {
    drop_chunks(*chunked);
  }
  AFI_TRY_VOID(done);
  if (all_acknowledged) AFI_TRY_VOID(cluster_.erasures_last(name));
  if (all_acknowledged) return was_there;
  return fail(ErrorCode::kUnavailable,
              name +
                  ": not every replica acknowledged the deletion: until its time to live ends, "
                  "the entry may come back if such a replica takes over; erase it again. A replica "
                  "that was taken away counts for five minutes");
}

Duration RemoteEntries::longest_fetch(Bytes value) const {
  const auto asked = [&](Bytes bytes) {
    return servers_.connect_timeout + servers_.time_for(bytes);
  };
  // A redirection adds one more server.
  if (value <= options_.chunk) return 2 * asked(value);
  // A chunked entry that was replaced while it was read is fetched once more, in the time left.
  return 4 * asked(0_B) + asked(value) + 2 * asked(options_.chunk);
}

}  // namespace afterimage
