// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>

#include "afterimage/clock.h"
#include "afterimage/tier.h"
#include "storage/redis/remote_cluster.h"
#include "storage/redis/remote_options.h"

namespace afterimage {

struct RemoteTierOptions {
  RemoteServers servers;
  Duration ttl = std::chrono::hours(24);  // of what is put; then the servers forget it
  Bytes chunk = 1_MiB;                    // larger entries are cut; at most kLargestChunk
  Bytes largest = 512_MiB;                // entries that are larger are refused
  /// A put that finds no room for its copy waits so long for it, and is refused then.
  Duration put_timeout = std::chrono::milliseconds(0);
  Duration flush_timeout = std::chrono::seconds(30);
  unsigned senders = 3;        // threads that send what was put
  unsigned helpers = 4;        // threads that fetch and send chunks beside those who ask
  std::size_t known = 65'536;  // keys of which it is remembered for a while whether they are there
  Duration known_there = std::chrono::minutes(5);
  Duration known_absent = std::chrono::seconds(2);
};

struct RemoteTierStats {
  RemoteClusterStats cluster;
  std::uint64_t incomplete = 0;  // entries of which a part was gone
  std::uint64_t lost = 0;        // puts that were taken in, and did not arrive
  std::uint64_t left_alone = 0;  // gets that missed at once, since the server was not well
};

/// Entries on servers of Redis or Valkey, alone or a cluster of them, shared by all processes that
/// have the same secret.
///
/// Shape    A manifest under the entry's key; values larger than a chunk in chunks that are spread
///          over the cluster, written before the manifest that names them: docs/formats/remote.md.
/// Unit     The budget pays for copies on their way to the servers. What the servers keep, and whom
///          they evict, is theirs: maxmemory.
/// Errors   See Tier. Whatever is missing, damaged, or another's is a miss. put: kUnavailable when
///          no room came back within put_timeout. erase: kUnavailable when it is not certain that
///          the entry is gone: see docs/remote.md. stats().trouble says what is wrong.
/// Visible  flush() returns once everything put before can be found by others; kUnavailable if some
///          of it did not arrive.
/// Time     Every call ends: get within longest_get(), erase and flush within their own; put at
///          once but for put_timeout. A server that fails is left alone for a while, and its keys
///          miss at once.
/// Threads  Any; several of its own.
/// Source   src/remote/DESIGN.md.
class RemoteTier final : public Tier {
 public:
  /// kInvalidArgument: options that make no sense. Servers that cannot be reached are no error:
  /// they are looked for. `memory` and `clock` outlive the tier.
  static Result<std::unique_ptr<RemoteTier>> open(RemoteTierOptions options, MemoryBudget& memory,
                                                  const Clock& clock);
  ~RemoteTier() override;
  RemoteTier(const RemoteTier&) = delete;
  RemoteTier& operator=(const RemoteTier&) = delete;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  std::vector<Result<std::optional<TierEntry>>> get_all(std::span<const TierKey> keys,
                                                        MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override;
  Result<void> flush() override;
  /// True for whatever is not known to be absent, if its server can be asked.
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  /// Was put or found here a while ago. The servers may have evicted it since.
  [[nodiscard]] bool holds(const TierKey& key) const override;
  void probe(std::span<const TierKey> keys) override;
  void invalidate_negative(std::span<const TierKey> keys) override;
  [[nodiscard]] bool is_pending(const TierKey& key) const override;
  /// `entries` are those that holds(); `used` is what is on its way.
  [[nodiscard]] TierStats stats() const override;
  [[nodiscard]] RemoteTierStats remote_stats() const;

  /// Calls back once nothing of the key is on its way, at once or from a thread of the tier's.
  void after(const TierKey& key, std::function<void()> then);
  /// The longest that a get of so many bytes takes, whatever the servers do, but for the time that
  /// this machine needs itself.
  [[nodiscard]] Duration longest_get(Bytes value) const;
  [[nodiscard]] RemoteCluster& cluster();

 private:
  struct State;
  explicit RemoteTier(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
