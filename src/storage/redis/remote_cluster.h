// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "afterimage/clock.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "storage/redis/remote_node.h"
#include "storage/redis/remote_options.h"
#include "storage/redis/slots.h"

namespace afterimage {

struct RemoteClusterStats {
  bool is_cluster = false;
  std::size_t masters = 0;
  std::uint64_t redirected = 0;    // commands that were redirected (MOVED or ASK)
  std::uint64_t tables = 0;        // slot tables read
  std::uint64_t times_opened = 0;  // circuit breaker openings, over the current servers
  std::string degraded_reason;     // empty: all is well
};

/// A standalone server or a cluster: detects which, keeps the slot table, and sends each command to
/// the server that owns the key.
///
/// Errors   call(): kUnavailable: no server owns the slot, or its owner fails; kNoSpace: the server
///          is out of memory. Both are returned within the time given.
/// Threads  Any. A thread of its own refreshes the slot table after a redirection, and repeatedly
///          while a server of a cluster is failing.
class RemoteCluster {
 public:
  /// One exchange with a server. An error reply (-ERR …) goes into `refusal` and is not an error.
  using Exchange =
      std::function<Result<void>(RespConnection&, Duration deadline, std::string& refusal)>;
  struct CallOptions {
    RemoteLane lane = RemoteLane::kData;
    Duration time{0};
    bool ignore_breaker = false;
  };

  /// Tries to reach the servers once; if none answers, keeps trying in the background. The clock
  /// outlives the cluster.
  /// kInvalidArgument: `servers` has no seeds.
  static Result<std::unique_ptr<RemoteCluster>> open(RemoteServers servers, const Clock& clock);
  ~RemoteCluster();
  RemoteCluster(const RemoteCluster&) = delete;
  RemoteCluster& operator=(const RemoteCluster&) = delete;

  /// Runs `exchange` with the server that owns the key. Follows at most one redirection, and then
  /// calls `exchange` a second time.
  Result<void> call(std::string_view key, const CallOptions& options, const Exchange& exchange);

  /// The servers that own keys. kUnavailable: some keys have no server now.
  [[nodiscard]] Result<std::vector<std::shared_ptr<RemoteNode>>> masters() const;

  /// Identifies the server that owns the key: equal pointers, same server. nullptr: no server owns
  /// it, or its circuit breaker is open.
  [[nodiscard]] const void* reachable(std::string_view key) const;
  /// Number of replicas of the key's server, according to the slot table.
  [[nodiscard]] std::size_t replicas(std::string_view key) const;
  /// Asks the background thread to reread the slot table, because it may be stale.
  void request_refresh();
  [[nodiscard]] const RemoteServers& servers() const { return servers_; }
  [[nodiscard]] RemoteClusterStats stats() const;

 private:
  struct Table {
    bool is_cluster = false;
    std::vector<std::shared_ptr<RemoteNode>> nodes;
    std::vector<std::size_t> replicas;          // of each node
    std::array<std::uint16_t, kSlots> owner{};  // kNoOwner, or an index into `nodes`
  };
  static constexpr std::uint16_t kNoOwner = 0xFFFF;

  RemoteCluster(RemoteServers servers, const Clock& clock)
      : servers_(std::move(servers)), clock_(clock) {}
  [[nodiscard]] std::shared_ptr<const Table> table() const;
  [[nodiscard]] std::shared_ptr<RemoteNode> owner(std::string_view key) const;
  [[nodiscard]] std::shared_ptr<RemoteNode> find_node(const RemoteAddress& address) const;
  Result<std::shared_ptr<RemoteNode>> find_or_add_node(const RemoteAddress& address);
  /// The last call to some server of the cluster failed.
  [[nodiscard]] bool any_failing() const;
  /// Asks the servers in turn for the slot table until one answers; failing servers come last.
  void refresh();
  Result<void> read_slot_table(const RemoteAddress& address);
  Result<void> adopt(const std::vector<SlotRange>& ranges);
  void run();

  const RemoteServers servers_;
  const Clock& clock_;

  mutable Mutex mutex_;
  TimedCondition changed_;
  std::shared_ptr<const Table> table_ AFI_GUARDED_BY(mutex_);
  std::map<RemoteAddress, std::shared_ptr<RemoteNode>> nodes_ AFI_GUARDED_BY(mutex_);
  bool refresh_requested_ AFI_GUARDED_BY(mutex_) = false;
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::uint64_t redirected_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t tables_ AFI_GUARDED_BY(mutex_) = 0;
  std::string degraded_reason_ AFI_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the others
};

}  // namespace afterimage
