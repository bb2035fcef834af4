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
#include "storage/remote/remote_tier.h"

namespace afterimage {

/// Entries as manifests and chunks on the servers: sends, fetches and verifies, probes and erases
/// them. Stateless: it remembers nothing about the entries.
///
/// Errors   kCorruption: the stored bytes are damaged or belong to another entry; kUnavailable,
///          kNoSpace: as RemoteCluster; kNoSpace also when the caller's memory budget is full.
/// Threads  Any.
/// Source   docs/formats/remote.md.
class RemoteEntries {
 public:
  /// `cluster`, `options` and `clock` outlive it.
  RemoteEntries(RemoteCluster& cluster, const RemoteTierOptions& options, const Clock& clock);

  /// Stores the chunks first and the manifest last, so a manifest never names missing chunks. Then
  /// deletes the chunks of the chunked entry that it replaced, or its own chunks if the server
  /// refused the manifest. These deletions are best effort.
  Result<void> send(const TierKey& key, const EntryMeta& meta, std::span<const std::byte> value);
  /// nullopt: there is no entry, or a chunk is missing and no newer entry has replaced it.
  Result<std::optional<TierEntry>> fetch(const TierKey& key, MemoryBudget& budget);
  /// Which entries exist, in one round trip. All keys must belong to one server.
  Result<std::vector<bool>> exist(std::span<const TierKey> keys);
  /// Whether the entry existed. Succeeds only if every replica has acknowledged the deletion. Its
  /// chunks, which no manifest names any more, are deleted as best effort.
  Result<bool> erase(const TierKey& key);
  /// Lists the manifests of every server and erases those that the filter matches, and those that
  /// are damaged; `erased` is called for each.
  Result<EntryCount> erase_matching(const EntryFilter& filter,
                                    const std::function<void(const TierKey&)>& erased);

  /// Calls work(0) … work(count - 1) in parallel; see parallel_for.h.
  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& work);
  /// Upper bound on the time that fetch() waits for servers, whatever they do.
  [[nodiscard]] Duration longest_fetch(Bytes value) const;
  /// Number of fetches that missed because a chunk was missing.
  [[nodiscard]] std::uint64_t incomplete() const { return incomplete_; }

 private:
  struct Fetched;
  using OnBulk = std::function<Result<void>(RespConnection&, const RespHead&, Duration deadline)>;

  /// SET name first+second. If `replaced` is given, it receives the replaced manifest, provided
  /// that its value was in chunks.
  Result<void> set(const std::string& name, std::string_view first, std::string_view second,
                   Duration ttl, std::optional<RemoteManifest>* replaced = nullptr);
  Result<bool> get(const std::string& name, Duration time, const OnBulk& on_bulk);
  /// Whether it was there.
  static Result<bool> remove(const std::string& name, RespConnection& connection, Duration deadline,
                             std::string& refusal);
  Result<bool> all_replicas_have_it(const std::string& name, RespConnection& connection,
                                    Duration deadline, std::string& refusal);
  /// Runs `verb` on each name in one round trip and returns the integer replies; nullopt for an
  /// error reply. All names must belong to one server.
  Result<std::vector<std::optional<std::int64_t>>> batch(std::string_view verb,
                                                         std::span<const std::string> names,
                                                         RemoteLane lane);
  /// The keys of a server whose manifests the filter matches.
  Result<std::vector<TierKey>> find_matching(RemoteNode& server, const EntryFilter& filter);
  Result<bool> matches(RespConnection& connection, const std::string& name,
                       std::span<const std::byte> beginning, const EntryFilter& filter,
                       Duration deadline) const;
  Result<void> send_chunks(RemoteManifest& manifest, std::span<const std::byte> value);
  void drop_chunks(const RemoteManifest& manifest);
  Result<Fetched> read_manifest(RespConnection& connection, const RespHead& head,
                                MemoryBudget& budget, Duration deadline) const;
  Result<std::optional<Fetched>> find(const TierKey& key, MemoryBudget& budget);
  Result<bool> fetch_chunk(const Fetched& fetched, std::size_t chunk, Duration until);
  Result<bool> fetch_chunks(const Fetched& fetched, Duration until);

  RemoteCluster& cluster_;
  const RemoteServers& servers_;
  const RemoteTierOptions& options_;
  const Clock& clock_;
  std::atomic<std::uint64_t> incomplete_ = 0;
  Workers helpers_;
};

}  // namespace afterimage
