// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/tier.h"
#include "storage/memory/lease_service.h"
#include "storage/redis/remote_cluster.h"
#include "storage/redis/remote_options.h"

namespace afterimage {

struct RemoteTierOptions {
  RemoteServers servers;
  Duration ttl = std::chrono::hours(24);  // time to live of stored entries
  Bytes chunk = 1_MiB;                    // larger values are chunked; at most kLargestChunk
  Bytes largest = 512_MiB;  // larger entries are refused, and manifests of them count as corrupt
  /// How long a put waits for memory for its copy before it is refused.
  Duration put_timeout = std::chrono::milliseconds(0);
  Duration flush_timeout = std::chrono::seconds(30);
  unsigned senders = 3;        // threads that send entries
  unsigned helpers = 4;        // threads that fetch and send chunks, besides the calling ones
  std::size_t known = 65'536;  // keys whose presence or absence is cached
  Duration known_there = std::chrono::minutes(5);
  Duration known_absent = std::chrono::seconds(2);
};

struct RemoteTierStats {
  RemoteClusterStats cluster;
  std::uint64_t incomplete = 0;  // gets that missed because a chunk was missing
  std::uint64_t lost = 0;        // accepted puts that did not reach the servers
  std::uint64_t circuit_rejected =
      0;  // gets that missed at once: no server, or its breaker is open
};

/// Entries on a Redis or Valkey server or cluster, shared by all processes that have the same
/// secret.
///
/// Shape    A manifest under the entry's key; values larger than a chunk are cut into chunks,
///          spread over the cluster and written before the manifest that names them:
///          docs/formats/remote.md.
/// Unit     The budget covers copies on their way to the servers. The servers limit and evict what
///          they store: maxmemory.
/// Errors   See Tier. A missing, damaged or foreign entry is a miss. put: kUnavailable when no
///          memory was freed within put_timeout. erase: kUnavailable, kTimeout when it is not
///          certain: see docs/remote.md. stats().degraded_reason says what is wrong.
/// Visible  flush() returns once other processes can find everything put before; kUnavailable if
///          some of it did not reach the servers.
/// Time     Every call is bounded: get by longest_get(), erase and flush by flush_timeout and the
///          servers' timeouts, put by put_timeout. While a server's circuit breaker is open, its
///          keys miss at once.
/// Threads  Any; several of its own.
/// Source   src/storage/remote/DESIGN.md.
class RemoteTier final : public Tier {
 public:
  /// kInvalidArgument: chunk or ttl out of range, or no server given. Unreachable servers are not
  /// an error: the tier keeps trying. `memory` and `clock` outlive the tier.
  static Result<std::unique_ptr<RemoteTier>> open(RemoteTierOptions options, MemoryBudget& memory,
                                                  const Clock& clock);
  ~RemoteTier() override;
  RemoteTier(const RemoteTier&) = delete;
  RemoteTier& operator=(const RemoteTier&) = delete;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    return put_pieces(key, meta, {&bytes, 1});
  }
  Result<void> put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& budget) override;
  std::vector<Result<std::optional<TierEntry>>> get_all(std::span<const TierKey> keys,
                                                        MemoryBudget& budget) override;
  Result<void> erase(const TierKey& key) override;
  Result<EntryCount> erase_matching(const EntryFilter& filter) override;
  Result<void> flush() override;
  /// True unless the key is known to be absent or its server's circuit breaker is open.
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  /// The entry was put or found recently. The servers may have evicted it since.
  [[nodiscard]] bool holds(const TierKey& key) const override;
  void probe(std::span<const TierKey> keys) override;
  void invalidate_negative(std::span<const TierKey> keys) override;
  [[nodiscard]] bool is_pending(const TierKey& key) const override;
  /// `entries` counts keys for which holds() is true; `used` is the memory of pending writes.
  [[nodiscard]] TierStats stats() const override;
  [[nodiscard]] RemoteTierStats remote_stats() const;

  /// Claims the lease `name` with `command`, and looks up `keys` after it, in one round trip to each
  /// server. `granted` nullopt: no server said.
  struct ClaimedLease {
    std::optional<bool> granted;
    std::unique_ptr<LeaseService::Prefetched> prefetched;
  };
  ClaimedLease claim_and_prefetch(std::string name, std::string command,
                                  std::span<const TierKey> keys, MemoryBudget& room);
  /// Calls back once no write of the key is pending: at once, or later from a thread of the tier.
  void when_settled(const TierKey& key, std::function<void()> callback);
  /// Upper bound on the time that a get of so many bytes waits for servers, whatever they do.
  [[nodiscard]] Duration longest_get(Bytes value) const;
  [[nodiscard]] RemoteCluster& cluster();

 private:
  struct State;
  explicit RemoteTier(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
