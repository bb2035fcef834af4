// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "foundation/platform/workers.h"
#include "storage/redis/remote_cluster.h"
#include "storage/remote/manifest.h"

namespace afterimage {

struct RemoteEntriesOptions {
  Duration ttl = std::chrono::hours(24);  // of what is sent; then the servers forget it
  Bytes chunk = 1_MiB;                    // larger entries are cut; at most kLargestChunk
  Bytes largest = 512_MiB;                // larger ones are not believed
  unsigned helpers = 4;                   // threads for chunks, beside those who ask
};

/// Entries as servers keep them: sends them whole, fetches them verified, asks for them, erases
/// them. It remembers nothing of them.
///
/// Errors   kCorruption: what is there is not what was put, or another's; kUnavailable, kNoSpace:
/// as
///          RemoteCluster, and kNoSpace of the caller's own budget.
/// Threads  Any.
/// Source   docs/formats/remote.md.
class RemoteEntries {
 public:
  /// `cluster` and `clock` outlive it.
  RemoteEntries(RemoteCluster& cluster, const RemoteEntriesOptions& options, const Clock& clock);

  /// Chunks first, the manifest last: whoever finds the manifest finds the rest. The chunks of what
  /// an entry in chunks replaces go then, as far as the servers can be asked; and its own, if the
  /// manifest cannot be put.
  Result<void> send(const TierKey& key, const EntryMeta& meta, std::span<const std::byte> value);
  /// nullopt: there is none, or a part of it is gone and nothing else has come in its place.
  Result<std::optional<TierEntry>> fetch(const TierKey& key, MemoryBudget& room);
  /// All of one server's, in one go there and one back.
  Result<std::vector<bool>> exist(std::span<const TierKey> keys);
  /// Whether there was one. Well only if every copy that the servers keep has heard of it. Its
  /// chunks, which nobody finds any more, go as far as the servers can be asked.
  Result<bool> erase(const TierKey& key);

  /// Calls work(0) … work(count - 1) side by side.
  void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work);
  /// The longest that fetch() takes, whatever the servers do, but for what this machine itself
  /// needs.
  [[nodiscard]] Duration longest_fetch(Bytes value) const;
  /// Entries of which a part was gone.
  [[nodiscard]] std::uint64_t incomplete() const { return incomplete_; }

 private:
  struct Fetched;
  using OnBulk = std::function<Result<void>(RespConnection&, const RespHead&, Duration deadline)>;

  /// `replaced`: what stood there, if that is to be told and was in chunks.
  Result<void> set(const std::string& name, std::string_view first, std::string_view second,
                   Duration ttl, std::optional<RemoteManifest>* replaced = nullptr);
  Result<bool> get(const std::string& name, Duration time, const OnBulk& on_bulk);
  /// What a server's numbers are, name by name; nullopt: it refused. One go there and one back.
  Result<std::vector<std::optional<std::int64_t>>> of_each(std::string_view verb,
                                                           std::span<const std::string> names,
                                                           RemoteLane lane);
  Result<void> send_chunks(RemoteManifest& manifest, std::span<const std::byte> value);
  void drop_chunks(const RemoteManifest& manifest);
  Result<Fetched> read_manifest(RespConnection& connection, const RespHead& head,
                                MemoryBudget& room, Duration deadline) const;
  Result<std::optional<Fetched>> find(const TierKey& key, MemoryBudget& room);
  Result<bool> fetch_chunk(const Fetched& fetched, std::size_t chunk, Duration until);
  Result<bool> fetch_chunks(const Fetched& fetched, Duration until);

  RemoteCluster& cluster_;
  const RemoteServers& servers_;
  const RemoteEntriesOptions options_;
  const Clock& clock_;
  std::atomic<std::uint64_t> incomplete_ = 0;
  Workers helpers_;
};

}  // namespace afterimage
