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
  struct ToSend {
    const TierKey& key;
    const EntryMeta& meta;
    std::span<const std::byte> value;
  };
  /// send() of entries with different keys, in order; those that need no chunks in one round trip to
  /// each server.
  std::vector<Result<void>> send_all(std::span<const ToSend> entries);

  /// A lease, and the command that claims it.
  struct LeaseCommand {
    std::string name;
    std::string command;
  };
  struct Claimed {
    std::optional<bool> granted;  // nullopt: no server said
    /// Of the keys whose entry is known, or known to be absent.
    std::vector<std::pair<TierKey, std::optional<TierEntry>>> found;
  };
  /// Claims a lease and fetches entries, in one round trip to each server. Entries on the lease's
  /// server are fetched after the claim. Damaged entries and those in chunks are not found here.
  Claimed claim_and_fetch(const LeaseCommand& lease, std::span<const TierKey> keys,
                          MemoryBudget& budget);
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
  /// A manifest and the memory for its value.
  struct Fetched {
    RemoteManifest manifest;
    std::shared_ptr<AlignedBytes> value;
  };
  using OnBulk = std::function<Result<void>(RespConnection&, const RespHead&, Duration deadline)>;

  /// Without checksums and chunks.
  static Result<RemoteManifest> new_manifest(const TierKey& key, const EntryMeta& meta,
                                             std::span<const std::byte> value);
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
  /// All keys belong to one server. `lease`: nullptr, or on the same server.
  Claimed claim_and_fetch_there(const LeaseCommand* lease, std::span<const TierKey> keys,
                                MemoryBudget& budget);
  Result<void> read_found(RespConnection& connection, const RespHead& head, const TierKey& key,
                          MemoryBudget& budget, Duration& deadline, Claimed& into) const;
  /// All entries belong to one server. Sets the results of those that it answered; of those that it
  /// refused it returns the places.
  std::vector<std::size_t> send_there(std::span<const ToSend> entries,
                                      std::span<const std::size_t> places,
                                      std::vector<Result<void>>& results);
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
